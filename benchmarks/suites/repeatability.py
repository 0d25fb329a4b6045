"""How well do the benchmarks repeat on this machine, how long do they take, and how much of it measures?

Measures the smoke set as often as asked, disturbed or not, and prints for each metric the mean pairwise
similarity of the runs (design 6.1) and the spread of their means; for each test the seconds that it took
beside those that its mark declares, and its duty: the share of them inside timed rounds, warm-up included.
Then the whole set: seconds of a run from start to end, and the share inside timed rounds of all its tests.

Run: ``python benchmarks/suites/repeatability.py [--runs 10] [--tests suites] [--journals DIR]``. The machine
should do nothing else meanwhile; ``--journals`` reads runs that there are already.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks.validator.measured_runs import populations_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator import learn_criterion

WANTED = 0.95  # similarity: below it alpha alone would reject a machine against itself
LONGEST, SHARE = (
    180.0,
    0.4,
)  # seconds of the set on two cores, and least share of them in timed rounds
OVERDRAWN = 2.0  # times its declared cost: from there on a test's cost is not true
IDLE = 1 / 3  # duty below which a test's time is mostly preparation


def main() -> None:
    """Measure, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--tests", default="suites")
    parser.add_argument("--journals", type=Path)
    arguments = parser.parse_args()
    if arguments.journals is not None:
        show(arguments.journals, ())
        return
    with tempfile.TemporaryDirectory() as folder:
        took = []
        for number in range(arguments.runs):
            begin = time.perf_counter()
            command = [
                sys.executable,
                "-m",
                "pytest",
                "--anubis",
                "--anubis-mode=measure",
                "-q",
                arguments.tests,
            ]
            command += [
                f"--anubis-store={folder}",
                f"--anubis-run-id=r{number}",
                "-p",
                "no:cacheprovider",
            ]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            took.append(time.perf_counter() - begin)
        show(Path(folder), took)


def show(folder: Path, took: list[float] | tuple[float, ...]) -> None:
    """Print what runs say."""
    records = [read_journal(journal.parent) for journal in sorted(folder.rglob("journal.jsonl"))]
    if not records:
        sys.exit(f"{folder}: no runs there")
    _metrics(records)
    _tests(records)
    busy = [sum(one.busy or 0.0 for one in record.results) for record in records]
    inside = [sum(one.seconds for one in record.results) for record in records]
    print(
        f"\nthe set: {median(busy):.0f} s in timed rounds of {median(inside):.0f} s in tests",
        end="",
    )
    if took:
        share = median(b / t for b, t in zip(busy, took, strict=True))
        print(f" and {median(took):.0f} s from start to end: share {share:.2f}", end="")
        print(f" (wanted: at most {LONGEST:.0f} s, at least {SHARE})", end="")
    print()


def _metrics(records: list[RunRecord]) -> None:
    print(f"{'metric':72}{'similarity':>11}{'spread':>8}  of {len(records)} runs")
    low = 0
    for population in populations_of(records):
        means = [float(population.sample(row).mean()) for row in range(len(population))]
        criterion = learn_criterion(population, one_machine=True).criterion
        like = None if criterion is None else criterion.repeatability
        if like is None:
            continue
        low += like < WANTED
        label = f"{population.benchmark.rpartition('/')[2]} {population.metric.name}"
        centre = fmean(means)
        spread = (
            (sum((m - centre) ** 2 for m in means) / max(len(means) - 1, 1)) ** 0.5 / centre
            if centre
            else 0.0
        )
        print(f"{label:72}{like:11.3f}{spread:8.1%}{'' if like >= WANTED else f'  below {WANTED}'}")
    print(f"{low} below {WANTED}")


def _tests(records: list[RunRecord]) -> None:
    seconds, duty = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    declared: dict[str, float | None] = {}
    unclear = Counter[str]()
    for record in records:
        for measurement in record.measurements:
            unclear[measurement.test] += measurement.unclear
        declared |= {plan.test: plan.cost for plan in record.planned}
        for one in record.results:
            seconds[one.test].append(one.seconds)
            if one.duty is not None:
                duty[one.test].append(one.duty)
    print(f"\n{'test':72}{'seconds':>9}{'declared':>9}{'duty':>7}")
    idle = [test for test in seconds if test not in duty]
    for test, found in seconds.items():
        if test in idle:
            continue
        took, said, share = median(found), declared.get(test), median(duty[test])
        words = (
            [f"{took / said:.1f} times as long as declared"]
            if said and took > OVERDRAWN * said
            else []
        )
        words += ["mostly preparation"] if share < IDLE else []
        if unclear[test]:
            words.append(f"{unclear[test]} more values in moments that were not clear")
        print(
            f"{test.rpartition('/')[2]:72}{took:9.1f}{said if said is not None else float('nan'):9.1f}"
            f"{share:>7.0%}  {', '.join(words)}"
        )
    print(f"{len(idle)} tests measured nothing here, mostly as they do not apply")


if __name__ == "__main__":
    main()
