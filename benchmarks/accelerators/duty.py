"""For which share of a test does what it measures run? Every test of the suites that runs, in smoke.

Runs the suites on the stand-in node, where one CPU thread does the work of a card and shapes are small: what
it shows is what the tests do *beside* measuring, in the proportions of a CPU. With ``--cards 0`` on this
machine's own CPU. Prints for each test the seconds of its setup (where torch and its optimisers are loaded,
once a process), of its call without waits for a quiet machine, those of the call in which what it measures
was running, and their ratio, the duty. A test is run several times, and the median is told.
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

WANTED, ON_A_HOST = 0.5, 1 / 3
"""Smallest duty of a test on a device, which cools between measurements below it, and on a CPU: what measures
for less has a reason that is told, or is mended."""

LONGEST = 1800.0
"""Seconds that a run may take; on two shared cores it is over in three minutes for one card."""

SETUP = re.compile(r"([0-9.]+)s setup +(\S+)")
COPIED = ("suites", "tests", "benchmarks", "conftest.py", "pyproject.toml")

Seconds = tuple[float, float, float]


def run(cards: int, only: str, place: Path) -> Iterator[tuple[str, Seconds]]:
    """Run the suites once.

    Args:
        cards: How many cards are shown, each with a worker of its own; 0: this machine as it is.
        only: What pytest's ``-k`` selects.
        place: An empty folder.

    Yields:
        Node id, and the seconds of setup, of the call without waits, and of what was measured in it.
    """
    for name in COPIED:
        (place / name).symlink_to(ROOT / name)
    command = [
        *(sys.executable, "-m", "pytest", "--anubis", "--anubis-mode=measure", "suites/"),
        *("-p", "no:cacheprovider", f"--rootdir={place}", "-k", only, "--durations=0", "-vv", "-q"),
    ]
    environment = None
    if cards:
        command += ["-p", "tests.suites.stand_in_node", "-n", str(cards + 1)]
        shown = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(cards)))}
        environment = stand_in_node.environment(Node(place / "nvml.txt", nvml_library()), shown)
    done = subprocess.run(
        command, cwd=place, env=environment,
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
    """Print the table; return 1 if the duty of a test is below what is wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of all tests")
    parser.add_argument(
        "--cards",
        type=int,
        default=1,
        help="how many are tested at a time, at most 8; 0: the CPU of this machine",
    )
    parser.add_argument(
        "--only", help="pytest's -k; default: `cuda or collective`, on a CPU everything"
    )
    chosen = parser.parse_args(arguments)
    only = chosen.only if chosen.only is not None else "cuda or collective" * bool(chosen.cards)
    wanted = WANTED if chosen.cards else ON_A_HOST
    found: dict[str, list[Seconds]] = {}
    for _ in range(chosen.runs):
        place = Path(tempfile.mkdtemp(prefix="device-duty-"))
        try:
            for test, seconds in run(chosen.cards, only, place):
                found.setdefault(test, []).append(seconds)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    print("| test | setup | call | measured | duty | least |\n|---|---|---|---|---|---|")
    low = []
    for test, taken in found.items():
        setup, call, measured = (median(column) for column in zip(*taken, strict=True))
        duties = [min(1.0, busy / whole) if whole else 0.0 for _, whole, busy in taken]
        cells = (
            test.removeprefix("suites/"),
            f"{setup:.1f} s",
            f"{call:.1f} s",
            f"{measured:.1f} s",
        )
        told = [f"{share:.0%}" if measured else "-" for share in (median(duties), min(duties))]
        print(f"| {' | '.join((*cells, *told))} |")
        # What times nothing, such as a comparison of bits, has no duty.
        low += [test] if measured and median(duties) < wanted else []
    whole, busy = (sum(median(one[i] for one in taken) for taken in found.values()) for i in (1, 2))
    if found:
        print(f"\nall tests: {busy:.0f} s measured of {whole:.0f} s in calls, {busy / whole:.0%}")
    if low:
        print(f"below {wanted:.0%}: {', '.join(low)}")
    return int(bool(low) or not found)


if __name__ == "__main__":
    raise SystemExit(main())
