"""What is said of tests that did not come to their end."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from pytest_anubis.core.alike_devices import same_thing
from pytest_anubis.core.blocker import Hindrance
from pytest_anubis.core.events import BlockerFound, Event, LaneGivenUp, TestRepeated, WorkerDied
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import NodeVerdict, Outcome
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.report.text.failure_text import worst_text
from pytest_anubis.report.text.summary_text import summary_lines
from pytest_anubis.validator.deciding.completeness import verdicts_of_repeats, verdicts_of_tests
from pytest_anubis.validator.deciding.run_decision import decide_run

TEST = "test_a.py::test_link[cuda:1>cuda:2]"


@pytest.mark.parametrize(
    ("cause", "beginning", "step"),
    [
        (
            "hung: no end within 5 s (--anubis-timeout); the process was killed",
            "hung: no end within 5 s",
            "that device's driver, card or link does not answer",
        ),
        (
            "its process died: segmentation fault (SIGSEGV)",
            "the process died during the test: its process died",
            "look for the driver's words in the kernel log",
        ),
    ],
)
def test_what_never_ended_has_a_next_step(cause: str, beginning: str, step: str) -> None:
    plan = PlannedTest(test=TEST, benchmark="test_a.py::test_link", device="cuda:1>cuda:2")
    result = TestResult(test=TEST, benchmark=plan.benchmark, outcome="crashed", text=cause)
    (verdict,) = verdicts_of_tests([plan], {TEST: result}, (), node="n")
    assert verdict.text.startswith(beginning)
    assert f"next step: look where it {'hung' if 'hung' in cause else 'ended'}" in verdict.text
    assert f"run it alone again: pytest --anubis '{TEST}'" in verdict.text
    assert verdict.text.endswith(step)


def test_what_was_measured_stands_beside_a_failed_check() -> None:
    plan = PlannedTest(test=TEST, benchmark="test_a.py::test_link", device="cuda:1>cuda:2")
    result = TestResult(test=TEST, benchmark=plan.benchmark, outcome="failed", text="1 wrong word")
    measured = Measurement(
        test=TEST,
        benchmark=plan.benchmark,
        component="link",
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        device=plan.device,
        values=(1.0, 2.0, 3.0),
    )
    results = {TEST: result}
    (verdict,) = verdicts_of_tests([plan], results, (), node="n", measurements=[measured])
    assert verdict.outcome is Outcome.FAIL
    assert "rate 2 GB/s" in worst_text(verdict, {})
    assert verdict.text == "1 wrong word"  # in each run the same thing
    again = replace(verdict, run="b", run_words="in run b", text="1 wrong word; in run b")
    assert same_thing(verdict) == same_thing(again)


def decided(tests: dict[str, str], *events: Event) -> tuple[NodeVerdict, str]:
    """Return the decision about a run whose tests ended so (empty: never), and its page."""
    run = RunRecord(
        run="r",
        node="n",
        planned=tuple(PlannedTest(test=test, benchmark=test) for test in tests),
        results=tuple(
            TestResult(
                test=test, benchmark=test, outcome="crashed" if text else "passed", text=text
            )
            for test, text in tests.items()
            if text != "never"
        ),
        events=events,
    )
    decision = decide_run(run, None)
    whole = replace(run, verdicts=decision.added, node_verdict=decision.node_verdict)
    return decision.node_verdict, run_page(whole)


WHY = "its process died: killed (SIGKILL)"


def test_a_death_is_one_blocker() -> None:
    verdict, page = decided({"t.py::test_a": WHY}, WorkerDied(test="t.py::test_a", text=WHY))
    death, baseline = verdict.blocking
    assert death.fact == f"t.py::test_a: {WHY}"
    assert death.act.startswith("look where it ended, then run it alone")
    assert baseline.kind is Hindrance.NO_BASELINE
    assert f": t.py::test_a: {WHY} (and 1 more)" in verdict.headline
    assert dict(verdict.counts) == {"INCONCLUSIVE": 1}  # the test has its verdict all the same
    assert "crashed, failed" not in page
    assert "processes that died" not in page
    texts = [text for text, _ in summary_lines(verdict, ())]
    assert sum(WHY in text for text in texts) == 1
    assert texts[0].endswith("0 results judged, none failed")


def test_a_death_without_words_is_told_by_no_line_that_names_its_test() -> None:
    """Any line that named it was taken for it: what became of the test would have stood nowhere."""
    record = RunRecord(
        run="r",
        node="n",
        planned=(PlannedTest(test="t.py::test_a", benchmark="t.py::test_a"),),
        results=(TestResult(test="t.py::test_a", benchmark="t.py::test_a", outcome="crashed"),),
        events=(BlockerFound(text="t.py::test_a left a file behind"),),
    )
    lines = [*map(str, decide_run(record, None).node_verdict.blocking)]
    assert any("the process died during the test" in line for line in lines)
    answer = replace(record, events=(*record.events, WorkerDied(test="t.py::test_a")))
    lines = [*map(str, decide_run(answer, None).node_verdict.blocking)]
    assert not any("the process died during the test" in line for line in lines)
    assert sum(line.startswith("t.py::test_a: its process died -> ") for line in lines) == 1


def test_processes_that_died_of_the_same_are_one_blocker_with_their_count() -> None:
    tests = {f"t.py::test_{name}": WHY for name in "abc"}
    other = "its process died: exit with status 3"
    died = [WorkerDied(test=test, text=WHY) for test in tests]
    verdict, _ = decided({**tests, "t.py::d": other}, *died, WorkerDied(test="t.py::d", text=other))
    first, second, _ = verdict.blocking
    assert first.fact == f"3 tests: {WHY}: t.py::test_a, t.py::test_b, t.py::test_c"
    assert second.fact == f"t.py::d: {other}"
    assert first.act
    assert second.act


def test_a_lane_that_was_given_up_is_one_blocker_with_its_tests() -> None:
    idle = [WorkerDied(lane="cuda:1", text="its process died: exit with status 5")] * 4
    verdict, page = decided(
        {"t.py::test_a": "", "t.py::test_b": "never", "t.py::test_c": "never"},
        *idle,
        LaneGivenUp(lane="cuda:1"),
    )
    lane, _ = verdict.blocking
    assert lane.fact == (
        "lane cuda:1 is given up: its workers died again and again (at last: its process died: exit with "
        "status 5); 2 tests never ran"
    )
    assert dict(verdict.counts) == {"NOT_TESTED": 2}
    assert "never reported" not in page


def test_a_test_that_passed_when_its_worker_was_replaced_is_in_the_way_still() -> None:
    verdict, _ = decided({"t.py::test_a": ""}, WorkerDied(test="t.py::test_a", text=WHY))
    assert verdict.blocking[0].fact == f"t.py::test_a: {WHY}"


def test_a_test_that_is_silent_for_no_known_cause_is_told_by_name() -> None:
    verdict, page = decided({"t.py::test_a": "never"})
    assert "NOT_TESTED t.py::test_a: never reported" in map(str, verdict.blocking)
    assert "never reported" in page


@pytest.mark.parametrize(
    ("last", "outcome"), [("passed", Outcome.MARGINAL), ("xfailed", Outcome.INCONCLUSIVE)]
)
def test_a_repeated_test_that_gives_up_has_passed_nothing(
    last: Literal["passed", "xfailed"], outcome: Outcome
) -> None:
    run = RunRecord(
        run="r",
        node="n",
        planned=(PlannedTest(test=TEST, benchmark="b"),),
        results=(TestResult(test=TEST, benchmark="b", outcome=last),),
        events=(TestRepeated(test=TEST, text="rate is half"),),
    )
    (verdict,) = verdicts_of_repeats(run)
    assert verdict.outcome is outcome
    wrong = replace(verdict, outcome=Outcome.FAIL, test=TEST)  # found by the first attempt
    assert replace(run, verdicts=(wrong,)).effective_verdicts == (wrong,)
    marked = replace(run, verdicts=(wrong,), events=()).effective_verdicts[0]
    assert (marked.outcome is Outcome.FAIL) == (last == "passed")
