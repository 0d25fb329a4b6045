from __future__ import annotations

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pytest_anubis.distributed.dispatch.dispatcher import (
    MAX_STRIKES,
    Dispatcher,
    DispatchError,
    Send,
    Shutdown,
)
from pytest_anubis.distributed.dispatch.prediction import plan
from pytest_anubis.distributed.dispatch.tasks import (
    NODE,
    Certificates,
    Lane,
    Task,
    lane_of,
    layout,
    make_task,
    may_overlap,
    useful_workers,
)

GPUS = ("cuda:0", "cuda:1")


def on_gpu(name: str, device: str, cost: float | None = None) -> Task:
    return make_task(
        name, benchmark=name.partition("@")[0], device=device, scope="device", cost=cost
    )


def alone(name: str, cost: float | None = None) -> Task:
    return make_task(name, cost=cost)


def on_host(name: str, *resources: str, cost: float | None = None) -> Task:
    return make_task(name, resources=resources, cost=cost)


def pair(a: str, b: str) -> Certificates:
    return frozenset({frozenset({a, b})})


def collect(dispatcher: Dispatcher, worker: str, lane: str) -> list[Send | Shutdown]:
    dispatcher.worker_ready(worker, lane)
    return dispatcher.worker_collected(worker)


def started(
    lanes: tuple[Lane, ...], tasks: list[Task], allowed: Certificates = frozenset()
) -> tuple[Dispatcher, list[Send | Shutdown]]:
    """Let a worker of each lane begin; return what it is told."""
    dispatcher = Dispatcher(lanes)
    for lane in lanes:
        assert collect(dispatcher, f"w-{lane.name}", lane.name) == []
    return dispatcher, dispatcher.assign(tasks, allowed)


def alone_on_cpu() -> Dispatcher:
    """Return a dispatcher of one lane, whose worker gw0 runs the first of two tests."""
    dispatcher = Dispatcher(layout(("cpu",), 1))
    collect(dispatcher, "gw0", NODE)
    dispatcher.assign([alone("a"), alone("b")], frozenset())
    return dispatcher


def test_exclusive_test_waits_for_all_workers() -> None:
    tasks = [alone("link"), on_gpu("gemm@0", "cuda:0"), on_gpu("gemm@1", "cuda:1")]
    dispatcher, instructions = started(layout(GPUS, 3), tasks)
    assert instructions == [
        Send("w-cuda:0", (1,)),
        Shutdown("w-cuda:0", 1),
        Send("w-cuda:1", (2,)),
        Shutdown("w-cuda:1", 2),
        Send("w-node", (0,)),  # held, not started
    ]
    assert dispatcher.test_complete("w-cuda:0", 1) == []
    assert dispatcher.worker_finished("w-cuda:0") == []
    assert dispatcher.test_complete("w-cuda:1", 2) == []
    assert dispatcher.worker_finished("w-cuda:1") == [Shutdown("w-node", 0)]
    assert not dispatcher.pending
    assert dispatcher.finished


def test_crash_does_not_start_exclusive_tests() -> None:
    tasks = [alone("link"), *(on_gpu(f"gemm{i}", "cuda:0") for i in range(3))]
    dispatcher, _ = started(layout(("cuda:0",), 2), tasks)
    crashed, instructions = dispatcher.worker_crashed("w-cuda:0")
    assert crashed == 1
    assert instructions == []
    assert collect(dispatcher, "again", "cuda:0") == [Send("again", (2, 3))]
    assert dispatcher.test_complete("again", 2) == [Shutdown("again", 3)]
    assert dispatcher.worker_crashed("again") == (3, [])
    assert collect(dispatcher, "third", "cuda:0") == [Shutdown("third")]
    assert dispatcher.worker_finished("third") == [Shutdown("w-node", 0)]


def test_worker_dying_with_a_held_test_crashed_in_none() -> None:
    dispatcher, _ = started(layout(("cuda:0",), 2), [alone("link"), on_gpu("gemm", "cuda:0")])
    assert dispatcher.worker_crashed("w-node") == (None, [])
    assert collect(dispatcher, "again", NODE) == [Send("again", (0,))]


def test_host_test_overlaps_only_with_certificate() -> None:
    lanes = layout(("cuda:0",), 2)
    tasks = [on_gpu("gemm", "cuda:0"), on_host("disk", "disk")]
    for allowed, expected in ((pair("gemm", "disk"), True), (frozenset[frozenset[str]](), False)):
        _, instructions = started(lanes, tasks, allowed)
        assert (Shutdown("w-node", 1) in instructions) == expected


