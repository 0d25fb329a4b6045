"""How long does a profile take on this node, test by test, beside what was planned?

Runs the set once in a profile, disturbed or not, and prints for each test what its mark plans for that
profile, what it took, how many times as long that is, and its duty;
then all of them together, and the run from its first test to its last where it was distributed. What does
not apply here is planned and takes nothing; it is counted apart.

Run: ``python benchmarks/suites/profile_times.py [--profile standard] [--tests suites] [--store DIR] [--for
9m]``. With ``--store`` the run is kept, and one that was cut short (``--for``, Ctrl-C) is gone on with: its
test in progress begins anew. ``--journals DIR`` reads a run that there is already. ``-n auto`` is passed
on.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import pytest

from benchmarks.suites.repeatability import IDLE, OVERDRAWN
from pytest_anubis.core.events import RunTimed
from pytest_anubis.core.run import RunRecord
from pytest_anubis.durations import seconds as seconds_of
from pytest_anubis.store.journal.journal_reading import read_journal

RUN = "profile-times"
LEFT = 75  # the exit status where tests are left, "try again later" of sysexits.h
ENDING = 120.0  # seconds that an interrupted run may take to write what it has
UNDONE = "not reported"  # the outcome of what was cut short
NAME = 74  # columns of a test's name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table; `LEFT` if tests are left, 1 if one took more than twice what was planned."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", choices=("smoke", "standard", "soak"), default="standard")
    parser.add_argument("--tests", nargs="+", default=["suites"])
    parser.add_argument("--store", type=Path, help="keep the run there; go on with one cut short")
    parser.add_argument("--for", dest="most", type=seconds_of, help="interrupt the run after it")
    parser.add_argument("--journals", type=Path, help="a run's folder: run nothing, read it")
    parser.add_argument("-n", dest="workers", help="workers, as of pytest")
    given = parser.parse_args(arguments)
    if given.journals is not None:
        return show(read_journal(given.journals))
    with tempfile.TemporaryDirectory() as folder:
        store = given.store or Path(folder)
        whole = run(store, given.profile, given.tests, given.workers, given.most)
        status = show(read_journal(store / "runs" / RUN))
    if not whole:
        print("tests are left: the same command with the same --store goes on")
        return LEFT
    return status


def run(
    store: Path, profile: str, tests: Sequence[str], workers: str | None, most: float | None
) -> bool:
    """Run the set, or go on; return whether it came to its end."""
    begun = (store / "runs" / RUN / "journal.jsonl").exists()
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests),
        *("--anubis", "--anubis-mode=measure", f"--anubis-profile={profile}"),
        *(f"--anubis-store={store}", f"--anubis-{'resume' if begun else 'run-id'}={RUN}"),
        *(("-n", workers) if workers else ()),
    ]
    process = subprocess.Popen(command, stdout=sys.stderr)
    try:
        process.wait(most)
        return process.returncode != pytest.ExitCode.INTERRUPTED
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as why:
        if not isinstance(why, KeyboardInterrupt):  # the terminal's reaches the run by itself
            process.send_signal(signal.SIGINT)
        process.wait(ENDING)
        return False
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def show(record: RunRecord) -> int:
    """Print what a run says; return 1 if a test took more than `OVERDRAWN` times what was planned."""
    planned = {plan.test: plan.cost for plan in record.planned}
    print(f"profile {record.profile}, node {record.node}, class {record.hardware_class}")
    print(f"{'test':{NAME}}{'planned':>9}{'took':>9}{'times':>7}{'duty':>6}")
    unclear = Counter[str]()
    for measurement in record.measurements:
        unclear[measurement.test] += measurement.unclear
    over = 0
    measured = [one for one in record.results if one.metrics]
    for one in measured:
        said, times = planned.get(one.test), float("nan")
        if said:
            times = one.seconds / said
        over += times > OVERDRAWN
        words = ["more than twice as long"] if times > OVERDRAWN else []
        if unclear[one.test]:
            words.append(f"{unclear[one.test]} more values in moments that were not clear")
        words += ["mostly preparation"] if one.duty is not None and one.duty < IDLE else []
        print(
            f"{one.test.removeprefix('suites/'):{NAME}}{said or float('nan'):9.1f}{one.seconds:9.1f}"
            f"{times:7.2f}{'-' if one.duty is None else f'{one.duty:.0%}':>6}"
            f"  {', '.join(words)}".rstrip()
        )
    ids = {one.test for one in measured}
    others = [one for one in record.results if one.test not in ids and one.outcome != UNDONE]
    done = ids | {one.test for one in others}
    for name, some, took in (
        ("measured", ids, sum(one.seconds for one in measured)),
        ("measured nothing here", done - ids, sum(one.seconds for one in others)),
        ("not run yet", planned.keys() - done, 0.0),
    ):
        plan = sum(planned.get(test) or 0.0 for test in some)
        ratio = took / plan if plan else float("nan")
        print(f"{f'{len(some)} tests: {name}':{NAME}}{plan:9.1f}{took:9.1f}{ratio:7.2f}")
    around = sum(one.around for one in record.results)
    print(f"besides: {around:.1f} s in setups and teardowns")
    timed = [event for event in record.events if isinstance(event, RunTimed)]
    if len(timed) == 1 and not planned.keys() - done:  # of parts nobody has planned what each takes
        print(
            f"from the first test to the last one, by lanes: planned {timed[0].predicted:.1f} s, "
            f"took {timed[0].wall:.1f} s, {timed[0].wall / timed[0].predicted:.2f} times"
        )
    return int(over > 0)


if __name__ == "__main__":
    raise SystemExit(main())
