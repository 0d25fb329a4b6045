"""What a run says about its node besides its samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome, Reason, Triage, Trouble
from pytest_anubis.validator.deciding.run_comparisons import comparisons
from pytest_anubis.validator.deciding.run_decision import decide_run, evidence_of

TEST = "suite.py::test_other[cuda:0]"
PLAN = PlannedTest(test=TEST, benchmark="suite.py::test_other", device="cuda:0")
FAILED = TestResult(test=TEST, benchmark="suite.py::test_other", outcome="failed", text="assert 0")
RUN = RunRecord(
    run="r",
    node="n",
    ended="2026-01-01T00:00:00Z",
    exit_status=1,
    planned=(PLAN,),
    results=(FAILED,),
)


def result(run: RunRecord, *unmeasured: str) -> list[tuple[str, str]]:
    """Return outcome and reason of what the run says about tests without a sample."""
    return [(v.outcome.value, v.reason.value) for v in evidence_of(run, unmeasured).verdicts]


def verdict(outcome: Outcome, reason: Reason, benchmark: str, **more: Any) -> MetricVerdict:
    about = {"metric": "", "text": "said of it", "benchmark": benchmark} | more
    return MetricVerdict(outcome=outcome, reason=reason, **about)


def test_a_test_that_failed_without_a_sample_rejects() -> None:
    assert result(RUN, TEST) == [("FAIL", "test-failed")]
    assert result(RUN) == []  # other runs know its metrics: it has a row there
    assert result(replace(RUN, planned=()), TEST) == [("FAIL", "test-failed")]  # its plan was lost


def test_what_the_run_itself_said_about_a_test_is_not_said_twice() -> None:
    silent = Outcome.INCONCLUSIVE, Reason.NOT_REPORTED
    said = verdict(*silent, "suite.py::test_other", device="cuda:0")
    assert result(replace(RUN, verdicts=(said,)), TEST) == [("INCONCLUSIVE", "not-reported")]


def test_a_plain_test_that_failed_is_said_once() -> None:
    plan = PlannedTest(test="suite.py::test_plain", device="node")
    failed = TestResult(test=plan.test, benchmark="", outcome="failed", text="assert 0")
    said = verdict(Outcome.FAIL, Reason.TEST_FAILED, plan.test, device="node")
    run = replace(RUN, planned=(plan,), results=(failed,))
    assert result(run, plan.test) == [("FAIL", "test-failed")]
    assert result(replace(run, verdicts=(said,)), plan.test) == [("FAIL", "test-failed")]


def test_a_run_says_which_tests_it_had() -> None:
    plain = PlannedTest(test="suite.py::test_plain", device="node")
    planned = evidence_of(replace(RUN, planned=(PLAN, plain))).planned
    assert planned == {("suite.py::test_other", "cuda:0"), ("suite.py::test_plain", "node")}


def unjudged(measured: list[Measurement]) -> RunRecord:
    """Return a run of these measurements without a baseline."""
    verdicts = tuple(
        verdict(
            *(Outcome.INCONCLUSIVE, Reason.NO_BASELINE, one.benchmark),
            metric=one.metric.name,
            device=one.device,
            test=one.test,
        )
        for one in measured
    )
    return replace(RUN, measurements=tuple(measured), verdicts=verdicts, results=(), planned=())


def on_card(card: int, metric: Metric, values: tuple[float, ...], **more: Any) -> Measurement:
    return Measurement(
        test=f"suite.py::test_sum[cuda:{card}]",
        benchmark="suite.py::test_sum",
        component="accelerator",
        metric=metric,
        device=f"cuda:{card}",
        values=values,
        **more,
    )


def test_load_does_not_excuse_a_device_whose_exact_result_differs_from_its_peers() -> None:
    wrong = Metric(name="wrong", unit="elements", better="equal")
    load = ("other processes used 2.0 of 2 cores",)
    run = unjudged(
        [
            on_card(card, wrong, (3.0 if card == 5 else 0.0,) * 5, disturbance=load)
            for card in range(8)
        ]
    )
    found = {v.device: v.outcome for v in comparisons(run, None, tuple)}
    assert [device for device, outcome in found.items() if outcome is Outcome.FAIL] == ["cuda:5"]


def test_each_card_keeps_its_own_nominal_rate_among_its_peers() -> None:
    best = [NominalRate(value=32.0 if card == 5 else 40.0, of="PCIe") for card in range(8)]
    rate = Metric(name="rate", unit="GB/s", better="higher")
    measured = [
        on_card(
            card,
            replace(rate, nominal=best[card]),
            tuple(30.0 + 0.01 * (number + card) for number in range(9)),
        )
        for card in range(8)
    ]
    assert [one.nominal for one in comparisons(unjudged(measured), None, tuple)] == best


SLOW = MetricVerdict(
    outcome=Outcome.FAIL, reason=Reason.BEYOND, text="rate is slow", benchmark="suite.py::test_rate",
    metric="rate", better="higher", similarity=0.6, value=60.0, action="change the card",
)  # fmt: skip
WRONG = replace(SLOW, metric="wrong", better="equal", similarity=0.0, text="wrong is 3")
LET_BE = {"others": 0.95, "steal": 0.3, "io": 0.05}


def test_what_is_slow_while_the_machine_was_let_be_noisy_rejects_and_is_measured_again() -> None:
    run = replace(RUN, results=(), planned=(), verdicts=(SLOW,), settings={"quiet_limits": LET_BE})
    found = decide_run(run, None).node_verdict
    assert (found.decision, found.triage) == (Decision.REJECTED, Triage.RETEST)
    assert "(retest: measured while the machine was let be noisy)" in found.headline
    assert "more noise than usual (--anubis-quiet-limit=others=95%,steal=30%)." in found.headline
    assert found.headline.endswith("Next step: measure again; if the loss stays: change the card")
    assert run.effective_verdicts[0].trouble is Trouble.NOISY
    two = replace(run, verdicts=(WRONG, SLOW, replace(SLOW, metric="time")))
    assert "; also 2 noisy." in decide_run(two, None).node_verdict.headline


@pytest.mark.parametrize(
    ("verdicts", "limits"),
    [
        ((SLOW, WRONG), LET_BE),  # load flips no bits
        ((replace(WRONG, metric="", reason=Reason.TEST_FAILED, better=""),), LET_BE),
        ((SLOW,), {"io": 0.05}),  # narrower than usual
        ((SLOW,), {}),
    ],
)
def test_what_load_explains_nothing_of_stays_sure(
    verdicts: tuple[MetricVerdict, ...], limits: dict[str, float]
) -> None:
    run = replace(RUN, results=(), planned=(), verdicts=verdicts, settings={"quiet_limits": limits})
    found = decide_run(run, None).node_verdict
    assert (found.decision, found.triage) == (Decision.REJECTED, Triage.REJECT)
    assert "noisy" not in found.headline.partition(";")[0]