def test_host_tests_wait_for_a_replacement() -> None:
    tasks = [on_gpu("a", "cuda:0"), on_gpu("b", "cuda:0"), *(on_host(h, "disk") for h in "xyz")]
    allowed = frozenset(frozenset({d, h}) for d in "ab" for h in "xyz")
    dispatcher, _ = started(layout(("cuda:0",), 2), tasks, allowed)
    assert set(dispatcher.running) == {0, 2}
    dispatcher.worker_crashed("w-cuda:0")
    assert dispatcher.test_complete("w-node", 2) == []
    assert Send("w-node", (4,)) in collect(dispatcher, "again", "cuda:0")


@pytest.mark.parametrize(
    ("a", "b", "certified", "allowed"),
    [
        (on_gpu("gemm@0", "cuda:0"), on_gpu("gemm@1", "cuda:1"), False, True),
        (on_gpu("gemm@0", "cuda:0"), on_gpu("copy@0", "cuda:0"), True, False),
        (on_gpu("gemm@0", "cuda:0"), alone("link"), True, False),
        (on_host("disk", "disk"), on_host("net", "network"), False, False),
        (on_host("disk", "disk"), on_host("net", "network"), True, True),
        (on_host("disk", "disk"), on_host("fio", "disk", "cpu"), True, False),
        (on_host("mem", "cpu"), on_gpu("gemm@cpu", "cpu"), True, False),
        (on_gpu("gemm@cpu", "cpu"), on_gpu("triad@cpu", "cpu"), True, False),
        (on_host("disk", "disk"), on_gpu("gemm@cpu", "cpu"), True, True),
    ],
)
def test_who_may_run_beside_whom(a: Task, b: Task, certified: bool, allowed: bool) -> None:
    certificates = pair(a.benchmark, b.benchmark) if certified else frozenset[frozenset[str]]()
    assert may_overlap(a, b, certificates) is allowed
    assert may_overlap(b, a, certificates) is allowed


def test_links_nodes_and_unmarked_tests_are_exclusive() -> None:
    assert make_task("x").exclusive
    assert make_task("x", scope="pair", device="cuda:0", resources=["nvlink"]).exclusive
    assert make_task("x", scope="node", device="cuda:0").exclusive
    assert not make_task("x", scope="node", resources=["disk"]).exclusive
    assert not make_task("x", scope="device", device="cuda:0").exclusive


def test_lanes_follow_devices_and_workers() -> None:
    eight = tuple(f"cuda:{i}" for i in range(8))
    assert useful_workers(eight) == 9
    assert [lane.name for lane in layout(eight, 9)] == [*eight, NODE]
    assert [lane.devices for lane in layout(eight, 3)] == [eight[::2], eight[1::2], ()]
    assert layout(eight, 1) == (Lane(NODE, eight),)
    assert [lane.name for lane in layout(("cuda:0",), 4)] == ["cuda:0", NODE, "spare1", "spare2"]
    assert useful_workers(("cpu",)) == 1
    assert layout(("cpu",), 2, overlapping=True) == (Lane("cpu", ("cpu",)), Lane(NODE))
    with pytest.raises(ValueError, match="at least 1"):
        layout(eight, 0)


def test_task_without_a_lane_runs_on_the_node() -> None:
    assert lane_of(on_gpu("gemm", "cuda:9"), layout(GPUS, 3)) == NODE


def test_impossible_event_shows_the_log() -> None:
    dispatcher = alone_on_cpu()
    with pytest.raises(DispatchError) as caught:
        dispatcher.test_complete("gw0", 1)
    text = str(caught.value)
    assert text.startswith("gw0 runs test 0, not 1; what happened so far:\n")
    assert "gw0 has collected\n2 tests are known\n  -> Send" in text


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("worker_ready", ("gw0", NODE)),
        ("worker_ready", ("gw1", NODE)),
        ("worker_ready", ("gw1", "nowhere")),
        ("worker_collected", ("gw0",)),
        ("worker_collected", ("gw7",)),
        ("assign", ([], frozenset())),
        ("test_complete", ("gw7", 0)),
        ("worker_finished", ("gw7",)),
        ("worker_crashed", ("gw7",)),
        ("repeat", (0,)),
        ("repeat", (5,)),
    ],
    ids=lambda value: str(value),
)
def test_impossible_events_are_refused(event: str, arguments: tuple[object, ...]) -> None:
    dispatcher = alone_on_cpu()
    with pytest.raises(DispatchError):
        getattr(dispatcher, event)(*arguments)


