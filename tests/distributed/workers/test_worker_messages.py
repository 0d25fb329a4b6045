from __future__ import annotations

from typing import Any

import pytest

from pytest_anubis.core.events import (
    Attempted,
    BlockerFound,
    Event,
    Measured,
    TestRan,
    TestsPlanned,
    TestStarted,
)
from pytest_anubis.core.measurement import Measurement, PlannedTest
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run_state import RunState
from pytest_anubis.distributed.containment.watchdog import END_SECONDS, Deadline
from pytest_anubis.distributed.dispatch.tasks import HOST_TIME
from pytest_anubis.distributed.workers.worker_messages import WorkerMessages
from pytest_anubis.settings import Settings
from pytest_anubis.store.journal.journal_events import event_to_plain

MEASUREMENT = Measurement(
    test="t",
    benchmark="t",
    component="c",
    device="node",
    metric=Metric(name="rate", unit="GB/s", better="higher"),
    values=(1.0, 2.0),
    seconds=0.1,
)


class Watchdog:
    """Records its calls."""

    def __init__(self) -> None:
        self.deadlines: list[float | None] = []

    def begins(self, worker: str, deadline: Deadline | None = None) -> None:
        self.deadlines.append(None if deadline is None else deadline.seconds)


class Ear:
    """A listener with its journal and its watchdog."""

    def __init__(self, costs: dict[str, float] | None = None, *, apart: bool = True) -> None:
        self.journal: list[Event] = []
        self.state = RunState()
        self.watchdog = Watchdog()
        watchdog: Any = self.watchdog  # a stand-in
        self.listener = WorkerMessages(Settings(), self.sink, watchdog, costs, apart=apart)

    def sink(self, event: Event) -> None:
        self.journal.append(event)
        self.state.apply(event)

    def receive(self, kind: str, content: Any, worker: str = "gw0") -> None:
        self.listener.receive(worker, "node", (kind, content))

    def send(self, event: Event, worker: str = "gw0") -> None:
        """Hear of an event as a worker sends it."""
        self.receive("event", event_to_plain(event), worker)

    def collect(self, **changes: Any) -> None:
        described = {
            "test": "t",
            "benchmark": "t",
            "component": "c",
            "device": "node",
            "scope": "node",
            "resources": ["disk"],
            "cost": 20.0,
            "timeout": None,
        }
        self.receive("tasks", [described | changes])


@pytest.fixture
def ear() -> Ear:
    return Ear()


def test_plan_is_in_the_journal_once(ear: Ear) -> None:
    plan = TestsPlanned(tests=(PlannedTest(test="t", metrics=("rate",), cost=20.0),))
    for worker in ("gw0", "gw1", "gw2"):
        ear.send(plan, worker)
    ear.send(TestsPlanned(tests=()), "idle")
    assert ear.journal == [plan]


def test_deadline_of_a_mark_is_that_of_its_task(ear: Ear) -> None:
    ear.collect(cost=1.0, least=300.0)
    (task,) = ear.listener.tasks["gw0"]
    assert (task.deadline, task.why) == (300.0, "its mark's deadline")


@pytest.mark.parametrize("apart", [True, False])
def test_host_timed_tests_share_a_resource(apart: bool) -> None:
    ear = Ear(apart=apart)
    ear.collect(device="cuda:0", scope="device", resources=[], timing="host")
    (task,) = ear.listener.tasks["gw0"]
    assert task.resources == {HOST_TIME}
    assert task.exclusive is not apart
    ear.collect(device="cuda:0", scope="device", resources=[], timing="device")
    (task,) = ear.listener.tasks["gw0"]
    assert not task.resources
    assert not task.exclusive


def test_start_of_a_test_names_worker_and_lane(ear: Ear) -> None:
    ear.send(TestStarted(test="t"), "gw3")
    assert ear.journal == [TestStarted(test="t", worker="gw3", lane="node")]


def test_crash_report_has_only_this_attempts_values(ear: Ear) -> None:
    for _ in range(2):
        ear.send(TestStarted(test="t"))
        ear.send(Attempted(measurement=MEASUREMENT))
        ear.send(Measured(measurement=MEASUREMENT))
    assert ear.journal.count(Measured(measurement=MEASUREMENT)) == 2
    assert ear.journal.count(Attempted(measurement=MEASUREMENT)) == 2
    assert ear.state.measured("t") == ear.state.attempts("t") == [MEASUREMENT]
    ear.send(TestStarted(test="t"))
    assert ear.state.measured("t") == ear.state.attempts("t") == []


def test_watchdog_learns_what_is_done_and_until_when(ear: Ear) -> None:
    ear.collect()
    ear.receive("doing", ["test", "t"])
    ear.receive("doing", ["waiting", ""])
    ear.receive("doing", ["end", ""])
    assert ear.watchdog.deadlines == [200.0, None, END_SECONDS]
    (ran,) = [event for event in ear.journal if isinstance(event, TestRan)]
    assert (ran.test, ran.worker) == ("t", "gw0")
    assert 0.0 == ran.start <= ran.end


def test_measured_duration_only_prolongs() -> None:
    for measured, expected in ((100.0, 1000.0), (1.0, 200.0)):
        ear = Ear({"t": measured})
        ear.collect()
        assert ear.listener.known["t"].deadline == expected


@pytest.mark.parametrize(
    "message",
    [
        None,
        ("doing", ["test", "never collected"]),
        ("event", {}),
        ("event", {"event": "measurement", "test": "t"}),
        ("event", {"event": "test_finished"}),
        ("tasks", [{}]),
        7,
    ],
)
def test_message_that_makes_no_sense_closes_no_channel(ear: Ear, message: Any) -> None:
    ear.listener.receive("gw0", "node", message)
    (trouble,) = ear.listener.troubles
    assert trouble.startswith("a message of gw0 could not be used: ")
    assert ear.journal == [BlockerFound(text=trouble)]


def test_late_test_is_known_before_its_report(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    ear.collect(cost=20.0)  # so it may take 200 s
    for ended, failed, late in ((200.0, False, False), (201.0, False, True), (201.0, True, True)):
        now = 0.0
        ear.receive("doing", ["test", "t"])
        now = ended
        ear.receive("over", ["t", failed])
        found = ear.listener.overran("t")
        assert (found is not None) == late
        if found is not None:
            assert (found.deadline.seconds, found.survived) == (
                200.0,
                "it ended by itself after 201.0 s",
            )
        assert ear.listener.overran("t") is None
        ear.receive("doing", ["waiting", ""])
    # What had failed in time has failed, however long its teardown takes.
    now = 0.0
    ear.receive("doing", ["test", "t"])
    for now, failed in ((199.0, True), (300.0, False)):  # noqa: B007  # the clock
        ear.receive("over", ["t", failed])
    assert ear.listener.overran("t") is None
    assert not ear.listener.troubles


def test_trouble_and_leaving_block(ear: Ear) -> None:
    ear.receive("trouble", "it broke")
    ear.receive("leaving", ["t", "enough", 7])
    texts = [event.text for event in ear.journal if isinstance(event, BlockerFound)]
    assert texts == ["gw0: it broke", "t ended the run by pytest.exit: enough"]
    assert ear.listener.leaving == ("enough", 7)
    assert ear.listener.troubles == ["gw0: it broke"]
