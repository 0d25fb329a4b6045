"""What the sets cost on a node of eight accelerators, as the dispatcher plans them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.distributed.dispatch.prediction import plan
from pytest_anubis.distributed.dispatch.tasks import Task, layout, make_task
from pytest_anubis.distributed.dispatch.xdist_scheduler import END, OVERHEAD
from pytest_anubis.session.collecting.benchmark_mark import benchmark_mark
from pytest_anubis.session.collecting.device_parameters import benchmark_id, device_of
from tests.places import RECORDED, ROOT

MOST = 300.0
"""Seconds that the whole smoke set is planned to take on eight cards: it may become shorter, never longer."""

MOST_STANDARD, MOST_OWN = 4950.0, 4260.0
"""The same of ``standard``, with every adapter to another's tool, and without them: few have all of them."""

CARDS = tuple(f"cuda:{index}" for index in range(8))


class Collected:
    """Keeps what one collection found."""

    items: list[pytest.Item]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep the tests of this profile."""
        self.items = list(session.items)


def task_of(item: pytest.Item) -> Task:
    mark = benchmark_mark(item)
    return make_task(
        item.nodeid,
        benchmark=benchmark_id(item),
        device=device_of(item),
        scope=mark.scope,
        timing=mark.timing,
        resources=mark.resources,
        cost=mark.cost,
    )


def tasks_of(profile: str) -> list[Task]:
    found = Collected()
    arguments = ["--collect-only", "-qq", "--anubis", f"--anubis-profile={profile}"]
    given = [f"--anubis-inventory={RECORDED}", f"--rootdir={ROOT}", str(Path(ROOT, "suites"))]
    pytest.main([*arguments, "-p", "no:cacheprovider", *given], plugins=[found])
    return [task_of(item) for item in found.items]


def planned(tasks: list[Task]) -> float:
    found = plan(tasks, layout(CARDS, len(CARDS) + 1), overhead=OVERHEAD, barrier=END)
    assert found.unknown == 0
    assert len(found.lanes) == len(CARDS) + 1
    return found.wall


def test_smoke_set_takes_no_longer_on_eight_cards() -> None:
    assert planned(tasks_of("smoke")) <= MOST


def test_standard_set_takes_no_longer_on_eight_cards() -> None:
    tasks = tasks_of("standard")
    assert planned(tasks) <= MOST_STANDARD
    own = [task for task in tasks if "suites/tools/" not in task.test]
    assert len(own) < len(tasks)
    assert planned(own) <= MOST_OWN
