"""What the smoke set costs on a node of eight accelerators, as the dispatcher plans it."""

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


def smoke_set() -> list[Task]:
    found = Collected()
    arguments = ["--collect-only", "-qq", "--anubis", "-p", "no:cacheprovider"]
    given = [f"--anubis-inventory={RECORDED}", f"--rootdir={ROOT}", str(Path(ROOT, "suites"))]
    pytest.main([*arguments, *given], plugins=[found])
    return [task_of(item) for item in found.items]


def test_smoke_set_takes_no_longer_on_eight_cards() -> None:
    tasks = smoke_set()
    found = plan(tasks, layout(CARDS, len(CARDS) + 1), overhead=OVERHEAD, barrier=END)
    assert found.unknown == 0
    assert len(found.lanes) == len(CARDS) + 1
    assert found.wall <= MOST
