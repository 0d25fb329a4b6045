"""For which share of a test does a card measure? Device tests of the suites, and the collectives, in smoke.

Runs the suites on the stand-in node, where one CPU thread does the work of a card and shapes are small: what
it shows is what the tests do *beside* measuring, in the proportions of a CPU. Prints for each test the
seconds of its setup (where torch and its optimisers are loaded, once a process), of its call, those of the
call in which what it measures was running, and their ratio, the duty. A test is run several times, and the
median is told.
Run: ``python benchmarks/accelerators/duty.py [--runs 3] [--cards 1] [--only EXPRESSION]``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks import ROOT
from benchmarks.accelerators import stand_in_node
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.hardware.nvml_stand_in import Node, nvml_library

WANTED = 0.5
"""Smallest duty of a test on a device: below it a card cools between measurements."""

LONGEST = 1800.0
"""Seconds that a run may take; on two shared cores it is over in three minutes for one card."""

SETUP = re.compile(r"([0-9.]+)s setup +(\S+)")
COPIED = ("suites", "tests", "benchmarks", "conftest.py", "pyproject.toml")

Seconds = tuple[float, float, float]


def run(cards: int, only: str, place: Path) -> Iterator[tuple[str, Seconds]]:
    """Run the suites once.

    Args:
        cards: How many cards are shown, each with a worker of its own.
        only: What pytest's ``-k`` selects.
        place: An empty folder.

    Yields:
        Node id, and the seconds of setup, of the call, and of what was measured in it.
    """
    for name in COPIED:
        (place / name).symlink_to(ROOT / name)
    node = Node(place / "nvml.txt", nvml_library())
    shown = ",".join(map(str, range(cards)))
    command = [
        *(sys.executable, "-m", "pytest", "--anubis", "--anubis-mode=measure", "suites/"),
        *("-p", "tests.suites.stand_in_node", "-p", "no:cacheprovider", f"--rootdir={place}"),
        *("-n", str(cards + 1), "-k", only, "--durations=0", "-vv", "-q"),
    ]
    done = subprocess.run(
        command, cwd=place, env=stand_in_node.environment(node, {"CUDA_VISIBLE_DEVICES": shown}),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST, check=False,
    )  # fmt: skip
    journals = list(place.glob(".anubis/runs/*/journal.jsonl"))
    if not journals:
        raise SystemExit(f"the run has no journal:\n{done.stdout}{done.stderr}")
    setups = {test: float(seconds) for seconds, test in SETUP.findall(done.stdout)}
    for result in read_journal(journals[0]).results:
        if result.outcome not in ("passed", "skipped"):
            raise SystemExit(f"{result.test} {result.outcome}: {result.text}")
        if result.outcome == "passed":
            yield result.test, (setups.get(result.test, 0.0), result.seconds, result.busy)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if the duty of a test is below a half."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of all tests")
    parser.add_argument(
        "--cards", type=int, default=1, help="how many are tested at a time, at most 8"
    )
    parser.add_argument("--only", default="cuda or collective", help="pytest's -k")
    chosen = parser.parse_args(arguments)
    found: dict[str, list[Seconds]] = {}
    for _ in range(chosen.runs):
        place = Path(tempfile.mkdtemp(prefix="device-duty-"))
        try:
            for test, seconds in run(chosen.cards, chosen.only, place):
                found.setdefault(test, []).append(seconds)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    print("| test | setup | call | measured | duty | least |\n|---|---|---|---|---|---|")
    low = []
    for test, taken in found.items():
        setup, call, measured = (median(column) for column in zip(*taken, strict=True))
        duties = [busy / whole for _, whole, busy in taken]
        cells = (
            test.removeprefix("suites/"),
            f"{setup:.1f} s",
            f"{call:.1f} s",
            f"{measured:.1f} s",
        )
        print(f"| {' | '.join(cells)} | {median(duties):.0%} | {min(duties):.0%} |")
        low += [test] if median(duties) < WANTED else []
    if low:
        print(f"\nbelow {WANTED:.0%}: {', '.join(low)}")
    return int(bool(low) or not found)


if __name__ == "__main__":
    raise SystemExit(main())
