"""A run's state equals the state read from its journal, for any events in any order, cut anywhere."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core import events
from pytest_anubis.core.events import (
    Attempted,
    BenchmarksChosen,
    BlockerFound,
    DamageFound,
    Event,
    HardwareFound,
    InternalErrorFound,
    InventoryChanged,
    Judged,
    LaneGivenUp,
    LanesPlaced,
    LeftBehind,
    Measured,
    NodeDecided,
    PhaseFailed,
    PlanPredicted,
    Resumed,
    RunFinished,
    RunStarted,
    RunTimed,
    TestFinished,
    TestPutOff,
    TestRan,
    TestRepeated,
    TestsPlanned,
    TestStarted,
    UnknownEvent,
    WorkerDied,
)
from pytest_anubis.core.measurement import (
    ExpectedTest,
    LaneCores,
    Measurement,
    PlannedTest,
    TestResult,
)
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run_state import RunState
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason, Waiver
from pytest_anubis.core.waiving import WaiversRead
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import read_state

TESTS = ("a.py::test_x[cuda:0]", "a.py::test_x[cuda:1]", "b.py::test_y", "never planned")
HEAD = RunStarted(run="r", node="n", started="2026-01-01T00:00:00Z", settings={"mode": "judge"})

tests = st.sampled_from(TESTS)
texts = st.text(max_size=8)
numbers = st.floats(min_value=0, allow_nan=False)
costs = st.floats(min_value=0, allow_nan=False, allow_infinity=False)  # a mark takes no other


def measurement(test: str, values: tuple[float, ...] = (1.0,)) -> Measurement:
    return Measurement(
        test=test,
        benchmark=test.partition("[")[0],
        component="cpu",
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        device="cuda:0",
        values=values,
        telemetry=(("clock", values),),
    )


def verdict(test: str, outcome: Outcome = Outcome.PASS) -> MetricVerdict:
    return MetricVerdict(
        outcome=outcome,
        reason=Reason.WITHIN,
        text="so",
        benchmark=test,
        metric="rate",
        test=test,
        value=2.0,
    )


def result(test: str, outcome: str = "passed") -> TestResult:
    return TestResult(test=test, benchmark=test, outcome=outcome, metrics=1)


DECISION = NodeVerdict(
    node="n", decision=Decision.REJECTED, headline="slow", counts=(("FAIL", 1),), residual_risk=0.5
)

measurements = st.builds(measurement, tests, st.lists(numbers, max_size=3).map(tuple))
any_event: st.SearchStrategy[Event] = st.one_of(
    st.builds(
        TestsPlanned,
        tests=st.lists(
            st.builds(PlannedTest, test=tests, benchmark=texts, cost=st.none() | costs), max_size=3
        ).map(tuple),
    ),
    st.builds(TestStarted, test=tests, worker=texts, lane=texts),
    st.builds(Measured, measurement=measurements),
    st.builds(Attempted, measurement=measurements),
    st.builds(
        WaiversRead,
        waivers=st.lists(
            st.builds(Waiver, owner=texts, reason=texts, expires=texts, test=texts), max_size=2
        ).map(tuple),
    ),
    st.builds(TestPutOff, test=tests),
    st.builds(Judged, verdict=st.builds(verdict, tests | st.just(""), st.sampled_from(Outcome))),
    st.builds(
        TestFinished,
        result=st.builds(
            result, tests, st.sampled_from(["passed", "failed", "xfailed", "crashed"])
        ),
    ),
    st.builds(PhaseFailed, test=tests, text=texts),
    st.builds(TestRepeated, test=tests, phase=st.just("call"), text=texts),
    st.builds(BlockerFound, text=texts, found_anew=st.booleans(), file=st.just("") | tests),
    st.builds(WorkerDied, worker=texts, lane=texts, test=tests, text=texts),
    st.builds(LaneGivenUp, lane=texts),
    st.builds(
        HardwareFound,
        sort=st.sampled_from(["card-lost", "thermal-slowdown", "of a later version"]),
        name=texts,
        text=texts,
        part=texts,
        device=st.sampled_from(["", "cuda:0"]),
        tests=st.lists(tests, max_size=2).map(tuple),
        source=texts,
    ),
    st.builds(
        LanesPlaced,
        lanes=st.lists(st.builds(LaneCores, lane=texts, cpus=texts), max_size=2).map(tuple),
    ),
    st.builds(InventoryChanged, inventory=st.dictionaries(st.sampled_from("abc"), st.integers())),
    st.builds(LeftBehind, test=tests, what=st.tuples(texts), repaired=st.booleans()),
    st.just(
        PlanPredicted(
            tests=(ExpectedTest(test="t", lane="l", start=0.0, end=1.0),), wall=1.0, serial=1.0
        )
    ),
    st.just(TestRan(test="t", worker="gw0", start=0.0, end=1.5)),
    st.just(RunTimed(wall=2.0, predicted=1.0)),
    st.builds(
        Resumed,
        started=texts,
        done=st.integers(0, 9),
        interrupted=st.lists(tests).map(tuple),
        baseline=st.none() | texts,
        changed=st.lists(texts, max_size=1).map(tuple),
    ),
    st.builds(DamageFound, text=texts),
    st.builds(InternalErrorFound, text=texts, traceback=texts),
    st.builds(BenchmarksChosen, choice=st.dictionaries(st.sampled_from("abc"), st.integers())),
    st.just(NodeDecided(verdict=DECISION)),
    st.builds(
        RunFinished,
        exit_status=st.sampled_from([0, 1, 2, 20]),
        ended=st.just("2026"),
        broken_off=st.sampled_from(["", "Ctrl-C"]),
    ),
)


def known(state: RunState) -> object:
    """Return all that a state tells, but for what was wrong with the journal and when events were written."""
    record = dataclasses.replace(state.record(), warnings=(), last=0.0)
    inner = [(state.measured(t), state.attempts(t), state.verdicts_of(t)) for t in TESTS]
    return record, inner, state.missing, state.interrupted, state.judged


def test_every_type_of_event_is_tried() -> None:
    tried = {TestsPlanned, TestStarted, Measured, Attempted, Judged, TestFinished, TestRepeated}
    tried |= {BlockerFound, WorkerDied, LaneGivenUp, PlanPredicted, TestRan, RunTimed, Resumed}
    tried |= {InventoryChanged, LeftBehind, DamageFound, InternalErrorFound, BenchmarksChosen}
    tried |= {RunFinished, PhaseFailed, HardwareFound, LanesPlaced, WaiversRead, TestPutOff}
    assert tried | {RunStarted, UnknownEvent, NodeDecided} == set(events.Event.__args__)


@given(st.lists(any_event, max_size=25))
def test_the_live_state_is_the_state_read_back(happened: list[Event]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live = RunState()
        with Journal.create(Path(folder), "r") as journal:
            for event in (HEAD, *happened):
                journal.write(event)
                live.apply(event)
        assert known(read_state(journal.path)) == known(live)


@given(st.lists(any_event, max_size=12), st.lists(any_event, max_size=12), st.integers(0, 400))
def test_a_resumed_run_equals_its_journal(
    before: list[Event], after: list[Event], cut: int
) -> None:
    """A crash cuts the journal anywhere behind its first line; the resumed run reads it."""
    with tempfile.TemporaryDirectory() as folder:
        with Journal.create(Path(folder), "r") as journal:
            journal.write(HEAD)
            least = journal.path.stat().st_size
            for event in before:
                journal.write(event)
        data = journal.path.read_bytes()
        journal.path.write_bytes(data[: max(least, len(data) - cut)])
        live = read_state(journal.path)
        with Journal.open_existing(journal.path) as again:
            for event in (Resumed(done=len(live.results)), *after):
                again.write(event)
                live.apply(event)
        assert known(read_state(journal.path)) == known(live)


def attempt(value: float, test: str = TESTS[0]) -> tuple[Event, Event]:
    """Return the events of an attempt that measures one value."""
    return TestStarted(test=test), Measured(measurement=measurement(test, (value,)))


def started(*happened: Event) -> RunState:
    state = RunState()
    for event in (HEAD, *happened):
        state.apply(event)
    return state


def test_the_last_attempt_of_a_repeated_test_counts() -> None:
    test = TESTS[0]
    state = started(
        *attempt(1.0),
        Judged(verdict=verdict(test, Outcome.FAIL)),
        TestRepeated(test=test, phase="call", text="slow"),
        *attempt(2.0),
        Judged(verdict=verdict(test)),
        TestFinished(result=result(test)),
    )
    run = state.record()
    assert [v.outcome for v in run.verdicts] == [Outcome.PASS]
    assert [m.values for m in run.measurements] == [(2.0,)]
    assert [m.values for m in state.measured(test)] == [(2.0,)]
    assert [e.measurement.values for e in run.events if isinstance(e, Attempted)] == [(1.0,)]
    assert [(one.test, one.text) for one in run.repeats] == [(test, "slow")]


def test_a_failure_with_a_lost_end_is_remembered() -> None:
    test = TESTS[0]
    bad = dataclasses.replace(verdict(test, Outcome.FAIL), text="half as fast")
    again = (Resumed(), TestStarted(test=test), Judged(verdict=verdict(test)))
    state = started(
        TestStarted(test=test), Judged(verdict=bad), *again, TestFinished(result=result(test))
    )
    run = state.record()
    assert [v.outcome for v in run.verdicts] == [Outcome.PASS]
    assert [(one.test, one.text) for one in run.repeats] == [(test, "half as fast")]


def test_verdicts_need_an_unchanged_baseline() -> None:
    test = TESTS[0]
    ended = (*attempt(1.0), Judged(verdict=verdict(test)), TestFinished(result=result(test)))
    same = started(*ended, Resumed(baseline="b")).record()
    assert [v.test for v in same.verdicts] == [test]
    other = started(*ended, Resumed(baseline="c", changed=("baseline b then, c now",))).record()
    assert other.verdicts == ()
    assert [m.test for m in other.measurements] == [test]
    assert other.baseline == "c"


def test_events_after_the_end_are_ignored() -> None:
    test = TESTS[0]
    state = started(
        NodeDecided(verdict=DECISION),
        RunFinished(exit_status=1, ended="2026"),
        Judged(verdict=verdict(test)),
        NodeDecided(verdict=dataclasses.replace(DECISION, decision=Decision.ACCEPTED)),
    )
    run = state.record()
    assert (run.verdicts, run.node_verdict) == ((), DECISION)
    state.apply(Resumed())
    state.apply(Judged(verdict=verdict(test)))
    assert len(state.record().verdicts) == 1


@pytest.mark.parametrize(
    ("status", "cause", "off"), [(0, "", False), (2, "", True), (7, "", True), (0, "exit", True)]
)
def test_a_run_is_broken_off_by_status_or_cause(status: int, cause: str, off: bool) -> None:
    run = started(RunFinished(exit_status=status, ended="2026", broken_off=cause)).record()
    assert bool(run.broken_off) is off
    assert started().record().broken_off == "never finished"


def test_a_failed_attempt_is_known_in_any_order() -> None:
    """Between processes the second start may arrive before the failure of the first attempt."""
    test = TESTS[0]
    begun, second = attempt(2.0)
    failed = TestRepeated(test=test, phase="call", text="slow")
    state = started(*attempt(1.0), begun, failed, second, TestFinished(result=result(test)))
    assert [m.values for m in state.record().measurements] == [(2.0,)]
    assert [one.test for one in state.record().repeats] == [test]


def test_a_second_beginning_does_not_replace_the_first() -> None:
    state = started(RunStarted(run="other", node="another"))
    assert (state.record().run, state.record().node) == ("r", "n")


def test_values_of_a_cut_test_become_attempts() -> None:
    cut = started(*attempt(1.0), Resumed(), *attempt(2.0), TestFinished(result=result(TESTS[0])))
    run = cut.record()
    assert [m.values for m in run.measurements] == [(2.0,)]
    assert [e.measurement.values for e in run.events if isinstance(e, Attempted)] == [(1.0,)]


def test_a_resumed_run_drops_blockers_it_checks_again() -> None:
    ended, cut = TESTS[:2]
    state = started(
        BlockerFound(text="cuda:2 is hidden", found_anew=True),
        *(BlockerFound(text=f"{one} cannot be collected", file=one) for one in ("b.py", "c.py")),
        BlockerFound(text="a plugin hid a failure"),
        TestsPlanned(tests=(PlannedTest(test="c.py::test_c"),)),
        Judged(verdict=verdict("")),
        TestStarted(test=ended),
        Judged(verdict=verdict(ended)),
        TestFinished(result=result(ended)),
        TestStarted(test=cut),
        Judged(verdict=verdict(cut)),
        WorkerDied(worker="gw0", lane="cuda:0", test=cut, text="killed by signal 9"),
        NodeDecided(verdict=DECISION),
        RunFinished(exit_status=2, ended="2026"),
    )
    assert state.record().broken_off
    assert state.interrupted == (cut,)
    state.apply(Resumed())
    run = state.record()
    assert [v.test for v in run.verdicts] == [ended]
    assert [one.cause for one in run.blockers] == [
        f"{cut}: killed by signal 9",
        *("b.py cannot be collected", "a plugin hid a failure"),
    ]
    assert run.node_verdict is None
    assert not run.ended
    assert run.broken_off == "never finished"


def test_a_wrong_exact_result_stays_wrong() -> None:
    wrong = dataclasses.replace(verdict("t", Outcome.FAIL), better="equal", metric="errors")
    for between in ([], [Resumed()], [Resumed(changed=("baseline",))]):
        slow, good = Judged(verdict=verdict("t", Outcome.FAIL)), Judged(verdict=verdict("t"))
        first = (TestStarted(test="t"), Judged(verdict=wrong), slow)
        again = (TestStarted(test="t"), good, TestFinished(result=result("t")))
        state = started(*first, *between, *again)
        found = [(v.metric, v.outcome, v.reason) for v in state.record().verdicts]
        assert found == [
            ("rate", Outcome.PASS, Reason.WITHIN),
            ("errors", Outcome.FAIL, Reason.REPEATED),
        ]
        assert [event.test for event in state.record().repeats] == ["t"]


def test_a_failed_body_is_remembered_without_teardown() -> None:
    begun = (TestStarted(test="t"), PhaseFailed(test="t", text="assert 0"))
    again = (Resumed(), TestStarted(test="t"), TestFinished(result=result("t")))
    (repeat,) = started(*begun, *again).record().repeats
    assert (repeat.test, repeat.text) == ("t", "assert 0")
    whole = started(*begun, TestFinished(result=result("t", "failed"))).record()
    assert whole.repeats == ()


def test_an_unfinished_test_is_not_reported() -> None:
    state = started(
        TestsPlanned(tests=tuple(PlannedTest(test=t, benchmark="b") for t in TESTS[:3])),
        TestStarted(test=TESTS[0]),
        TestStarted(test=TESTS[1]),
        TestFinished(result=result(TESTS[1])),
    )
    assert state.missing == [TESTS[0], TESTS[2]]
    by_test = {r.test: r for r in state.record().results}
    assert by_test[TESTS[0]].text == "started and never finished"
    assert by_test[TESTS[2]].text == "never started"
    assert {by_test[t].outcome for t in (TESTS[0], TESTS[2])} == {"not reported"}


def test_nothing_is_known_before_the_first_event() -> None:
    with pytest.raises(ValueError, match="not begun"):
        RunState().record()
