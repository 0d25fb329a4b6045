"""Measures how long `anubis seal` and `anubis verify` take for a run of many tests.

The run is a recorded one (eight cards, one of them slow), repeated under other names with more values.

Run: ``python benchmarks/sessions/sealing.py [--tests 500] [--values 200] [--times 5]``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pytest_anubis.cli.main import main
from pytest_anubis.store.baselines.baseline_files import save_baseline, seal
from pytest_anubis.store.baselines.baseline_form import baseline_from_plain
from pytest_anubis.store.journal.journal_lines import line_of, parse_line, text_of
from tests.golden.runs import BASELINES, RUNS

NAME = "cards.py::test_copy"
RUN = RUNS / "slow-card" / "journal.jsonl"
CARDS = 8


def names(tests: int) -> list[str]:
    """Return the names of the repeated benchmark, one for each eight tests."""
    return [f"{NAME}_{number:03d}" for number in range(math.ceil(tests / CARDS))]


def write_baseline(folder: Path, every: list[str]) -> str:
    """Write the recorded baseline with criteria for all names; return its digest."""
    (path,) = BASELINES.glob("8x-*.json")
    plain = json.loads(path.read_text("utf-8"))
    others = [one for one in plain["criteria"] if one["benchmark"] != NAME]
    mine = [one for one in plain["criteria"] if one["benchmark"] == NAME]
    plain["criteria"] = others + [one | {"benchmark": name} for name in every for one in mine]
    baseline = baseline_from_plain(plain)
    save_baseline(baseline, folder)
    return seal(baseline).digest


def events(every: list[str], values: int, digest: str) -> Iterator[dict[str, Any]]:
    """Yield the events of the repeated run."""
    for line in RUN.read_bytes().splitlines():
        event = parse_line(line)
        event.pop("seq")
        if event["event"] == "run_started":
            yield event | {"baseline": digest}
        elif event["event"] == "planned":
            tests = event["tests"]
            mine = [one for one in tests if one["benchmark"] == NAME]
            rest = [one for one in tests if one["benchmark"] != NAME]
            yield event | {"tests": rest + [renamed(one, n) for n in every for one in mine]}
        elif NAME in event.get("test", "") or event.get("benchmark") == NAME:
            for name in every:
                one = renamed(event, name)
                if one["event"] == "measurement":
                    one["values"] = (one["values"] * values)[:values]
                elif one["event"] == "verdict":
                    one |= {"count": values, "baseline": digest}
                yield one
        else:
            yield event


def renamed(plain: dict[str, Any], name: str) -> dict[str, Any]:
    """Return plain data in which the repeated benchmark has another name."""
    found: dict[str, Any] = json.loads(json.dumps(plain).replace(NAME, name))
    return found


def seconds(*words: str) -> tuple[float, float]:
    """Run one command in this process; return how long it took, and its CPU time."""
    began, worked = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main(words)
    if code not in (0, 1):
        raise SystemExit(f"anubis {words[0]}: exit code {code}: {said.getvalue()}")
    return time.perf_counter() - began, time.process_time() - worked


def run(options: argparse.Namespace, folder: Path) -> None:
    """Seal and verify, and print the median times."""
    every = names(options.tests)
    digest = write_baseline(folder / "baselines", every)
    lines = (line_of(text_of(e), n) for n, e in enumerate(events(every, options.values, digest), 1))
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(lines))
    key = Ed25519PrivateKey.generate()
    form = (pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
    info = (pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)
    (folder / "key.pub").write_bytes(key.public_key().public_bytes(*info))
    sealing, verifying = [], []
    for number in range(options.times + 1):
        archive = folder / f"{number}.zip"
        words = (str(journal), f"--baseline={folder / 'baselines'}", f"-o={archive}")
        sealing.append(seconds("seal", *words, f"--key={folder / 'key.pem'}"))
        verifying.append(seconds("verify", str(archive), f"--key={folder / 'key.pub'}"))
    tests, size = CARDS * len(every), archive.stat().st_size
    print(f"{tests} tests of {options.values} values, archive of {size / 1e6:.1f} MB")
    for name, took in (("seal", sealing), ("verify", verifying)):
        whole, worked = (statistics.median(column) for column in zip(*took[1:], strict=True))
        # The first one also imports.
        print(f"{name:7} {whole:5.2f} s (CPU {worked:.2f} s), the first {took[0][0]:.2f} s")


def options_of() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tests", type=int, default=500, help="tests of the run")
    parser.add_argument("--values", type=int, default=200, help="values of each")
    parser.add_argument("--times", type=int, default=5, help="times that each command runs")
    return parser.parse_args()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        run(options_of(), Path(scratch))