def test_lane_with_dying_workers_is_given_up() -> None:
    lanes = layout(GPUS, 3)
    dispatcher = Dispatcher(lanes)
    for attempt in range(3):
        assert not dispatcher.given_up
        dispatcher.worker_ready(f"d{attempt}", "cuda:0")
        dispatcher.worker_crashed(f"d{attempt}")
    assert dispatcher.given_up == ("cuda:0",)
    for name in ("cuda:1", NODE):
        collect(dispatcher, name, name)
    assert dispatcher.ready
    dispatcher.assign(
        [on_gpu("a@0", "cuda:0"), on_gpu("a@1", "cuda:1"), alone("link")], frozenset()
    )
    assert dispatcher.dropped == (0,)
    assert set(dispatcher.running) == {1}
    assert collect(dispatcher, "placeholder", "cuda:0") == [Shutdown("placeholder")]


def test_finished_test_forgives_earlier_crashes() -> None:
    dispatcher = Dispatcher(layout(("cpu",), 1))
    tasks = [alone(str(i)) for i in range(2 * MAX_STRIKES)]
    for attempt in range(MAX_STRIKES):
        collect(dispatcher, f"w{attempt}", NODE)
        if attempt == 0:
            dispatcher.assign(tasks, frozenset())
        dispatcher.test_complete(f"w{attempt}", 2 * attempt)
        crashed, _ = dispatcher.worker_crashed(f"w{attempt}")
        assert crashed == 2 * attempt + 1
    assert not dispatcher.given_up


def test_stop_starts_nothing_more() -> None:
    tasks = [alone("link"), *(on_gpu(name, "cuda:0") for name in "abc")]
    dispatcher, _ = started(layout(("cuda:0",), 2), tasks)
    assert dispatcher.stop() == [Shutdown("w-cuda:0"), Shutdown("w-node")]
    assert dispatcher.test_complete("w-cuda:0", 1) == []
    assert dispatcher.test_complete("w-cuda:0", 2) == []  # what it held, refused
    assert dispatcher.worker_finished("w-cuda:0") == []
    assert sorted(dispatcher.dropped) == [0, 2, 3]
    assert dispatcher.finished


def test_unrun_tests_of_a_worker_are_dropped() -> None:
    tasks = [alone("link"), *(on_gpu(name, "cuda:0") for name in "abc")]
    dispatcher, _ = started(layout(("cuda:0",), 2), tasks)
    assert dispatcher.worker_finished("w-cuda:0") == [Shutdown("w-node", 0)]
    assert sorted(dispatcher.dropped) == [1, 2, 3]


def test_repeated_test_comes_first_in_its_lane() -> None:
    dispatcher = Dispatcher(layout(("cpu",), 1))
    collect(dispatcher, "a", NODE)
    dispatcher.assign([alone(str(i)) for i in range(3)], frozenset())
    assert dispatcher.worker_crashed("a") == (0, [])
    assert dispatcher.repeat(0) == []
    assert collect(dispatcher, "b", NODE) == [Send("b", (0, 1))]


def test_plan_overlaps_devices() -> None:
    lanes = layout(GPUS, 3)
    tasks = [
        alone("link", 5.0),
        on_gpu("gemm@0", "cuda:0", 3.0),
        on_gpu("gemm@1", "cuda:1", 4.0),
        on_gpu("copy@0", "cuda:0", 2.0),
        on_host("disk", "disk", cost=1.0),
    ]
    predicted = plan(tasks, lanes, pair("gemm", "disk") | pair("copy", "disk"))
    assert {s.test: (s.lane, s.start, s.end) for s in predicted.slots} == {
        "gemm@0": ("cuda:0", 0.0, 3.0),
        "gemm@1": ("cuda:1", 0.0, 4.0),
        "disk": (NODE, 0.0, 1.0),
        "copy@0": ("cuda:0", 3.0, 5.0),
        "link": (NODE, 5.0, 10.0),
    }
    assert (predicted.wall, predicted.serial, predicted.unknown) == (10.0, 15.0, 0)
    assert [slot.test for slot in predicted.slots if slot.alone] == ["link"]
    assert plan(tasks, layout(GPUS, 1)).wall == pytest.approx(15.0)


