"""Intervals of risks from few incidents: wide, and they hold what they promise."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from pytest_anubis.core.history import FleetHistory, Incident, NodeRecord
from pytest_anubis.selector.risk.choosing.refits import Refits, count_factors
from pytest_anubis.selector.risk.forecast import ModelName, RiskModel, fit_risk, look_ahead
from pytest_anubis.selector.selector_error import SelectorError

NOW, HOUR, DAY = 1.8e9, 3600.0, 86400.0
AHEAD = 7 * DAY
UNLIKE = 0.5  # standard deviation of the factors between nodes, of mean 1


def simulated(
    seed: int, expected: float, *, shape: float = 1.0, unlike: float = 0.0
) -> tuple[FleetHistory, dict[str, float]]:
    """Return a history of 30 nodes with about so many incidents, and each node's Weibull scale in hours.

    Incidents are a Weibull process of a node's time since its last one. Nodes that are ``unlike`` differ by
    factors that no model without covariates can know.
    """
    nodes, days = 30, 200
    rng = np.random.default_rng(seed)
    usual = nodes * days * 24 * 0.75 / expected / math.gamma(1 + 1 / shape)
    records, incidents, scales = [], [], {}
    for number in range(nodes):
        name = f"n{number:02}"
        when = NOW - days * DAY * float(rng.uniform(0.5, 1))
        records.append(NodeRecord(name=name, since=when))
        factor = float(rng.gamma(1 / unlike**2, unlike**2)) if unlike else 1.0
        scales[name] = usual / factor ** (1 / shape)
        while (when := when + scales[name] * float(rng.weibull(shape)) * HOUR) < NOW:
            lasts = float(rng.uniform(0.5, 4)) * HOUR
            kind = str(rng.choice(("nic", "gpu")))
            duration = min(lasts, NOW - when)
            incidents.append(Incident(node=name, kind=kind, started=when, duration=duration))
            when += lasts
    incidents.sort(key=lambda incident: incident.started)
    return FleetHistory(nodes=tuple(records), incidents=tuple(incidents)), scales


class IntervalFit(NamedTuple):
    """The share of a fleet's nodes whose true risk is in the interval, and its usual width in hazards."""

    held: float
    width: float


def interval_fit(
    seed: int, model: ModelName, expected: float, *, shape: float = 1.0, unlike: float = 0.0
) -> IntervalFit | None:
    """Fit a model to a simulated fleet; None if it has too few incidents for that."""
    history, scales = simulated(seed, expected, shape=shape, unlike=unlike)
    try:
        risk = fit_risk(history, now=NOW, model=model, horizon=AHEAD, quick=True)
    except SelectorError:
        return None
    found = look_ahead(history, risk, now=NOW, horizon=AHEAD)
    held, widths = [], []
    for node in found.risks:
        assert node.low is not None
        assert node.high is not None
        up, scale = found.uptime[node.node], scales[node.node]
        true = -math.expm1((up / scale) ** shape - ((up + AHEAD / HOUR) / scale) ** shape)
        held.append(node.low <= true <= node.high)
        hazard = -math.log1p(-node.probability) or math.nan  # of a node that a model calls safe
        widths.append(-math.log1p(-min(node.high, 1 - 1e-9)) / hazard)
    return IntervalFit(float(np.mean(held)), float(np.nanmedian(widths)))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40])
def test_the_interval_of_a_count_is_exact(count: int) -> None:
    low, high = (factor * max(count, 0.5) for factor in count_factors(count))

    def at_most(most: int, mean: float) -> float:
        return math.fsum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(most + 1))

    assert at_most(count, high) == pytest.approx(0.025)
    assert (low == 0) if not count else (1 - at_most(count - 1, low) == pytest.approx(0.025))


@pytest.mark.parametrize(
    ("model", "expected", "shape", "fleets", "least"),
    [
        ("auto", 3, 1.0, 60, 0.93),  # one rate
        ("auto", 25, 0.7, 15, 0.85),  # one curve; a fleet's nodes are right or wrong together
        ("cox", 90, 1.0, 30, 0.88),  # two standard errors below what they hold
    ],
)
def test_the_true_risk_lies_within(
    model: ModelName, expected: float, shape: float, fleets: int, least: float
) -> None:
    found = [interval_fit(seed, model, expected, shape=shape) for seed in range(fleets)]
    held = [one.held for one in found if one is not None]
    assert len(held) > fleets / 2
    assert np.mean(held) >= least
    # It is not so wide that it could not fail: of nodes that differ it holds less.
    if shape < 1:
        unlike = [interval_fit(seed, model, 60, unlike=UNLIKE) for seed in range(fleets)]
        assert np.mean([one.held for one in unlike if one is not None]) < 0.85


def test_few_incidents_leave_more_open_than_many() -> None:
    fits = [interval_fit(1, "auto", expected) for expected in (2, 8, 25, 80)]
    widths = [one.width for one in fits if one is not None]
    assert widths == sorted(widths, reverse=True)
    assert len(widths) == 4


def test_untested_intervals_reach_the_common_rate() -> None:
    history, _ = simulated(0, 40)
    risk = fit_risk(history, now=NOW, model="cox")
    assert risk.backtest.chosen is None
    found = look_ahead(history, risk, now=NOW, horizon=AHEAD)
    usual = -math.expm1(-risk.model.events / risk.hours * AHEAD / 3600)  # one rate for all
    for node in found.risks:
        assert node.low is not None
        assert node.high is not None
        assert node.low <= min(node.probability, usual * (1 + 1e-9))
        assert node.high >= max(node.probability, usual * (1 - 1e-9))
    assert "what the model gets wrong is not in it" in risk.within


@pytest.mark.parametrize("model", ["auto", "exponential", "weibull", "cox"])
def test_what_is_left_open_is_kept_with_the_model(model: ModelName) -> None:
    history, _ = simulated(0, 40)
    risk = fit_risk(history, now=NOW, model=model, quick=True)
    again = RiskModel.from_plain(json.loads(json.dumps(risk.to_plain(), allow_nan=False)))
    one = look_ahead(history, risk, now=NOW, horizon=AHEAD)
    assert look_ahead(history, again, now=NOW, horizon=AHEAD) == one
    assert (again.within, again.evidence) == (risk.within, risk.evidence)
    assert risk.refits is not None
    for name in ("refits", "hours", "incidents", "backtest"):
        with pytest.raises(SelectorError):
            RiskModel.from_plain({k: v for k, v in risk.to_plain().items() if k != name})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"incidents": -1}, "damaged"),
        ({"incidents": True}, "damaged"),
        ({"incidents": 1 << 60}, "damaged"),
        ({"models": 3}, "no list"),
        ({"models": [{}]}, "without a part"),
        ({"models": [{}, {}]}, "schema"),
        ({"models": [{}] * 100}, "without a part"),
        ({"rate": "high"}, "no list of numbers"),
    ],
)
def test_a_damaged_record_is_refused(change: dict[str, Any], words: str) -> None:
    history, _ = simulated(0, 40)
    risk = fit_risk(history, now=NOW, quick=True)
    assert risk.refits is not None
    with pytest.raises(SelectorError, match=words):
        Refits.from_plain(risk.refits.to_plain() | change, like=risk.model)
