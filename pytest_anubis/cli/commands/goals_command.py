"""``anubis goals TESTS``: why everything is measured, as a tree, with the last verdicts."""

from __future__ import annotations

import argparse
import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.cli.shared.arguments import add_store, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.cli.shared.run_lookup import read_run
from pytest_anubis.report.text.goal_tree import BenchmarkGoal, goals_tree

if TYPE_CHECKING:
    from pytest_anubis.core.measurement import Measurement
    from pytest_anubis.core.verdict import MetricVerdict

MOST_RUNS = 50
"""Latest runs that are searched for a benchmark's last verdict."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Show why everything is measured: goals, questions and metrics of the benchmarks as a tree, with "
        "what the latest run of each concluded. Nothing is run.",
    )
    parser.add_argument("tests", nargs="+", metavar="TESTS", help="e.g. suites/")
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    """Collect the tests, without running them, and print the tree."""
    goals = _collect(options.tests)
    if not goals:
        raise CommandError(
            f"{' '.join(options.tests)}: no benchmarks (tests that use anubis_metric)"
        )
    measurements, verdicts = _last_known({goal.benchmark for goal in goals}, options.store)
    say(*goals_tree(goals, measurements, verdicts))
    return 0


def _last_known(benchmarks: set[str], store: Path) -> tuple[list[Measurement], list[MetricVerdict]]:
    """Return what the latest run of each benchmark measured and concluded; nothing without runs."""
    measurements: list[Measurement] = []
    verdicts: list[MetricVerdict] = []
    missing = set(benchmarks)
    journals = sorted(
        (store / "runs").glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime
    )
    for path in journals[: -MOST_RUNS - 1 : -1]:
        try:
            record = read_run(str(path), store)
        except CommandError:  # damaged, which is no matter here: an older one may tell
            continue
        here = {one.benchmark.partition("[")[0] for one in record.measurements} & missing
        measurements += [m for m in record.measurements if m.benchmark.partition("[")[0] in here]
        verdicts += [v for v in record.verdicts if v.benchmark.partition("[")[0] in here]
        missing -= here
        if not missing:
            break
    return measurements, verdicts


class _Goals:
    """Gathers what every collected benchmark says about itself."""

    def __init__(self) -> None:
        self.found: dict[str, BenchmarkGoal] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if "anubis_metric" not in getattr(item, "fixturenames", ()):
                continue
            said: dict[str, str] = {}
            for mark in reversed(list(item.iter_markers("anubis"))):  # the nearest counts
                said |= mark.kwargs
            name = item.nodeid.partition("[")[0]
            self.found[name] = BenchmarkGoal(
                benchmark=name,
                component=said.get("component", ""),
                goal=said.get("goal", ""),
                question=said.get("question", ""),
                action=said.get("action", ""),
            )


def _collect(tests: list[str]) -> list[BenchmarkGoal]:
    goals = _Goals()
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        arguments = ["--collect-only", "-q", "-p", "no:cacheprovider", *tests]
        status = pytest.main(arguments, plugins=[goals])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        lines = (errors.getvalue() + output.getvalue()).strip().splitlines()
        telling = [line for line in lines if line.startswith(("ERROR", "E  "))]
        raise CommandError("\n".join(telling or lines[-3:]))
    return list(goals.found.values())