def test_overlapping_host_test_comes_first() -> None:
    lanes = layout(("cpu",), 2, overlapping=True)
    tasks = [
        on_host("net", "cpu", "network", cost=2.0),
        on_host("disk", "disk", cost=2.0),
        make_task("gemm", device="cpu", scope="device", cost=3.0),
    ]
    predicted = plan(tasks, lanes, pair("gemm", "disk") | pair("gemm", "net"))
    assert [(s.test, s.start) for s in predicted.slots] == [
        ("gemm", 0.0),
        ("disk", 0.0),
        ("net", 3.0),
    ]


def test_plan_prefers_measured_costs() -> None:
    tasks = [alone("a", 100.0), alone("b")]
    predicted = plan(tasks, layout(("cpu",), 1), costs={"a": 2.0}, overhead=0.5)
    assert predicted.wall == pytest.approx(2.0 + 1.0 + 2 * 0.5)
    assert predicted.unknown == 1
    assert plan([], layout(("cpu",), 1)).wall == 0


DEVICES = ("cuda:0", "cuda:1", "cuda:2")
TASKS = st.lists(
    st.tuples(
        st.sampled_from((*DEVICES, NODE)),
        st.sampled_from(("device", "pair", "node")),
        st.frozensets(st.sampled_from(("disk", "network", "cpu")), max_size=2),
        st.sampled_from("abcd"),
    ),
    max_size=14,
)


class First:
    """Stand-in for Hypothesis' data when there is nothing to choose."""

    def __init__(self, choices: list[str]) -> None:
        self.choices = choices

    def draw(self, _: object) -> str:
        return self.choices[0]


