"""What overlapping saves on this machine and whether it harms a measurement; writes certificates.

Runs a benchmark set alternately serial and with every pair allowed to overlap whose declared resources do
not collide, and compares every metric of every pair that really overlapped: one-sided similarity of the
overlapped values to the serial ones. Pairs at 0.95 or above are certified for this hardware class.

Run: ``python benchmarks/overlap.py [suites/] [--rounds 3] [--store DIR]``; with ``--store`` the
certificates are written there, where ``pytest --anubis --anubis-store DIR -n auto`` finds them.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from pytest_anubis.core.run import RunRecord
from pytest_anubis.distributed.certificates import (
    Certificate,
    certify,
    save_certificates,
)
from pytest_anubis.store.journal import read_journal


def main() -> None:
    """Measure, print a table, and write certificates where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="?", default="suites")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", type=Path, help="store that gets the certificates")
    arguments = parser.parse_args()
    serial: list[RunRecord] = []
    beside: list[RunRecord] = []
    with tempfile.TemporaryDirectory() as folder:
        apart, together = Path(folder, "apart"), Path(folder, "together")
        for number in range(arguments.rounds):
            serial.append(run(arguments.suites, apart, f"apart{number}"))
            if number == 0:
                save_certificates(together, serial[0].hardware_class, candidates(serial[0]))
            beside.append(run(arguments.suites, together, f"together{number}"))
    certificates = certify(serial, beside)
    for one in certificates:
        word = "certified" if one.granted else f"refused: {one.reason}"
        print(f"{one.first}\n  + {one.second}\n    {one.similarity:.3f} ({one.metric})  {word}")
    walls = [[wall(record) for record in records] for records in (serial, beside)]
    apart_wall, together_wall = (statistics.median(one) for one in walls)
    print(f"pairs that overlapped: {len(certificates)}")
    print(f"serial {apart_wall:.1f} s, overlapping {together_wall:.1f} s (medians)")
    print(f"overlapping takes {together_wall / apart_wall:.3f} of the serial wall time")
    if arguments.store is not None:
        path = save_certificates(arguments.store, serial[0].hardware_class, certificates)
        print(f"written: {path}")


def run(suites: str, store: Path, name: str) -> RunRecord:
    """Run the set once, measuring only."""
    options = ["-nauto", f"--anubis-store={store}", f"--anubis-run-id={name}", "-q"]
    options += ["--anubis-mode=measure", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "--anubis", *options, suites]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return read_journal(store / "runs" / name)
    except ValueError as error:
        raise SystemExit(f"{error}\n{done.stdout}{done.stderr}") from error


def candidates(record: RunRecord) -> list[Certificate]:
    """Allow every pair; what collides by device or resource stays apart all the same."""
    benchmarks = sorted({plan.benchmark for plan in record.planned if plan.benchmark})
    return [
        Certificate(first=first, second=second, granted=True)
        for first, second in itertools.combinations(benchmarks, 2)
    ]


def wall(record: RunRecord) -> float:
    """Return the seconds from the first test's start to the last one's end."""
    return next(float(e["wall"]) for e in record.events if e["event"] == "dispatched")


if __name__ == "__main__":
    main()
