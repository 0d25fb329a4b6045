"""One line that says what runs where, how far it is, what failed and what is waited for."""

from __future__ import annotations

from dataclasses import replace

from pytest_anubis.core.events import (
    Event,
    PlanPredicted,
    Resumed,
    RunStarted,
    TestFinished,
    TestsPlanned,
    TestStarted,
)
from pytest_anubis.core.measurement import ExpectedTest, PlannedTest, TestResult
from pytest_anubis.core.run_state import RunState
from pytest_anubis.report.text.run_progress import RunProgress, run_progress

BEGUN = RunStarted(run="r", node="n", hardware_class="c", started="2026-01-01T00:00:00+00:00")


def planned(name: str, device: str = "cpu") -> PlannedTest:
    benchmark = f"s.py::test_{name}"
    return PlannedTest(test=f"{benchmark}[{device}]", benchmark=benchmark, device=device)


def state_of(*events: Event) -> RunState:
    state = RunState()
    for event in (BEGUN, *events):
        state.apply(event)
    return state


def failed(plan: PlannedTest) -> TestFinished:
    return TestFinished(result=TestResult(test=plan.test, benchmark="", outcome="failed"))


GEMM, STREAM, DISK = planned("gemm"), planned("stream"), planned("disk")


def test_moment_says_what_runs_where_and_what_failed() -> None:
    assert run_progress(RunState()).text() == "starting"
    state = state_of(
        TestsPlanned(tests=(GEMM, STREAM, DISK)),
        *(TestStarted(test=GEMM.test), failed(GEMM), TestStarted(test=STREAM.test)),
    )
    assert run_progress(state).text() == "test_stream on cpu, 1 of 3 done, 1 failed: test_gemm[cpu]"
    assert run_progress(state).text(125.4) == (
        "test_stream on cpu, 1 of 3 done, about 2 min 05 s left, 1 failed: test_gemm[cpu]"
    )
    state.apply(failed(STREAM))
    assert run_progress(state, DISK.test).doing == "test_disk on cpu"


def test_progress_is_the_share_of_ended_costs() -> None:
    assert (run_progress(RunState()).cost, run_progress(RunState()).share) == (0.0, 0.0)
    plans = tuple(
        replace(one, cost=cost) for one, cost in ((GEMM, 30.0), (STREAM, 9.0), (DISK, None))
    )
    state = state_of(TestsPlanned(tests=plans), failed(GEMM))
    assert (run_progress(state).cost, run_progress(state).share) == (40.0, 0.75)
    state.apply(PlanPredicted(tests=(), wall=25.0, serial=40.0))
    assert (run_progress(state).cost, run_progress(state).share) == (25.0, 0.75)


def test_progress_names_devices_and_waiting_lanes() -> None:
    cards = [planned("gemm", f"cuda:{number}") for number in range(5)]
    slots = [ExpectedTest(test=one.test, lane=one.device, start=0.0, end=1.0) for one in cards]
    slots.append(ExpectedTest(test=DISK.test, lane="node", start=1.0, end=2.0))
    state = state_of(
        TestsPlanned(tests=(*cards, DISK)),
        PlanPredicted(tests=tuple(slots), wall=2.0, serial=6.0),
        *(TestStarted(test=one.test) for one in cards),
    )
    assert run_progress(state).text() == (
        "test_gemm on cuda:0, cuda:1, cuda:2, 2 more, 0 of 6 done, "
        "1 test of lane node waits until the others are done"
    )


def test_tests_of_an_earlier_part_do_not_run() -> None:
    state = state_of(TestsPlanned(tests=(GEMM,)), TestStarted(test=GEMM.test), Resumed(started=""))
    assert run_progress(state).text() == "starting, 0 of 1 done"


def test_a_finished_run_waits_for_no_worker() -> None:
    done = RunProgress(done=3, planned=3)
    assert done.text() == "writes what it found, 3 of 3 done"
    assert RunProgress(done=2, planned=3).text() == "waits for a worker, 2 of 3 done"
