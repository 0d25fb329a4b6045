"""What the sets cost on nodes with one, two and eight accelerators, as the dispatcher plans them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_anubis.cli.learning.rounds import END_SECONDS, MIN_ROUNDS_ON_CARDS
from pytest_anubis.distributed.dispatch.prediction import plan
from pytest_anubis.distributed.dispatch.tasks import Task, layout, make_task
from pytest_anubis.distributed.workers.xdist_scheduler import TEST_OVERHEAD, WORKER_END_SECONDS
from pytest_anubis.session.collecting.benchmark_mark import benchmark_mark
from pytest_anubis.session.collecting.device_parameters import benchmark_id, device_of
from tests.places import RECORDED, ROOT

MOST = {
    ("smoke", 1): 123.0,
    ("smoke", 2): 168.0,
    ("smoke", 8): 238.0,
    ("standard", 1): 3945.0,
    ("standard", 2): 4840.0,
    ("standard", 8): 5245.0,
}
"""Seconds that a profile is planned to take on so many cards, with every adapter to another's tool: it may
become shorter, never longer. The costs of one card are those of an H200."""

OWN = {1: 3335.0, 2: 4150.0, 8: 4555.0}
"""The same of ``standard`` without the adapters: few have all of these tools."""

LEARNING = 375.0
"""Seconds of three rounds of ``smoke`` on one card."""


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


def tasks_of(profile: str, cards: int, folder: Path) -> list[Task]:
    node = json.loads(RECORDED.read_text())
    node["inventory"]["accelerators"] = node["inventory"]["accelerators"][:cards]
    (folder / "node.json").write_text(json.dumps(node))
    found = Collected()
    arguments = ["--collect-only", "-qq", "--anubis", f"--anubis-profile={profile}"]
    arguments += [f"--anubis-inventory={folder / 'node.json'}", f"--rootdir={ROOT}"]
    pytest.main([*arguments, "-p", "no:cacheprovider", str(Path(ROOT, "suites"))], plugins=[found])
    return [task_of(item) for item in found.items]


def planned(tasks: list[Task], cards: int) -> float:
    devices = tuple(f"cuda:{index}" for index in range(cards))
    found = plan(
        tasks, layout(devices, cards + 1), overhead=TEST_OVERHEAD, barrier=WORKER_END_SECONDS
    )
    assert found.unknown == 0
    assert len(found.lanes) == cards + 1
    return found.wall


@pytest.mark.parametrize(("profile", "cards"), MOST)
def test_a_profile_takes_no_longer_on_its_cards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], profile: str, cards: int
) -> None:
    tasks = tasks_of(profile, cards, tmp_path)
    capsys.readouterr()
    whole = planned(tasks, cards)
    own = planned([task for task in tasks if "suites/tools/" not in task.test], cards)
    with capsys.disabled():
        told = f"{whole:.0f} s, {own:.0f} s without other people's tools"
        sys.stdout.write(f"\n{profile} with {cards} card{'s' if cards > 1 else ''}: {told}\n")
    assert whole <= MOST[profile, cards]
    if profile == "standard":
        assert own < whole
        assert own <= OWN[cards]


def test_learning_on_one_card_takes_no_longer_than_it_should(tmp_path: Path) -> None:
    alone = plan(tasks_of("smoke", 1, tmp_path), layout(("cuda:0",), 1), overhead=TEST_OVERHEAD)
    assert MIN_ROUNDS_ON_CARDS * alone.wall + END_SECONDS <= LEARNING
