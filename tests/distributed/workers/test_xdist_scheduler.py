"""The adapter between xdist and the dispatcher, with workers that record their instructions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.distributed.dispatch.prediction import Plan
from pytest_anubis.distributed.dispatch.tasks import Task, layout, make_task
from pytest_anubis.distributed.workers.lane_allotment import set_workers
from pytest_anubis.distributed.workers.xdist_scheduler import AnubisScheduling

GPUS = ("cuda:0", "cuda:1")
TASKS = (
    make_task("link", scope="pair"),
    make_task("gemm[0]", device="cuda:0", scope="device"),
    make_task("gemm[1]", device="cuda:1", scope="device"),
)
IDS = [task.test for task in TASKS]


class Node:
    """Stand-in for xdist's WorkerController."""

    def __init__(self, name: str, lane: str, tasks: tuple[Task, ...] | None = TASKS) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.lane = lane
        self.tasks = tasks
        self.received: list[Any] = []
        self.torn_down = False
        self.broken_pipe = False

    def send_runtest_some(self, indices: list[int]) -> None:
        if self.broken_pipe:
            raise OSError("cannot send")
        self.received.append(indices)

    def ensure_teardown(self) -> None:
        self.torn_down = True


class StandInController:
    """Stand-in for the controller."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.waited = 0
        self.given_up: list[str] = []
        self.end = False

    def lane_of(self, node: Node) -> str:
        return node.lane

    def tasks_of(self, node: Node) -> tuple[Task, ...] | None:
        return node.tasks

    def release(self, node: Node, last: int | None) -> None:
        node.received.append(("end after", last))

    def stopping(self) -> bool:
        return self.end

    def starts_alone(self) -> None:
        self.waited += 1

    def lane_given_up(self, node: Node, lane: str) -> None:
        self.given_up.append(lane)

    def planned(self, plan: Plan) -> None:
        self.plans.append(plan)


class Stage:
    """A scheduler with its controller, workers for two accelerators and the node, and a report list."""

    def __init__(self) -> None:
        self.reports: list[pytest.CollectReport] = []
        hook = SimpleNamespace(pytest_collectreport=lambda report: self.reports.append(report))
        self.controller = StandInController()
        config: Any = SimpleNamespace(hook=hook)
        controller: Any = self.controller
        self.scheduler = AnubisScheduling(config, layout(GPUS, 3), controller)
        self.nodes = [Node(f"gw{i}", lane) for i, lane in enumerate((*GPUS, "node"))]

    def collect(self) -> None:
        for node in self.nodes:
            self.scheduler.add_node(node)
        completed = []
        for node in self.nodes:
            self.scheduler.add_node_collection(node, list(IDS))
            completed.append(self.scheduler.collection_is_completed)
        assert completed == [False, False, True]
        self.scheduler.schedule()

    def finish(self, node: Node) -> None:
        node.workeroutput = {"exitstatus": 0}  # type: ignore[attr-defined]  # xdist sets it too
        assert self.scheduler.remove_node(node) is None


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_ordinary_run(stage: Stage) -> None:
    stage.collect()
    first, second, node = stage.nodes
    assert (first.received, second.received) == ([[1], ("end after", 1)], [[2], ("end after", 2)])
    assert node.received == [[0]]
    assert stage.scheduler.has_pending
    finished = [stage.scheduler.tests_finished]
    for one, index in ((first, 1), (second, 2)):
        stage.scheduler.mark_test_complete(one, index)
        stage.finish(one)
        assert one.torn_down
    assert node.received == [[0], ("end after", 0)]
    assert stage.controller.waited == 1
    stage.scheduler.mark_test_complete(node, 0)
    finished.append(stage.scheduler.tests_finished)
    assert finished == [False, True]
    stage.finish(node)
    assert not stage.scheduler.nodes
    assert [slot.test for slot in stage.controller.plans[0].slots] == ["gemm[0]", "gemm[1]", "link"]
    assert not stage.reports


def test_crashed_test_is_named_and_its_worker_replaced(stage: Stage) -> None:
    stage.collect()
    assert stage.scheduler.remove_node(stage.nodes[0]) == "gemm[0]"
    again = Node("gw3", "cuda:0")
    stage.scheduler.add_node(again)
    stage.scheduler.mark_test_pending("gemm[0]")
    stage.scheduler.add_node_collection(again, list(IDS))
    stage.scheduler.schedule()
    assert again.received == [[1], ("end after", 1)]
    assert len(stage.controller.plans) == 1
    assert not stage.reports


def test_worker_that_never_started_counts(stage: Stage) -> None:
    for attempt in range(3):
        with pytest.raises(KeyError):
            stage.scheduler.remove_node(Node(f"d{attempt}", "cuda:1"))
    assert stage.controller.given_up == ["cuda:1"]
    placeholder = Node("gw9", "cuda:1")
    stage.scheduler.add_node(placeholder)
    for node in (stage.nodes[0], stage.nodes[2]):
        stage.scheduler.add_node(node)
        stage.scheduler.add_node_collection(node, list(IDS))
    stage.scheduler.schedule()
    assert placeholder.received == [("end after", None)]
    assert stage.nodes[0].received == [[1], ("end after", 1)]


def test_other_collection_is_shown_and_ends_the_run(stage: Stage) -> None:
    stage.scheduler.add_node(stage.nodes[0])
    stage.scheduler.add_node(stage.nodes[1])
    stage.scheduler.add_node_collection(stage.nodes[0], list(IDS))
    stage.scheduler.add_node_collection(stage.nodes[1], [*IDS[:2], "gemm[9]"])
    (report,) = stage.reports
    assert report.failed
    text = str(report.longrepr)
    assert "gw0 and gw1 collected different tests" in text
    assert "-gemm[1]\n+gemm[9]" in text
    assert stage.scheduler.tests_finished
    stage.scheduler.schedule()
    assert not any(node.received for node in stage.nodes)


def test_same_tests_described_differently_are_refused(stage: Stage) -> None:
    stage.scheduler.add_node(stage.nodes[0])
    stage.scheduler.add_node(stage.nodes[1])
    stage.nodes[1].tasks = (*TASKS[:2], make_task("gemm[1]"))
    for node in stage.nodes[:2]:
        stage.scheduler.add_node_collection(node, list(IDS))
    assert "say different things" in str(stage.reports[0].longrepr)


def test_nonsense_is_a_report_and_never_an_exception(stage: Stage) -> None:
    stage.collect()
    stage.scheduler.mark_test_complete(stage.nodes[0], 2)
    (report,) = stage.reports
    assert "gw0 runs test 1, not 2; what happened so far:" in str(report.longrepr)
    assert stage.scheduler.tests_finished
    stage.scheduler.mark_test_pending("no such test")
    stage.scheduler.add_node(Node("gw7", "no such lane"))
    assert len(stage.reports) == 3


def test_dead_pipe_is_left_to_the_event_that_follows(stage: Stage) -> None:
    stage.nodes[2].broken_pipe = True
    stage.collect()
    assert not stage.reports


def test_end_ordered_by_xdist_stops_the_dispatcher(stage: Stage) -> None:
    stage.collect()
    stage.controller.end = True
    stage.scheduler.mark_test_complete(stage.nodes[0], 1)
    stage.finish(stage.nodes[0])
    stage.scheduler.mark_test_complete(stage.nodes[1], 2)
    stage.finish(stage.nodes[1])
    assert stage.nodes[2].received == [[0], ("end after", None)]
    assert stage.controller.waited == 0


@pytest.mark.parametrize(
    ("devices", "option", "lanes"),
    [
        (("cpu",), {"numprocesses": None}, ["node"]),
        (("cpu",), {"numprocesses": 0}, ["node"]),
        (("cpu",), {"numprocesses": 4, "tx": ["popen"] * 4}, ["node"]),
        (GPUS, {"numprocesses": 0}, ["node"]),
        (GPUS, {"numprocesses": 2, "tx": ["popen"] * 2}, ["cuda:0+cuda:1", "node"]),
        (GPUS, {"numprocesses": 9, "tx": ["popen"] * 9}, ["cuda:0", "cuda:1", "node"]),
        (GPUS, {"asked": "auto", "numprocesses": 1}, ["cuda:0", "cuda:1", "node"]),
        (GPUS, {"asked": "auto", "maxprocesses": 1}, ["node"]),
        (GPUS, {"tx": ["2*popen", "ssh=a"], "dist": "load"}, ["cuda:0", "cuda:1", "node"]),
    ],
)
def test_workers_follow_the_devices(
    devices: tuple[str, ...], option: dict[str, Any], lanes: list[str]
) -> None:
    asked = option.pop("asked", option.get("numprocesses"))
    values: dict[str, Any] = {
        "tx": [],
        "dist": "no",
        "maxprocesses": None,
        "maxworkerrestart": None,
    }
    options = SimpleNamespace(**{"numprocesses": None, **values, **option})
    config: Any = SimpleNamespace(
        option=options, known_args_namespace=SimpleNamespace(numprocesses=asked)
    )
    assert [lane.name for lane in set_workers(config, devices)] == lanes
    assert options.dist == "load"
    assert options.maxworkerrestart >= 16
    if "ssh=a" not in options.tx:
        assert options.tx == ["popen"] * len(lanes)


def test_users_restart_limit_is_kept() -> None:
    options = SimpleNamespace(
        tx=[], dist="no", maxprocesses=None, maxworkerrestart="1", numprocesses=None
    )
    config: Any = SimpleNamespace(option=options, known_args_namespace=SimpleNamespace())
    set_workers(config, ("cpu",))
    assert options.maxworkerrestart == "1"
