"""Checks of the collected tests, and the plan of the run for the journal. `plugin` uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_anubis.session.collecting.benchmark_mark import (
    benchmark_mark,
    is_benchmark,
    missing_goals,
    not_applicable,
)
from pytest_anubis.session.collecting.device_parameters import benchmark_id, device_of
from pytest_anubis.session.collecting.neighbour_plugins import refusal
from pytest_anubis.session.context import context_key, emit

if TYPE_CHECKING:
    from pytest_anubis.core.measurement import PlannedTest


class CollectionChecks:
    """Checks marks at collection, with or without ``--anubis``."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._elsewhere: tuple[str, ...] = ()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse wrong marks, benchmarks without a stated goal, and plugins that spoil benchmarks.

        Tests of other profiles are deselected, because a baseline has criteria for one profile. Tests that
        need more accelerators than the node has are skipped.
        """
        settings = self._config.stash[context_key].settings
        incomplete: list[str] = []
        worker = hasattr(self._config, "workerinput")
        for item in items:
            benchmark_mark(item)
            if settings.active and (why := refusal(item, worker=worker)):
                raise pytest.UsageError(why)
            if why := not_applicable(item):
                item.add_marker(pytest.mark.skip(reason=why))
            missing = missing_goals(item, settings.goals_required)
            if missing:
                incomplete.append(f"{item.nodeid}: mark anubis lacks {missing}")
        if incomplete:
            raise pytest.UsageError(
                "benchmarks must say what they are for:\n  " + "\n  ".join(incomplete)
            )
        dropped = [item for item in items if not _belongs(item, settings.profile)]
        if dropped:
            self._elsewhere = tuple(dict.fromkeys(benchmark_id(item) for item in dropped))
            items[:] = [item for item in items if _belongs(item, settings.profile)]
            self._config.hook.pytest_deselected(items=dropped)

    # First, because under xdist the plan must reach the controller before it schedules anything.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Send the plan, by which tests without a report are later known to be missing."""
        if not self._config.stash[context_key].settings.active:
            return
        from pytest_anubis.core.events import TestsPlanned

        planned = tuple(map(_planned, session.items))
        emit(self._config, TestsPlanned(tests=planned, elsewhere=self._elsewhere))


def _belongs(item: pytest.Item, profile: str) -> bool:
    profiles = benchmark_mark(item).profiles
    return not profiles or profile in profiles


def _planned(item: pytest.Item) -> PlannedTest:
    from pytest_anubis.core.measurement import PlannedTest

    mark = benchmark_mark(item)
    return PlannedTest(
        test=item.nodeid,
        benchmark=benchmark_id(item) if is_benchmark(item) else "",
        component=mark.component,
        device=device_of(item),
        metrics=tuple(mark.metrics),
        cost=mark.cost,
        question=mark.question,
    )
