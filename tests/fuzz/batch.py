"""One process that feeds mutated files to readers; started by ``campaign.py``, or by hand for one input.

Usage: python -m tests.fuzz.batch --seed 0 "baseline:120:1" [--keep FOLDER]

A batch is a reader's name, the number of its first input and how many. Input N of a reader is always the
same under the same seed. Prints one line of JSON for every defect.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.healthy_files import Reader, Seed
from tests.fuzz.mutations import Mutated, mutate
from tests.fuzz.readers import READERS

HANG = 10
"""Seconds of processor time after which an input counts as hung: a loaded machine is no defect."""

MEMORY = 500 << 20
"""Bytes beyond those of the start that reading one small file may take."""


class HungError(BaseException):
    """The input took too long; nothing of ours catches it."""


def main() -> None:
    """Run the batches that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("batches", nargs="+", metavar="READER:FIRST:COUNT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at", type=Path, help="file that always holds the input being read")
    parser.add_argument("--keep", type=Path, help="folder for inputs that are defects")
    options = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("error")  # a user would see them among our lines
    signal.signal(signal.SIGPROF, _hung)
    tempfile.tempdir = None  # whoever it was forked from has asked for another one
    with tempfile.TemporaryDirectory(prefix="anubis-fuzz-") as place:
        for batch in options.batches:
            name, first, count = batch.rsplit(":", 2)
            run_batch(READERS[name], Path(place), options, int(first), int(count))


def run_batch(
    reader: Reader, place: Path, options: argparse.Namespace, first: int, count: int
) -> None:
    """Feed one reader with its inputs."""
    scratch = place / reader.name / "seeds"
    scratch.mkdir(parents=True, exist_ok=True)
    seeds = reader.seeds(scratch)
    for seed in seeds:  # what they need is loaded before memory is counted
        _feed(reader, seed, seed.content, False, scratch.parent / "warm", 0)
    for number in range(first, first + count):
        seed, mutated, chance = input_of(reader, seeds, options.seed, number)
        if options.at is not None:
            options.at.write_text(f"{reader.name}:{number}", encoding="utf-8")
        problem = ""
        gc.collect(0)
        try:
            with _limited():
                work = scratch.parent / "work"
                _feed(reader, seed, mutated.content, not mutated.edited, work, chance)
        except HungError:
            problem = f"hung for {HANG} s"
        except BaseException as error:  # every kind is a defect
            problem = _told(error)
        if problem:
            defect = {"reader": reader.name, "number": number, "seed": seed.about or seed.name}
            defect |= {"how": mutated.how, "problem": problem}
            os.write(1, (json.dumps(defect) + "\n").encode())
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                name = f"{reader.name.replace(' ', '_')}-{number}-{seed.name}"
                (options.keep / name).write_bytes(mutated.content)


def input_of(reader: Reader, seeds: Any, seed: int, number: int) -> tuple[Seed, Mutated, int]:
    """Return an input of a reader by its number, and a seed for what the reader itself draws."""
    rng = random.Random(f"{seed}/{reader.name}/{number}")
    healthy = seeds[rng.randrange(len(seeds))]
    return healthy, mutate(rng, healthy.content, reader.form), rng.randrange(1 << 30)


def _feed(
    reader: Reader, seed: Seed, content: bytes, damaged: bool, folder: Path, chance: int
) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / seed.name
    path.write_bytes(content)
    try:
        reader.read(seed, path, damaged, random.Random(chance))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Bound processor time and memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (_data_size() + MEMORY, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _data_size() -> int:
    """Return the bytes of private memory of this process."""
    with Path("/proc/self/status").open(encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:"))


def _hung(*_: object) -> None:
    raise HungError


def _told(error: BaseException) -> str:
    """Return an error in one line, with the last place of ours that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "pytest_anubis" in f.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
    return f"{type(error).__name__}: {str(error)[:200]!r} ({where})"


if __name__ == "__main__":
    main()
    sys.exit(0)
