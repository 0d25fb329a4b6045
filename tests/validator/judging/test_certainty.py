"""How sure a loss is: the stated probability holds, and what is not sure is measured again first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.codec import from_plain, to_plain
from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Triage, Trouble
from pytest_anubis.core.waiving import waived_verdict
from pytest_anubis.validator import judge_columns, judge_sample
from pytest_anubis.validator.judging.certainty import SURE, certainty_of
from pytest_anubis.validator.judging.column_judging import confirm
from pytest_anubis.validator.similarity.distance import one_sided

SPREAD = 0.01


def criterion(
    better: Direction = "higher", unit: str = "GB/s", spread: float = SPREAD
) -> Criterion:
    """Return one of 101 healthy units that differ by so much, relative."""
    rng = np.random.default_rng(5)
    medians = np.sort(100 * np.exp(rng.normal(0, spread, 101)))
    return Criterion(
        benchmark="b",
        metric=Metric(name="rate", unit=unit, better=better),
        centre=(100.0,),
        learned=0.96,
        medians=tuple(medians.tolist()),
        nodes=101,
        units=101,
    )


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_the_stated_probability_is_how_often_the_loss_is_beyond(better: Direction) -> None:
    rng = np.random.default_rng(11)
    held = criterion(better)
    truth, stated = [], []
    for _ in range(3000):
        loss = rng.uniform(0.02, 0.09)  # of the unit, on the scale of logarithms, whatever its run
        typical = 100 * np.exp(-loss if better == "higher" else loss)
        run = typical * np.exp(rng.normal(0, SPREAD)) * np.exp(rng.normal(0, 0.02, 12))
        found = certainty_of(run, one_sided(run, held.centre, better), held)
        if found.beyond is not None:
            stated.append(found.beyond)
            truth.append(loss > -np.log(0.95))
    beyond, said = np.array(truth), np.array(stated)
    assert len(said) > 2500
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.0)):
        part = (said >= low) & (said <= high)
        # Three standard errors of a few hundred cases, and what one-sidedness of noise adds.
        assert beyond[part].mean() == pytest.approx(said[part].mean(), abs=0.08)
    assert beyond[said >= SURE].mean() > SURE


@pytest.mark.parametrize(
    ("values", "looks", "retest"),
    [
        ([70.0, 70.4, 69.8, 70.1], 1, ""),
        ([70.0], 1, "a single value"),
        ([94.6, 94.8, 94.4, 94.7], 1, "borderline"),
        ([92.0, 92.2, 91.8, 92.1], 1, "seen in one look only"),
        ([92.0, 92.2, 91.8, 92.1], 5, "seen in 5 looks only"),
        ([92.0, 92.2, 91.8, 92.1], 11, ""),
        ([0.0, 0.0], 1, ""),
    ],
)
def test_what_is_not_sure_is_measured_again_first(
    values: list[float], looks: int, retest: str
) -> None:
    verdict = judge_sample(values, criterion(), looks=looks)
    assert verdict.outcome is Outcome.FAIL  # the class changes no outcome
    assert verdict.retest.startswith(retest)
    assert bool(verdict.retest) == bool(retest)
    assert verdict.triage is (Triage.RETEST if retest else Triage.REJECT)
    assert ("(retest: " in verdict.text) == bool(retest)


def test_a_verdict_has_the_size_of_its_loss_on_the_scale_of_its_values() -> None:
    slow = judge_sample([3000.0] * 5, criterion("lower", "ms"))
    assert slow.loss == pytest.approx(29)
    assert "30 times as long" in slow.text
    rate = judge_sample([88.0] * 5, criterion())
    assert rate.loss == pytest.approx(0.12)
    assert "12 % slower" in rate.text
    tail = judge_sample([100.0] * 6 + [200.0] * 2, criterion("lower", "ms"))
    assert "its distribution is 25 % worse, its median equal" in tail.text


def test_an_exact_value_is_sure_and_a_good_sample_needs_no_probability() -> None:
    errors = Metric(name="e", unit="count", better="equal")
    exact = replace(criterion(), metric=errors, centre=(0.0,))
    wrong = judge_sample([3.0], exact)
    assert (wrong.triage, wrong.certainty) == (Triage.REJECT, 1.0)
    good = judge_sample([100.0] * 5, criterion())
    assert (good.triage, good.certainty, good.loss) == (Triage.NONE, None, 0.0)


def test_without_any_spread_a_single_value_has_no_probability() -> None:
    bare = replace(criterion(), medians=())
    assert certainty_of(np.array([80.0]), 0.8, bare).beyond is None
    assert certainty_of(np.array([80.0, 80.0]), 0.8, bare).beyond == 1.0


def test_what_to_do_follows_from_outcome_and_reason() -> None:
    fail = judge_sample([70.0] * 5, criterion())
    once = judge_sample([70.0], criterion())
    unusual = replace(fail, outcome=Outcome.MARGINAL, reason=Reason.UNUSUAL)
    loaded = replace(fail, outcome=Outcome.INCONCLUSIVE, reason=Reason.DISTURBED)
    moved = replace(loaded, reason=Reason.CLASS_SHIFT)
    passed = judge_sample([100.0] * 5, criterion())
    worse = judge_sample([50.0] * 5, criterion())
    assert unusual.triage is moved.triage is Triage.INVESTIGATE
    assert loaded.triage is Triage.RETEST
    assert waived_verdict(once).triage is Triage.NONE
    order = [worse, fail, once, loaded, unusual, moved, passed]
    assert sorted([*order[4:], *order[:4]], key=lambda verdict: verdict.severity) == order


def test_a_verdict_of_an_older_journal_is_read_and_has_its_place() -> None:
    plain = to_plain(judge_sample([70.0], criterion()))
    for name in ("certainty", "retest"):
        del plain[name]
    old = from_plain(MetricVerdict, plain)
    assert old.loss == pytest.approx(0.3)
    assert (old.certainty, old.triage) == (None, Triage.REJECT)


@pytest.mark.parametrize(
    ("name", "triage"), [("wrong_elements", Triage.REJECT), ("hops", Triage.RETEST)]
)
def test_a_count_of_faults_where_none_is_normal_is_sure_and_wrong(
    name: str, triage: Triage
) -> None:
    metric = Metric(name=name, unit="count", better="lower")
    none = replace(criterion(), metric=metric, centre=(0.0,), medians=(0.0,) * 101)
    found = judge_sample([17.0], none)
    assert (found.outcome, found.triage) == (Outcome.FAIL, triage)
    assert triage is Triage.RETEST or found.trouble is Trouble.FAILED


def test_what_two_runs_of_a_unit_found_has_been_measured_again() -> None:
    one = population_of(
        [[94.8] * 3] * 2, metric=criterion().metric, benchmark="b", nodes=["n"] * 2, runs=["a", "b"]
    )
    judged = judge_columns(one, criterion())
    assert {v.triage for v in judged.verdicts()} == {Triage.RETEST}
    assert {v.triage for v in confirm(judged).verdicts()} == {Triage.REJECT}
