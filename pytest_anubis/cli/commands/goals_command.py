"""``anubis goals TESTS``: why all is measured (goals, questions, metrics), with the latest verdicts.

`cli.main` imports it by its name.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.cli.shared.arguments import add_json, add_store, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import say, write_file
from pytest_anubis.cli.shared.run_lookup import read_run
from pytest_anubis.core.measurement import ASKING, portable_id
from pytest_anubis.report.text.goal_tree import (
    BenchmarkGoal,
    goal_answers,
    goals_markdown,
    goals_plain,
    goals_tree,
)

if TYPE_CHECKING:
    from pytest_anubis.core.run import RunRecord

MAX_RUNS = 50
"""Most runs read; earlier ones for verdicts that the latest lacks."""

_COLLECTED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Show why everything is measured: goals, questions and metrics of the benchmarks as a tree, with "
        "what the latest run says: PASS, MARGINAL, FAIL, or why it says nothing, with an earlier "
        "run's verdict and its date. Nothing is run.",
    )
    parser.add_argument("tests", nargs="+", metavar="TESTS", help="e.g. suites/")
    parser.add_argument(
        "--format",
        choices=("text", "md", "json"),
        default="text",
        help="a tree (the default), Markdown, or JSON for other programs, as --json - prints it",
    )
    add_json(parser, "the tree")
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    """Collect the tests, without running them, and print the tree."""
    goals = _collect(options.tests)
    if not goals:
        raise CommandError(
            f"{' '.join(options.tests)}: no benchmarks (tests that use anubis_metric)"
        )
    found = goal_answers(goals, _latest_first(options.store))
    place = "-" if options.format == "json" else options.json
    if place is not None:  # in the order of the tree
        text = json.dumps(goals_plain(found), indent=1, allow_nan=False) + "\n"
        write_file(Path(place), text)
    if place == "-":
        return 0
    if options.format == "md":
        say(*goals_markdown(found))
    else:
        say(*goals_tree(found))
    return 0


def _latest_first(store: Path) -> Iterator[RunRecord]:
    """Yield the runs of a store, the latest first, without damaged ones."""
    journals = sorted(
        (store / "runs").glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime
    )
    for path in journals[: -MAX_RUNS - 1 : -1]:
        with contextlib.suppress(CommandError):
            yield read_run(str(path), store)


class _GoalCollector:
    """pytest plugin that gathers the goals of the collected benchmarks."""

    def __init__(self) -> None:
        self.found: dict[str, BenchmarkGoal] = {}
        self.timelines: list[str] = []
        self._deselected: list[pytest.Item] = []

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        # Without --anubis, pytest would collect no recorded job of a folder.
        if (traces := config.pluginmanager.get_plugin("anubis-traces")) is not None:
            traces.active = True

    def pytest_warning_recorded(self, warning_message: Any) -> None:
        if "a profiler's timeline" in (text := str(warning_message.message)):
            self.timelines.append(text)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._deselected += items  # those of other profiles

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in (*session.items, *self._deselected):
            declared: dict[str, Any] = {}
            for mark in reversed(list(item.iter_markers("anubis"))):  # the nearest mark counts
                declared |= mark.kwargs
            measures = "anubis_metric" in getattr(item, "fixturenames", ())
            if not measures and not any(map(declared.get, ASKING)):
                continue
            module = getattr(getattr(item, "module", None), "__name__", "")
            name = portable_id(item.nodeid, module).partition("[")[0]
            self.found[name] = BenchmarkGoal(
                benchmark=name,
                component=declared.get("component", ""),
                goal=declared.get("goal", ""),
                question=declared.get("question", ""),
                action=declared.get("action", ""),
                metrics=_metric_names(declared.get("metrics", ())),
            )


def _metric_names(declared: object) -> tuple[str, ...]:
    """Return the metrics that a mark declares; a wrong value counts as none, because a run reports it."""
    return tuple(map(str, declared)) if isinstance(declared, list | tuple) else ()


def _collect(tests: list[str]) -> list[BenchmarkGoal]:
    goals = _GoalCollector()
    output = io.StringIO()
    errors = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        arguments = ["--collect-only", "-q", "-p", "no:cacheprovider"]
        status = pytest.main([*arguments, *tests], plugins=[goals])
    for line in goals.timelines:
        say(line, file=sys.stderr)
    if status not in _COLLECTED:
        lines = (errors.getvalue() + output.getvalue()).strip().splitlines()
        errors_only = [line for line in lines if line.startswith(("ERROR", "E  "))]
        raise CommandError("\n".join(errors_only or lines[-3:]))
    return list(goals.found.values())
