"""Every metric with a paced form is judged twice, and the stricter verdict counts and says which it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.baseline import HOST_PACE, Baseline, Criterion, PacedForm, PaceSlope
from pytest_anubis.core.measurement import Measurement, PlannedTest
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import FloatArray, Problem, population_of
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.validator import closer_look, judge_populations, judge_sample
from pytest_anubis.validator.deciding.run_comparisons import comparisons
from pytest_anubis.validator.judging.sequential_test import CLEAR_LOOKS
from pytest_anubis.validator.similarity.pacing import pace_metric

RATE = Metric(name="rate", unit="GB/s", better="higher")
SLOPE = PaceSlope(kind="compute", reference=1e-3, slope=1.0, least=0.5, most=1.5)
FORM = PacedForm(slopes=(SLOPE,), gain=0.1, centre=(100.0,), learned=0.94, spread=0.01)
CRITERION = Criterion(
    benchmark="b",
    metric=RATE,
    component="memory",
    centre=(100.0,),
    learned=0.6,
    spread=0.1,
    nodes=1,
    units=8,
    devices=("cpu",),
    paced=FORM,
)
PACE = Criterion(
    benchmark=HOST_PACE,
    metric=pace_metric("compute"),
    component="host.cpu",
    centre=(1.0,),
    learned=0.8,
    nodes=1,
    units=8,
)
BASELINE = Baseline(
    hardware_class="c", criteria=(CRITERION, PACE), created="2026-01-01T00:00:00Z", one_machine=True
)


def values(level: float, count: int = 12) -> FloatArray:
    return np.full(count, level)


def pace(times: float, count: int = 12) -> dict[str, FloatArray]:
    return {"compute": np.full(count, times * 1e-3)}


@pytest.mark.parametrize(
    ("level", "times", "outcome", "says"),
    [
        (80.0, 1.25, Outcome.PASS, "at the host's reference pace, measured 80 GB/s"),  # host slower
        (90.0, 1.0, Outcome.FAIL, "at the host's reference pace, measured 90 GB/s"),  # part slower
        (72.0, 1.25, Outcome.FAIL, "at the host's reference pace, measured 72 GB/s"),  # both
        (50.0, 1.49, Outcome.FAIL, "at the host's reference pace"),  # raw beyond .6 as well
    ],
)
def test_the_stricter_form_decides(level: float, times: float, outcome: Outcome, says: str) -> None:
    criterion = replace(CRITERION, learned=0.4)
    verdict = judge_sample(values(level), criterion, BASELINE, pace=pace(times))
    assert verdict.outcome is outcome
    assert says in verdict.text
    assert verdict.measured == level


def test_value_expected_and_the_loss_that_is_said_divide() -> None:
    ping = Metric(name="ping", unit="us", better="lower")
    quick = replace(CRITERION, metric=ping)
    spread = np.concatenate([values(1844.0, 7), values(2500.0, 5)])
    text = judge_sample(spread, quick, BASELINE, pace=pace(1.0)).text
    assert "; its distribution is " in text
    assert ", its median " in text


def test_a_raw_loss_is_never_excused_by_the_pace() -> None:
    assert judge_sample(values(69.0), CRITERION, BASELINE, pace=pace(1.45)).outcome is Outcome.PASS
    steep = replace(CRITERION, paced=replace(FORM, slopes=(replace(SLOPE, slope=1.5),)))
    raw = judge_sample(values(58.0), steep, BASELINE, pace=pace(1.49))
    assert (raw.outcome, raw.value, raw.measured) == (Outcome.FAIL, 58.0, None)
    assert "raw form; 105" in raw.text


def test_a_loss_that_only_the_paced_form_shows_is_no_pass_without_a_pace() -> None:
    for beside in (pace(3.0), {}, pace(1.0, 5), {"memory": values(1.0)}):
        verdict = judge_sample(values(80.0), CRITERION, BASELINE, pace=beside)
        assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, Reason.UNDETECTABLE)
        assert verdict.text.endswith("could not be told: measure again")


def test_columns_say_the_same_as_samples() -> None:
    cases = [(83.0, 1.2), (90.0, 1.0), (58.0, 1.49), (83.0, 3.0), (90.0, 1.0)]
    population = population_of(
        [values(level) for level, _ in cases],
        metric=RATE,
        benchmark="b",
        hardware_class="c",
        component="memory",
        devices=["cpu"] * 5,
        paces={"compute": np.concatenate([pace(times)["compute"] for _, times in cases])},
        problems={4: Problem(kind="disturbed", text="40 % steal")},
    )
    judged, of_pace = judge_populations([population], BASELINE)
    for row, (level, times) in enumerate(cases):
        disturbance = ("40 % steal",) if row == 4 else ()
        alone = judge_sample(
            values(level),
            CRITERION,
            BASELINE,
            metric=RATE,
            node=population.nodes[row],
            device="cpu",
            disturbance=disturbance,
            pace=pace(times),
        )
        found = judged.verdict(row, BASELINE)
        assert found.similarity == pytest.approx(alone.similarity)
        assert replace(found, similarity=alone.similarity) == alone
    assert judged.verdict(4, BASELINE).outcome is Outcome.INCONCLUSIVE
    worst = [v.outcome for v in of_pace.verdicts(BASELINE)]
    assert worst == [Outcome.PASS, Outcome.PASS, Outcome.FAIL, Outcome.FAIL, Outcome.PASS]


def measurement(test: str, level: float, times: float, *disturbance: str) -> Measurement:
    return Measurement(
        test=test,
        benchmark="b",
        component="memory",
        metric=RATE,
        device="cpu",
        values=tuple(values(level).tolist()),
        pace=(("compute", tuple(pace(times)["compute"].tolist())),),
        disturbance=disturbance,
    )


def test_a_clock_that_is_lower_for_all_is_found_at_the_end_of_the_run() -> None:
    run = RunRecord(run="r", node="n", hardware_class="c")

    def of_pace(*measurements: Measurement) -> list[tuple[str, str, Outcome]]:
        found = comparisons(replace(run, measurements=measurements), BASELINE, tuple)
        return [(v.component, v.metric, v.outcome) for v in found]

    assert of_pace(measurement("t", 71.0, 1.4)) == [("host.cpu", "compute_pace", Outcome.FAIL)]
    assert of_pace(measurement("t", 98.0, 1.02)) == [("host.cpu", "compute_pace", Outcome.PASS)]
    plan = PlannedTest(test="t", benchmark="b")
    for planned, why in (((), "is part of this run"), ((plan,), "was measured")):
        (left_out,) = comparisons(replace(run, planned=planned), BASELINE, tuple)
        assert (left_out.outcome, left_out.reason) == (Outcome.NOT_TESTED, Reason.PRUNED)
        assert left_out.text.endswith(why)  # what was planned says itself why it was not measured
    disturbed = of_pace(measurement("t", 71.0, 1.4, "40 % steal"))
    assert disturbed == [("host.cpu", "compute_pace", Outcome.INCONCLUSIVE)]


def test_a_close_call_is_one_in_either_form() -> None:
    rng = np.random.default_rng(1)
    noisy = [values(88.0) * rng.normal(1, 0.01, 12) for _ in range(CLEAR_LOOKS - 1)]
    usual = [tuple((kind, tuple(each)) for kind, each in pace(1.0).items())] * len(noisy)
    assert closer_look(noisy, CRITERION) == "enough"  # 12 % is nothing for the raw form
    assert closer_look(noisy, CRITERION, paces=usual) == "more"
    slower = [tuple((kind, tuple(each)) for kind, each in pace(1.13).items())] * len(noisy)
    assert closer_look(noisy, CRITERION, paces=slower) == "enough"
