"""What overlapping saves on this machine, and whether it harms a measurement.

Measures certificates (``anubis certify``), then runs the set alternately serial (``-n0``) and distributed
with these certificates (``-n auto``), and compares every metric: one-sided similarity of the distributed
runs' values to the serial ones'. A second column says what two halves of the *serial* runs are alike: below
that, the machine's own noise speaks. A star marks the benchmarks that really ran beside another one; the
others had the machine to themselves in all runs, so their figures are noise and nothing else.

Run: ``python benchmarks/sessions/overlap.py [suites/] [--rounds 3]``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from pytest_anubis.cli.commands.certify_command import wall_of
from pytest_anubis.core.metric import Direction
from pytest_anubis.core.run import RunRecord
from pytest_anubis.distributed.dispatch.certificates import ALPHA, overlaps
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.validator import one_sided

Key = tuple[str, str, str]


def main() -> None:
    """Certify, run both ways in turns, print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="?", default="suites")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        certify = [sys.executable, "-m", "pytest_anubis.cli.main", "certify", arguments.suites]
        certify += [f"--rounds={max(3, arguments.rounds)}", "-o", str(place / "certified")]
        subprocess.run([*certify, "--store", str(place / "store")], check=True)
        serial, beside = [], []
        for number in range(arguments.rounds):
            serial.append(run(arguments.suites, place, "none", "-n0", f"serial{number}"))
            beside.append(run(arguments.suites, place, "certified", "-nauto", f"beside{number}"))
    show(serial, beside)


def run(suites: str, place: Path, baselines: str, workers: str, name: str) -> RunRecord:
    """Run the set once, measuring only."""
    options = [workers, f"--anubis-store={place / 'store'}", f"--anubis-run-id={name}", "-q"]
    options += [f"--anubis-baseline={place / baselines}", "--anubis-mode=measure"]
    options += ["-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "--anubis", *options, suites]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return read_journal(place / "store" / "runs" / name)
    except ValueError as error:
        raise SystemExit(f"{error}\n{done.stdout}{done.stderr}") from error


def show(serial: Sequence[RunRecord], beside: Sequence[RunRecord]) -> None:
    """Print wall times, then every metric, the worst first."""
    apart, together = ([wall_of(record) for record in runs] for runs in (serial, beside))
    ratios = [b / a for a, b in zip(apart, together, strict=True)]
    print(
        f"serial {statistics.median(apart):.1f} s, distributed {statistics.median(together):.1f} s"
    )
    print(f"distributed takes {statistics.median(ratios):.3f} of the serial wall time")
    print(
        f"{'distributed':>11} {'serial':>7}  metric (similarity to all serial values; * overlapped)"
    )
    overlapped = {name for record in beside for pair in overlaps(record) for name in pair}
    base, theirs = values_of(serial), values_of(beside)
    halves = [values_of(serial[start::2]) for start in (0, 1)]
    rows = []
    for key, (better, values) in theirs.items():
        if key in base:
            own = [h[key][1] for h in halves if key in h]
            noise = one_sided(own[0], own[1], better) if len(own) > 1 else 1.0
            rows.append((one_sided(values, base[key][1], better), noise, key))
    for similarity, noise, (benchmark, metric, device) in sorted(rows):
        star = "*" if benchmark in overlapped else " "
        print(f"{similarity:11.3f} {noise:7.3f} {star}{benchmark} {metric} {device}")
    for what, some in (
        ("overlapped", [row for row in rows if row[2][0] in overlapped]),
        ("never overlapped", [row for row in rows if row[2][0] not in overlapped]),
    ):
        print(f"{sum(row[0] < ALPHA for row in some)} of {len(some)} metrics {what} below {ALPHA}")


def values_of(records: Sequence[RunRecord]) -> dict[Key, tuple[Direction, list[float]]]:
    """Return (benchmark, metric, device) -> direction and all values."""
    found: dict[Key, tuple[Direction, list[float]]] = {}
    for record in records:
        for one in record.measurements:
            key = (one.benchmark, one.metric.name, one.device)
            found.setdefault(key, (one.metric.better, []))[1].extend(one.values)
    return found


if __name__ == "__main__":
    main()
