"""Does load excuse a wrong result? Each exact metric of the set, wrong by 3, on a host with all cores busy.

Learns the host's exact metrics from three rounds, then, with all cores busy, runs the tests once as they are,
and for each metric its test with what it records raised by 3: verdict, what fails, exit status. Times that
load spoils are nobody's business here: the run as it is ends with 20 on a busy machine.

Run: ``python benchmarks/suites/wrong_under_load.py [--profile standard] [--only METRIC ...]``; of `standard`
half an hour on two cores, of what `smoke` has (``--only exact_errors exact_fingerprint burn_errors``)
minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks import ROOT
from benchmarks.sessions.reality import busy
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.store.journal.journal_reading import read_journal

WRONG = "ANUBIS_BENCHMARK_WRONG"
ANY_LOAD = "--anubis-quiet-limit=steal=100%,others=100%,cpu=100%"
"""Of learning alone, whose exact values no load can change."""
BY = 3.0  # what a wrong value is off by: three flipped bits, three wrong rows
TESTS = {
    "suites/compute/test_exact.py::test_same_bits_everywhere[cpu]": (
        "exact_errors",
        "exact_fingerprint",
    ),
    "suites/burn/test_cores.py::test_burn_cores": ("burn_errors",),
    "suites/burn/test_cores.py::test_core_load_steps": ("step_errors",),
    "suites/memory/test_patterns.py::test_host_patterns": ("pattern_errors",),
    "suites/workload/test_same_bits.py::test_same_bits[cpu-llama-small-float32]": (
        "training_bits",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a wrong result did not fail, or a right one did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="standard")
    parser.add_argument("--only", nargs="+", metavar="METRIC", help="these exact metrics alone")
    given = parser.parse_args(arguments)
    wanted = given.only or [name for names in TESTS.values() for name in names]
    tests = [test for test, names in TESTS.items() if set(names) & set(wanted)]
    cores = os.cpu_count() or 1
    bad = 0
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        learn = [
            "-m",
            "pytest_anubis",
            "learn",
            *tests,
            "--rounds",
            "3",
            "--profile",
            given.profile,
        ]
        done = call(folder, "", [*learn, f"--pytest-args={ANY_LOAD}"])
        print(
            f"learned from three rounds: exit {done}; from here on {cores} of {cores} cores are busy"
        )
        stack.enter_context(busy(cores))
        print(f"{'wrong':20} {'verdict':14} {'fails':32} {'others of it exact':20} exit")
        for metric in ("", *wanted):
            of_it = [test for test in tests if not metric or metric in TESTS[test]]
            status, run = measured(folder, metric, of_it, given.profile)
            exact = {v.metric: v for v in run.verdicts if v.better == "equal"}
            failed = sorted(name for name, v in exact.items() if v.outcome is Outcome.FAIL)
            one = exact.get(metric)
            right = failed == ([metric] if metric else []) and (status == 1) is bool(metric)
            bad += not right
            told = one.outcome.value if one is not None else "-"
            passed = sum(v.outcome is Outcome.PASS for v in exact.values())
            print(
                f"{metric or 'nothing':20} {told:14} {', '.join(failed) or '-':32} "
                f"{f'{passed} PASS':20} {status}{'' if right else '   WRONG'}",
                flush=True,
            )
    return bool(bad)


def measured(folder: str, metric: str, tests: Sequence[str], profile: str) -> tuple[int, RunRecord]:
    """Run tests once with a metric made wrong; return exit status and the run."""
    name = f"wrong-{metric.replace('_', '-') or 'nothing'}"
    command = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "benchmarks.suites.wrong_results",
    ]
    command += [*tests, "--anubis", f"--anubis-profile={profile}", f"--anubis-run-id={name}"]
    status = call(folder, metric, command)
    return status, read_journal(Path(folder, "store", "runs", name))


def call(folder: str, metric: str, command: Sequence[str]) -> int:
    """Run a command of Python's with store and baselines in a folder; return its exit status."""
    places = [f"{folder}/store", f"{folder}/baselines"]
    own = (
        [f"--store={places[0]}", f"--output={places[1]}"]
        if "learn" in command
        else [f"--anubis-store={places[0]}", f"--anubis-baseline={places[1]}"]
    )
    return subprocess.run(
        [sys.executable, *command, *own],
        cwd=ROOT,
        env={**os.environ, WRONG: metric, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
