"""``anubis goals TESTS``: why everything is measured, as a tree, with the last verdicts."""

from __future__ import annotations

import argparse
import contextlib
import io

import pytest

from pytest_anubis.cli.arguments import add_store
from pytest_anubis.cli.errors import CommandError
from pytest_anubis.cli.runs import read_run
from pytest_anubis.report.goals import BenchmarkGoal


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("tests", nargs="+", metavar="TESTS", help="e.g. suites/")
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    """Collect the tests, without running them, and print the tree."""
    from pytest_anubis.report.goals import goals_tree

    goals = _collect(options.tests)
    if not goals:
        raise CommandError(
            f"{' '.join(options.tests)}: no benchmarks (tests that use anubis_metric)"
        )
    try:
        record = read_run("latest", options.store)
    except CommandError:  # nothing was run yet: the tree without verdicts is what there is
        print(goals_tree(goals, (), ()))
        return 0
    print(goals_tree(goals, record.measurements, record.verdicts))
    return 0


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
