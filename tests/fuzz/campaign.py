"""Run batches of mutated files in processes, so that one that dies or hangs affects no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.readers import READERS

ROOT = Path(__file__).parents[2]

BATCH = 400
"""Inputs of one process: its start takes a second, the inputs some ten milliseconds each."""

PATIENCE = 900
"""Seconds for a batch: thirty times what it takes on an idle machine. C code that never returns ends here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A defect in reading one input.

    Attributes:
        reader: The reader's name.
        number: The input's.
        seed: The healthy file that it was made of.
        how: Its mutations.
        problem: One line.
    """

    reader: str
    number: int
    seed: str = ""
    how: Sequence[str] = ()
    problem: str

    def __str__(self) -> str:
        how = f" of {self.seed} ({', '.join(self.how)})" if self.seed else ""
        return f"{self.reader}, input {self.number}{how}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """The result of a campaign.

    Attributes:
        tried: Reader -> inputs that were read.
        found: Every defect.
    """

    tried: Mapping[str, int]
    found: tuple[Found, ...]

    def table(self) -> str:
        """Return the table of `docs/reliability.md`."""
        rows = ["| reader | tried | survived | defects |", "|---|---|---|---|"]
        bad = {name: sum(one.reader == name for one in self.found) for name in self.tried}
        figures = [(name, count, bad[name]) for name, count in self.tried.items()]
        figures.append(("all", sum(self.tried.values()), len(self.found)))
        rows += [
            f"| {name} | {count:,} | {count - wrong:,} | {wrong} |"
            for name, count, wrong in figures
        ]
        return "\n".join(rows)


def run_campaign(
    inputs: int,
    *,
    seed: int = 0,
    readers: Sequence[str] = tuple(READERS),
    together: bool = False,
    processes: int = 1,
    keep: Path | None = None,
) -> Campaign:
    """Feed readers with mutated files.

    Args:
        inputs: How many in all, shared out evenly.
        seed: Of all of them.
        readers: Names of readers.
        together: All in one process, whose start then counts once: for a few inputs.
        processes: How many at the same time.
        keep: Folder for the inputs that are defects.
    """
    share = {
        name: inputs // len(readers) + (n < inputs % len(readers)) for n, name in enumerate(readers)
    }
    batches = [
        (name, first, min(BATCH, count - first))
        for name, count in share.items()
        for first in range(0, count, BATCH)
    ]
    groups = [batches] if together else [[one] for one in batches]
    with ThreadPoolExecutor(processes) as pool:
        results = list(pool.map(lambda group: _run(group, seed, keep), groups))
    return Campaign(tried=share, found=tuple(one for found in results for one in found))


def _run(batches: list[tuple[str, int, int]], seed: int, keep: Path | None) -> list[Found]:
    """Run batches in one process; if it dies, note the input and go on behind it in another one."""
    found: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="anubis-fuzz-") as place:
        at = Path(place) / "at"
        while batches:
            at.write_text("", encoding="utf-8")
            said, end = _process(batches, seed, at, keep)
            found += [Found(**line) for line in said]
            if not end:
                return found
            name, _, number = at.read_text(encoding="utf-8").rpartition(":")
            if not name:
                raise RuntimeError(f"{batches[0][0]}: a healthy file is not read: {end}")
            found.append(Found(reader=name, number=int(number), problem=end))
            batches = _behind(batches, name, int(number))
    return found


def _process(
    batches: list[tuple[str, int, int]], seed: int, at: Path, keep: Path | None
) -> tuple[list[Any], str]:
    """Return what a process said, and how it ended; empty if well."""
    command = [sys.executable, "-m", "tests.fuzz.batch", f"--seed={seed}", f"--at={at}"]
    command += [f"--keep={keep}"] if keep is not None else []
    command += [":".join(map(str, batch)) for batch in batches]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(at.parent)},
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=PATIENCE)
        end = (
            f"the process died ({process.returncode}): {err[-300:]!r}" if process.returncode else ""
        )
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        end = "no end"
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")], end


def _behind(
    batches: list[tuple[str, int, int]], name: str, number: int
) -> list[tuple[str, int, int]]:
    """Return what is left of batches after an input."""
    place = next(
        n
        for n, (of, first, count) in enumerate(batches)
        if of == name and first <= number < first + count
    )
    _, first, count = batches[place]
    rest = (name, number + 1, first + count - number - 1)
    return [one for one in (rest, *batches[place + 1 :]) if one[2]]
