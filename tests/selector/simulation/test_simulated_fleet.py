"""The simulated fleet: accounts that add up, policies in their order, rates learned from what was seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.selector.selector_error import SelectorError
from pytest_anubis.selector.simulation.hidden_defects import (
    DefectRates,
    after_incident,
    after_tests,
    after_use,
    at_first,
    learn_rates,
    log_likelihood,
)
from pytest_anubis.selector.simulation.policies import Full, Ideal, Nothing, Policy, Selector
from pytest_anubis.selector.simulation.scenarios import BUILD_OUT, scenario
from pytest_anubis.selector.simulation.simulated_fleet import Outcome, record_usage, simulate

B = scenario("B")


def play(policy: Policy, seed: int = 0, horizon: float = 500.0) -> Outcome:
    return simulate(B, policy, nodes=128, horizon=horizon, seed=seed)


def mtbi(policy: Policy, seeds: int = 4) -> float:
    outcomes = [play(policy, seed) for seed in range(seeds)]
    return sum(o.used for o in outcomes) / max(1, sum(o.incidents for o in outcomes))


def test_equal_rates_are_the_limit_of_nearly_equal_ones() -> None:
    none, hours = np.zeros((1, 1)), np.array([50.0])
    equal, near = (
        after_use(
            none, hours, DefectRates(wear=0.01, manifest=m, stays=0, initial=0, shares=np.ones(1))
        )
        for m in (0.01, 0.01 + 1e-6)
    )
    assert equal[0] == pytest.approx(near[0], rel=1e-3)
    assert equal[1] == pytest.approx(near[1], rel=1e-3)


def test_the_table_of_the_build_out_takes_107_minutes() -> None:
    assert len(BUILD_OUT) == 12
    assert sum(minutes for _, minutes in BUILD_OUT.values()) == pytest.approx(106.9, abs=0.1)


@pytest.mark.parametrize(
    "policy",
    [Nothing(), Full(), Full(0.2), Ideal(), Selector(0.03, B.rates)],
)
def test_no_node_hour_is_spent_twice(policy: Policy) -> None:
    outcome = play(policy)
    assert 0 < outcome.used + outcome.validated <= outcome.nodes * outcome.horizon
    assert 0.5 < outcome.utilisation < 1
    assert outcome == play(policy)


def test_without_defects_nothing_happens() -> None:
    whole = replace(B, rates=replace(B.rates, wear=0.0, initial=0.0))
    outcome = simulate(whole, Full(), nodes=64, horizon=300, seed=1)
    assert (outcome.incidents, outcome.findings) == (0, 0)
    assert outcome.validated > 0


def test_policies_rank_as_expected() -> None:
    nothing, selected, full = mtbi(Nothing()), mtbi(Selector(0.03, B.rates)), mtbi(Full())
    assert nothing * 4 < selected
    assert nothing * 4 < full
    hours = play(Selector(0.03, B.rates)).validated / play(Full()).validated
    assert hours < 0.2
    assert play(Ideal()).validated == 0
    assert play(Ideal()).findings > 0


def test_a_stricter_selector_validates_more() -> None:
    hours = [play(Selector(p0, B.rates)).validated for p0 in (0.5, 0.1, 0.01, 0.001)]
    assert hours == sorted(hours)


def test_rates_are_learned_from_what_was_seen() -> None:
    truth = scenario("B", kind_known=True)
    log = record_usage(truth, Full(0.25), nodes=300, horizon=1500, seed=5)
    found = learn_rates(log)
    assert 1 / found.wear == pytest.approx(5000, rel=0.3)
    assert 1 / found.manifest == pytest.approx(12, rel=0.3)
    assert found.stays == pytest.approx(0.9, abs=0.08)
    assert found.initial == pytest.approx(0.1036, abs=0.05)
    assert found.shares == pytest.approx(truth.rates.shares, abs=0.08)
    assert log_likelihood(log, found) > log_likelihood(log, replace(found, manifest=1 / 48))


def test_useless_repairs_are_recognised() -> None:
    truth = scenario("C", kind_known=True)
    log = record_usage(truth, Full(0.25), nodes=300, horizon=1500, seed=6)
    assert learn_rates(log).stays > 0.85


RATES = DefectRates(
    wear=1 / 1000, manifest=1 / 10, stays=0.8, initial=0.3, shares=np.array([0.6, 0.4])
)


def test_the_posterior_follows_what_happens() -> None:
    posterior = at_first(RATES, 1)
    assert posterior[0] == pytest.approx([0.18, 0.12])
    later, quiet = after_use(posterior, np.array([50.0]), RATES)
    assert (later < posterior).all()
    # No incident, summed over where wear falls and how long it then stays hidden.
    steps = (np.arange(200_000) + 0.5) * 50 / 200_000
    shown = (np.exp(-steps / 1000) / 1000 * -np.expm1(-(50 - steps) / 10)).mean() * 50
    assert quiet[0] == pytest.approx(0.3 * np.exp(-5) + 0.7 * (1 - shown), rel=1e-4)
    hit = after_incident(posterior, RATES, np.array([1]))
    assert hit[0] == pytest.approx([0, 0.8])
    unknown = after_incident(posterior, RATES, np.array([-1]))
    assert unknown[0] == pytest.approx([0.48, 0.32])


def test_a_cause_that_a_test_did_not_see_is_elsewhere() -> None:
    hit = after_incident(at_first(RATES, 1), RATES, np.array([-1]))
    passed = after_tests(hit, np.array([[True, False]]))
    assert passed[0] == pytest.approx([0, 0.32 / 0.52])
    assert after_tests(hit, np.array([[True, True]]))[0] == pytest.approx([0, 0])


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 0.3), min_size=2, max_size=24),
    st.floats(0.001, 0.5),
    st.floats(0.5, 100),
)
def test_the_selector_leaves_the_accepted_risk(known: list[float], p0: float, hours: float) -> None:
    policy = Selector(p0, RATES)
    nodes = len(known) // 2
    policy.start(nodes, 2, np.array([0.1, 2.0]), np.random.default_rng(0))
    policy.posterior = np.array(known[: 2 * nodes]).reshape(nodes, 2)
    before = policy.posterior.copy()
    mask = policy.tests(np.arange(nodes), hours, 1.0)

    def risk(posterior: npt.NDArray[np.float64]) -> float:
        return float(1 - np.prod(1 - posterior.sum(axis=1) * -np.expm1(-hours / 10)))

    if mask is None:
        assert risk(before) <= p0 + 1e-9
        return
    assert risk(before) > p0 - 1e-9
    assert risk(after_tests(before, mask)) <= p0 + 1e-9


def test_the_rate_of_a_test_says_whether_it_pays() -> None:
    hours = np.array([0.1, 2.0])

    def chosen(incident_hours: float) -> list[list[bool]]:
        policy = Selector(0.0, RATES)
        policy.start(2, 2, hours, np.random.default_rng(0))
        policy.posterior = np.array([[0.001, 0.001], [0.2, 0.3]])
        steps = policy.steps(np.arange(2), 1e6)  # whatever is there shows within so long a job
        mask: list[list[bool]] = steps.mask(np.asarray(steps.rate * incident_hours > 1)).tolist()
        return mask

    assert chosen(0.1) == [[False, False], [False, False]]
    assert chosen(1.0) == [[False, False], [True, False]]
    # 2 h of the second test against -log(1 - 0.3 / 0.8) of an incident
    assert chosen(4.0) == [[False, False], [True, False]]
    assert chosen(5.0) == [[False, False], [True, True]]
    assert chosen(150.0) == [[True, False], [True, True]]


def test_likelihood_prefers_the_true_rates() -> None:
    """DefectRates that made what was seen explain it better than rates with the same number of incidents."""
    truth = scenario("C")
    log = record_usage(truth, Full(0.25), nodes=200, horizon=1500, seed=3)
    good = log_likelihood(log, truth.rates)
    more_wear = replace(truth.rates, stays=0.5, wear=truth.rates.wear * 10)
    assert good > log_likelihood(log, more_wear) + 10


def test_invalid_simulations_are_refused() -> None:
    with pytest.raises(SelectorError, match="at least 64 nodes"):
        simulate(B, Nothing(), nodes=8, horizon=100, seed=0)
    with pytest.raises(SelectorError, match="none of A, B, C"):
        scenario("D")
    with pytest.raises(SelectorError, match="make no sense"):
        DefectRates(wear=-1, manifest=1, stays=0.5, initial=0.1, shares=np.ones(1))
    empty = record_usage(B, Nothing(), nodes=64, horizon=1, seed=0)
    with pytest.raises(SelectorError, match="log is empty"):
        learn_rates(replace(empty, hours=np.zeros_like(empty.hours)))
