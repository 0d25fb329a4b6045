"""What the baseline expects of which device, and that nothing is accepted that leaves any of it open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.baseline import Baseline, Criterion, PlainCheck
from pytest_anubis.core.events import (
    BlockerFound,
    DamageFound,
    Event,
    Judged,
    Resumed,
    RunStarted,
    TestFinished,
    TestRepeated,
    TestsPlanned,
    TestStarted,
    WorkerDied,
)
from pytest_anubis.core.measurement import PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run_state import RunState
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.validator.deciding.ledger import unanswered, unplanned
from pytest_anubis.validator.deciding.run_decision import LeftOut, decide_run

DEVICES = ("cuda:0", "cuda:1", "cuda:2")


def criterion(benchmark: str, devices: tuple[str, ...] = DEVICES) -> Criterion:
    return Criterion(
        benchmark=benchmark,
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        centre=(1.0,),
        devices=devices,
        nodes=9,
    )


def judged(
    benchmark: str,
    device: str,
    outcome: Outcome = Outcome.PASS,
    reason: Reason = Reason.WITHIN,
    metric: str = "rate",
) -> MetricVerdict:
    fleet = outcome in (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL) and metric
    return MetricVerdict(
        outcome=outcome,
        reason=reason,
        text="so",
        benchmark=benchmark,
        metric=metric,
        device=device,
        test=f"{benchmark}[{device}]",
        reference=Reference.FLEET if fleet else Reference.NONE,
    )


def test_a_criterion_that_seven_of_eight_devices_answered_is_not_answered() -> None:
    eight = tuple(f"cuda:{i}" for i in range(8))
    seen = [judged("b", device) for device in eight if device != "cuda:3"]
    (line,) = unanswered(seen, [criterion("b", eight)])
    assert str(line).startswith("NOT_TESTED b rate on cuda:3: the baseline expects it of 8 devices")
    assert unanswered([*seen, judged("b", "cuda:3")], [criterion("b", eight)]) == []


def test_an_older_baseline_expects_every_device_of_the_run() -> None:
    seen = [judged("b", "cuda:0")]
    old = [criterion("b", ())]
    assert "on cuda:1, cuda:2" in unanswered(seen, old, devices=DEVICES)[0].subject
    assert unanswered(seen, old) == []
    assert unanswered([judged("b", "node")], old, devices=DEVICES) == []


def test_a_benchmark_of_one_device_is_not_expected_of_the_others() -> None:
    assert unanswered([judged("b", "cuda:0")], [criterion("b", ("cuda:0",))], devices=DEVICES) == []


@pytest.mark.parametrize("metric", ["rate", ""])
def test_a_device_that_has_a_reason_of_its_own_is_not_named_twice(metric: str) -> None:
    skipped = judged("b", "cuda:1", Outcome.NOT_TESTED, Reason.NOT_RUN, metric)
    lines = unanswered([judged("b", "cuda:0"), skipped], [criterion("b")])
    assert [one.subject for one in lines] == ["b rate on cuda:2"]


def test_a_test_that_failed_without_a_value_is_not_missing_as_well() -> None:
    criteria = [criterion("b"), replace(criterion("b"), scope="node")]
    failed = [
        replace(judged("b", device, Outcome.FAIL), reference=Reference.NONE) for device in DEVICES
    ]
    assert unanswered(failed, criteria) == []
    (line,) = unanswered(failed[:2], criteria)  # the third said nothing
    assert line.subject.endswith("on cuda:2")


def test_a_device_that_was_waived_does_not_excuse_the_others() -> None:
    waived = judged("b", "cuda:0", Outcome.NOT_TESTED, Reason.WAIVED)
    assert "on cuda:1, cuda:2" in unanswered([waived], [criterion("b")])[0].subject


def grouped(group: str, device: str, outcome: Outcome = Outcome.PASS) -> MetricVerdict:
    reason = Reason.WITHIN if outcome is Outcome.PASS else Reason.WAIVED
    return replace(judged("b", device, outcome, reason), group=group)


ZONES = [replace(criterion("b", ("d0", "d1")), group=group) for group in ("inner", "outer")]


def test_every_device_answers_in_every_group_that_most_nodes_have() -> None:
    seen = [grouped("inner", "d0"), grouped("outer", "d0"), grouped("inner", "d1")]
    (line,) = unanswered(seen, ZONES)
    assert line.subject.endswith("(outer) on d1")
    assert unanswered([*seen, grouped("outer", "d1")], ZONES) == []


def test_a_device_with_its_place_in_one_group_answers_there() -> None:
    stages = [replace(one, nodes=2) for one in ZONES]
    everywhere = replace(criterion("other", ("d0",)), nodes=9)
    seen = [grouped("inner", "d0"), grouped("outer", "d1"), judged("other", "d0")]
    assert unanswered(seen, [*stages, everywhere]) == []


def test_a_group_that_was_waived_on_one_device_does_not_excuse_another_group() -> None:
    seen = [grouped("inner", "d0"), grouped("inner", "d1", Outcome.NOT_TESTED)]
    (line,) = unanswered(seen, ZONES)
    assert line.subject.endswith("(outer)")


def test_a_repeated_attempt_answers_nothing() -> None:
    repeated = judged("b", "cuda:0", Outcome.MARGINAL, Reason.REPEATED, "")
    (line,) = unanswered([repeated], [criterion("b", ("cuda:0",))])
    assert "nothing of this run was judged against it" in line.cause


def test_a_check_that_the_nodes_of_the_baseline_passed_is_missed() -> None:
    checks = [
        PlainCheck(test="a.py::test_driver", devices=("node",)),
        PlainCheck(test="b", devices=DEVICES),
    ]
    planned = {("a.py::test_driver", "node"), ("b", "cuda:0"), ("b", "cuda:1"), ("b", "cuda:2")}
    assert unplanned([], checks, planned) == []
    found = unplanned([], checks, planned - {("a.py::test_driver", "node")})
    assert [one.subject for one in found] == ["a.py::test_driver"]
    (line,) = unplanned([], checks, planned - {("b", "cuda:1")})
    assert line.subject == "b on cuda:1"
    pruned = judged("b", "", Outcome.NOT_TESTED, Reason.PRUNED, "")
    assert unplanned([pruned], checks[1:], ()) == []


# Any run at all: what is accepted was accounted for.

BENCHMARKS = ("suite.py::test_a", "suite.py::test_b")
PLAIN = "suite.py::test_plain"
MEASURED = [(b, d) for b in BENCHMARKS for d in DEVICES]
PLANS = [
    *(PlannedTest(test=f"{b}[{d}]", benchmark=b, device=d, metrics=("rate",)) for b, d in MEASURED),
    PlannedTest(test=PLAIN, device="node"),
]
CHECKS = (PlainCheck(test=PLAIN, devices=("node",)),)

FATES = (
    *("passed", "failed", "metric failed", "marginal", "skipped", "inconclusive", "crashed"),
    *("xfailed", "xfailed by itself", "deselected", "never reported", "report lost", "repeated"),
    *("written wrongly", "errors in its teardown"),
)


def lived(plan: PlannedTest, fate: str) -> list[Event]:
    """Return the events of one test."""
    test, metric = plan.test, plan.benchmark != ""
    begun: list[Event] = [TestStarted(test=test)]

    def ended(outcome: str, misuse: str = "") -> Event:
        return TestFinished(
            result=TestResult(test=test, benchmark=plan.benchmark, outcome=outcome, misuse=misuse)
        )

    def verdict(outcome: Outcome, reason: Reason) -> list[Event]:
        one = judged(plan.benchmark, plan.device, outcome, reason)
        return [Judged(verdict=one)] if metric else []

    good, bad = verdict(Outcome.PASS, Reason.WITHIN), verdict(Outcome.FAIL, Reason.BEYOND)
    unclear = verdict(Outcome.INCONCLUSIVE, Reason.DISTURBED)
    again = [TestRepeated(test=test, text="slow"), *begun, *good, ended("passed")]
    return {
        "passed": [*begun, *good, ended("passed")],
        "failed": [*begun, ended("failed")],
        "metric failed": [*begun, *bad, ended("failed")],
        "marginal": [*begun, *verdict(Outcome.MARGINAL, Reason.UNUSUAL), ended("passed")],
        "skipped": [*begun, ended("skipped")],
        "inconclusive": [*begun, *unclear, ended("skipped")],
        "crashed": [*begun, WorkerDied(test=test, text="signal 9"), ended("crashed")],
        "xfailed": [*begun, *bad, ended("xfailed")],
        "xfailed by itself": [*begun, ended("xfailed")],
        "deselected": [],
        "never reported": [],
        "report lost": [*begun, *good],
        "repeated": [*begun, *bad, *again],
        "written wrongly": [*begun, ended("failed", "no direction")],
        "errors in its teardown": [*begun, *good, ended("error")],
    }[fate]


runs = st.fixed_dictionaries(
    {
        "fates": st.lists(
            st.sampled_from(["passed"] * 20 + list(FATES)),
            min_size=len(PLANS),
            max_size=len(PLANS),
        ),
        "more": st.lists(
            st.sampled_from(
                [BlockerFound(text="hidden"), DamageFound(text="line 3"), Resumed(), Resumed()]
            ),
            max_size=1,
        ),
        "pruned": st.sampled_from([(), (), (), BENCHMARKS[:1]]),
        "risk": st.sampled_from([None, 0.01]),
        "broken_off": st.sampled_from(["", "", "", "Ctrl-C"]),
        "fail_on": st.sampled_from(["fail", "marginal"]),
        "old": st.booleans(),
        "checks": st.booleans(),
    }
)


def begun(plans: Sequence[PlannedTest]) -> RunState:
    state = RunState()
    state.apply(RunStarted(run="r", node="n", baseline="sha256:1", devices=DEVICES))
    state.apply(TestsPlanned(tests=tuple(plans)))
    return state


def baseline_of(devices: tuple[str, ...], checks: tuple[PlainCheck, ...]) -> Baseline:
    return Baseline(
        hardware_class="c",
        criteria=tuple(criterion(b, devices) for b in BENCHMARKS),
        created="2026-01-01",
        nodes=("x", "y", "z"),
        checks=checks,
    )


@given(runs)
def test_what_is_accepted_was_judged_on_every_device_or_is_named(run: dict) -> None:  # type: ignore[type-arg]
    fates = dict(zip((plan.test for plan in PLANS), run["fates"], strict=True))
    for plan in PLANS:
        if plan.benchmark in run["pruned"]:
            fates[plan.test] = "pruned"
    planned = [p for p in PLANS if fates[p.test] not in ("deselected", "pruned")]
    state = begun(planned)
    for plan in planned:
        for event in lived(plan, fates[plan.test]):
            state.apply(event)
    for event in run["more"]:
        state.apply(event)
    devices = () if run["old"] else DEVICES
    left_out = [judged(b, "", Outcome.NOT_TESTED, Reason.PRUNED, "") for b in run["pruned"]]
    verdict = decide_run(
        state.record(),
        baseline_of(devices, CHECKS if run["checks"] else ()),
        fail_on=run["fail_on"],
        left_out=LeftOut(verdicts=tuple(left_out), risk_after=lambda _: run["risk"])
        if left_out
        else None,
        broken_off=run["broken_off"],
    ).node_verdict

    assert (verdict.decision is Decision.UNDECIDED) >= bool(run["broken_off"])
    if verdict.decision is not Decision.ACCEPTED:
        return
    assert not any(isinstance(e, (BlockerFound, DamageFound)) for e in run["more"][-1:])
    if run["pruned"]:
        assert run["risk"] is not None
    answered = ("passed", "marginal", "repeated")
    for plan in PLANS:
        fate = fates[plan.test]
        if fate in ("xfailed", "xfailed by itself", "repeated", "pruned") and plan.benchmark:
            assert plan.benchmark.rpartition("/")[2] in verdict.headline
        elif plan.benchmark:
            assert fate in answered, (plan.test, fate)
        elif run["checks"]:  # the baseline's nodes passed it: passed here, or waived by name
            assert fate in (*answered, "inconclusive", "xfailed", "xfailed by itself")
        else:  # a plain check that nobody deselected ended well, was waived or did not apply here
            assert fate in (
                *answered,
                *("inconclusive", "skipped", "xfailed", "xfailed by itself", "deselected"),
            )
        if fate in ("xfailed", "repeated") and plan.benchmark:
            assert "none failed" not in verdict.headline


def test_the_property_meets_acceptance_and_every_way_to_miss_it() -> None:
    """The property above says nothing unless runs are accepted: a run of which all passed is."""
    state = begun(PLANS)
    for plan in PLANS:
        for event in lived(plan, "passed"):
            state.apply(event)
    baseline = baseline_of(DEVICES, CHECKS)
    whole = state.record()
    assert decide_run(whole, baseline).node_verdict.decision is Decision.ACCEPTED
    for plan in PLANS:
        rest = tuple(result for result in whole.results if result.test != plan.test)
        found = decide_run(replace(whole, results=rest), baseline).node_verdict
        assert found.decision is Decision.UNDECIDED, plan.test
        gone = tuple(one for one in PLANS if one is not plan)
        found = decide_run(replace(whole, planned=gone, results=rest), baseline).node_verdict
        assert (found.decision is Decision.UNDECIDED) >= (plan.test == PLAIN), plan.test