class Workers(RuleBasedStateMachine):
    """Plays workers that may die at any moment; checks what a node's owner relies on."""

    @initialize(
        drawn=TASKS,
        workers=st.integers(1, 5),
        allowed=st.frozensets(
            st.frozensets(st.sampled_from("abcd"), min_size=2, max_size=2), max_size=6
        ),
    )
    def begin(self, drawn: list, workers: int, allowed: Certificates) -> None:  # type: ignore[type-arg]
        self.tasks = [
            make_task(f"t{i}", benchmark=b, device=d, scope=s, resources=r)
            for i, (d, s, r, b) in enumerate(drawn)
        ]
        self.allowed = allowed
        self.lanes = layout(DEVICES, workers)
        self.dispatcher = Dispatcher(self.lanes)
        self.count = 0
        self.booting: dict[str, str | None] = {}  # lane -> worker that has not collected
        self.lane: dict[str, str] = {}  # live worker -> lane
        self.has: dict[str, list[int]] = {}  # worker -> tests it was given, head may be running
        self.busy: set[str] = set()
        self.closing: set[str] = set()
        self.ended: set[str] = set()  # lanes finished in order
        self.done: list[int] = []
        self.crashed: list[int] = []
        self.stopped = False
        for lane in self.lanes:
            self.boot(lane.name)

    def boot(self, lane: str) -> None:
        self.booting[lane] = None

    def obey(self, instructions: list[Send | Shutdown]) -> None:
        for instruction in instructions:
            worker = instruction.worker
            assert worker in self.lane
            assert worker not in self.closing
            if isinstance(instruction, Send):
                assert not self.stopped
                self.has[worker] += instruction.tests
                assert len(self.has[worker]) <= 2
                if len(self.has[worker]) == 2:
                    self.start(worker)
            else:
                self.closing.add(worker)
                held = self.has[worker][int(worker in self.busy) :]
                if self.stopped:
                    for index in held:
                        self.has[worker].remove(index)
                        assert self.dispatcher.test_complete(worker, index) == []
                else:
                    assert instruction.last == (held[0] if held else None)
                    if held:
                        self.start(worker)

    def start(self, worker: str) -> None:
        assert worker not in self.busy
        task = self.tasks[self.has[worker][0]]
        for other in self.busy:
            assert may_overlap(task, self.tasks[self.has[other][0]], self.allowed)
        if task.exclusive:
            assert not self.busy
            others = {lane.name for lane in self.lanes} - {self.lane[worker]}
            assert others <= self.ended
        self.busy.add(worker)

    @precondition(lambda self: any(w is None for w in self.booting.values()))
    @rule(data=st.data())
    def comes_up(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(sorted(k for k, v in self.booting.items() if v is None)))
        self.count += 1
        worker = f"w{self.count}"
        self.booting[lane], self.lane[worker], self.has[worker] = worker, lane, []
        self.dispatcher.worker_ready(worker, lane)

    @precondition(lambda self: any(self.booting.values()))
    @rule(data=st.data())
    def collects(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(sorted(k for k, v in self.booting.items() if v)))
        worker = self.booting.pop(lane)
        assert worker is not None
        self.obey(self.dispatcher.worker_collected(worker))
        if self.dispatcher.ready and not self.dispatcher.assigned:
            self.obey(self.dispatcher.assign(self.tasks, self.allowed))

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def completes(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.busy)))
        self.busy.remove(worker)
        index = self.has[worker].pop(0)
        self.done.append(index)
        self.obey(self.dispatcher.test_complete(worker, index))

    @precondition(lambda self: any(not self.has[w] for w in self.closing & set(self.lane)))
    @rule(data=st.data())
    def finishes(self, data: st.DataObject) -> None:
        idle = sorted(w for w in self.closing & set(self.lane) if not self.has[w])
        worker = data.draw(st.sampled_from(idle))
        self.ended.add(self.lane.pop(worker))
        self.obey(self.dispatcher.worker_finished(worker))

    @precondition(lambda self: self.lane)
    @rule(data=st.data(), chance=st.integers(0, 2))
    def dies(self, data: st.DataObject, chance: int) -> None:
        if chance:
            return
        worker = data.draw(st.sampled_from(sorted(self.lane)))
        lane = self.lane.pop(worker)
        running = self.has[worker][0] if worker in self.busy else None
        self.busy.discard(worker)
        crashed, instructions = self.dispatcher.worker_crashed(worker)
        assert crashed == running
        if crashed is not None:
            self.crashed.append(crashed)
        self.boot(lane)
        self.obey(instructions)

    @precondition(lambda self: self.dispatcher.assigned and not self.stopped)
    @rule(chance=st.integers(0, 9))
    def stops(self, chance: int) -> None:
        if chance == 0:
            self.stopped = True
            self.obey(self.dispatcher.stop())

    @rule()
    def rests(self) -> None:
        """Let time pass: there is nothing else to do when all is over."""

    @invariant()
    def every_test_is_somewhere_exactly_once(self) -> None:
        if not hasattr(self, "dispatcher"):
            return
        dispatcher = self.dispatcher
        reported = self.done + self.crashed
        places = [*reported, *dispatcher.running, *dispatcher.pending, *dispatcher.dropped]
        if dispatcher.assigned:
            assert sorted(places) == list(range(len(self.tasks)))

    def teardown(self) -> None:
        """Whatever has happened, a machine on which nothing more dies comes to its end."""
        if not hasattr(self, "dispatcher"):
            return
        for _ in range(400):
            if any(worker is None for worker in self.booting.values()):
                self.step("comes_up", [k for k, v in self.booting.items() if v is None])
            elif self.booting:
                self.step("collects", list(self.booting))
            elif self.busy:
                self.step("completes", sorted(self.busy))
            elif self.lane:
                self.step("finishes", sorted(w for w in self.lane if w in self.closing))
        assert not self.lane
        assert self.dispatcher.finished
        self.something_can_always_happen_until_all_is_done()

    def step(self, name: str, choices: list[str]) -> None:
        assert choices, "every worker waits: deadlock"
        getattr(self, name)(First(choices))

    @invariant()
    def something_can_always_happen_until_all_is_done(self) -> None:
        if not hasattr(self, "dispatcher") or not self.dispatcher.assigned:
            return
        if self.booting or self.busy or any(not self.has[w] for w in self.closing & set(self.lane)):
            return
        assert self.dispatcher.finished
        assert not self.lane
        if not self.stopped and not self.dispatcher.given_up:
            assert sorted(self.done + self.crashed) == list(range(len(self.tasks)))


TestWorkers = Workers.TestCase
TestWorkers.settings = hypothesis_settings(max_examples=60, stateful_step_count=60, deadline=None)


def test_plan_waits_before_exclusive_tests() -> None:
    lanes = layout(["cuda:0", "cuda:1"], 3)
    tasks = [
        *(make_task(f"t{i}", device=f"cuda:{i}", scope="device", cost=1.0) for i in range(2)),
        *(make_task(f"alone{i}", cost=1.0) for i in range(2)),
    ]
    found = plan(tasks, lanes, barrier=0.5)
    assert [(slot.test, slot.start) for slot in found.slots] == [
        *(("t0", 0.0), ("t1", 0.0), ("alone0", 1.5), ("alone1", 2.5)),
    ]
    assert found.wall == 3.5
    assert plan(tasks[2:], lanes, barrier=0.5).wall == 2.0  # no other worker
    assert plan(tasks, layout(["cuda:0", "cuda:1"], 1), barrier=0.5).wall == 4.0  # one worker
