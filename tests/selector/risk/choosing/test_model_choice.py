"""The choice of a risk model: judged by what came after, trusted only beyond the error."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pytest_anubis.selector.risk.choosing.backtest_record import Backtest
from pytest_anubis.selector.risk.choosing.choice_rule import SIMPLE, chosen_models
from pytest_anubis.selector.risk.choosing.model_choice import choose_model, new_model
from pytest_anubis.selector.risk.choosing.risk_backtest import Intervals, Score, origins
from pytest_anubis.selector.risk.models.cox_time import CoxTime
from pytest_anubis.selector.risk.models.hazard import load_model
from pytest_anubis.selector.risk.models.stacked import MeanHazard
from pytest_anubis.selector.selector_error import SelectorError


def fleet(count: int = 1200, *, shape: float = 0.5, slope: float = 1.0, seed: int = 0) -> Intervals:
    """Intervals that begin over 1,000 days, Weibull of scale 50, with one covariate that matters."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 2))
    began = np.sort(rng.uniform(0, 1000, count))
    life = 50 * (rng.exponential(size=count) / np.exp(slope * x[:, 0])) ** (1 / shape)
    left = 1000 - began
    return Intervals(x, np.minimum(life, left), life <= left, began)


def scores(*pairs: tuple[float, float]) -> tuple[Score, ...]:
    """Scores at as many origins, of concordance and skill."""
    return tuple(
        Score(concordance=c, brier=1 - s, levelled=1 - s, usual=1.0, calibration=1.0)
        for c, s in pairs
    )


PLAIN = scores((0.60, 0.10), (0.62, 0.12), (0.61, 0.09), (0.63, 0.11))
LITTLE = tuple((each.concordance + 0.003, each.skill) for each in PLAIN)


def chosen(
    simple: dict[str, tuple[Score, ...]],
    cox_time: tuple[Score, ...],
    timed: bool = True,
    judged: int = 400,
) -> tuple[tuple[str, ...], str]:
    every = dict.fromkeys(SIMPLE, PLAIN) | simple | {"cox-time": cox_time}
    return chosen_models(every, [judged] * len(cox_time), timed=timed)


@pytest.mark.parametrize(
    ("network", "timed", "model", "words"),
    [
        (((0.63, 0.10), (0.64, 0.13), (0.63, 0.10), (0.66, 0.12)), True, "cox-time", "better"),
        (  # now better, now worse
            ((0.67, 0.10), (0.60, 0.13), (0.58, 0.10), (0.67, 0.12)),
            True,
            "exponential",
            "not enough to trust a network",
        ),
        (  # ranks better, but exaggerates
            ((0.63, 0.04), (0.64, 0.05), (0.63, 0.03), (0.66, 0.04)),
            True,
            "exponential",
            "skill at equal level is 0.065 worse",
        ),
        (LITTLE, True, "exponential", "not enough"),
        (LITTLE, False, "cox-time", "better"),  # without time there is no shift to fear
    ],
)
def test_a_network_must_gain_beyond_the_error(
    network: tuple[tuple[float, float], ...], timed: bool, model: str, words: str
) -> None:
    names, why = chosen({}, scores(*network), timed=timed)
    assert names == (model,)
    assert words in why


@pytest.mark.parametrize(
    ("better", "models", "words"),
    [
        (
            {"weibull": ((0.6, 0.15), (0.6, 0.16), (0.6, 0.14), (0.6, 0.15))},
            ("weibull",),
            "its skill beats",
        ),
        (
            {"weibull": ((0.6, 0.105), (0.6, 0.125), (0.6, 0.095), (0.6, 0.115))},
            ("exponential",),
            "no richer one",
        ),
        ({"cox": ((0.6, 0.4), (0.62, -0.2), (0.61, 0.3), (0.63, 0.1))}, SIMPLE, "cannot be told"),
    ],
)
def test_a_richer_model_must_gain_or_is_averaged(
    better: dict[str, tuple[tuple[float, float], ...]], models: tuple[str, ...], words: str
) -> None:
    names, why = chosen({name: scores(*each) for name, each in better.items()}, PLAIN)
    assert names == models
    assert words in why


def test_moments_without_a_better_rank_are_left_out() -> None:
    before = ((0.32, -4.0), (0.28, -4.0), (0.31, -3.0))  # a fleet whose early years tell nothing
    simple = {name: scores(*before, (0.62, 0.01)) for name in SIMPLE}
    network = scores((0.31, -4.1), (0.2, -5.0), (0.3, -3.1), (0.69, 0.05))
    names, why = chosen(simple, network)
    assert names == ("cox-time",)
    assert "at 3 of 4 no model ranked better than chance: left out" in why
    assert "cox-time" not in chosen(simple, network, judged=30)[0]  # few incidents came after it
    never = {name: scores(*before, (0.4, -1.0)) for name in SIMPLE}
    assert "left out" not in chosen(never, scores(*before, (0.45, -1.0)))[1]


def test_the_shape_of_the_hazard_is_found_again() -> None:
    rows = fleet()
    model, why = choose_model(rows, horizon=30.0, quick=True)
    assert model.kind == "weibull"
    assert "weibull: its skill beats exponential's by" in why.reason
    assert [each.model for each in why.candidates] == ["exponential", "weibull", "cox", "cox-time"]
    assert why.candidates[-1].why.startswith("not tried here")
    assert why.degrees == len(why.candidates[0].scores) == 4
    # Its calibration holds: observed within twice the binomial error of predicted, in every group.
    for group in why.groups:
        error = (group.predicted * (1 - group.predicted) / group.rows) ** 0.5
        assert abs(group.observed - group.predicted) < 3 * error + 0.03
    assert choose_model(rows, horizon=30.0, quick=True)[1] == why
    assert Backtest.from_plain(json.loads(json.dumps(why.to_plain()))) == why


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: Any, **__: Any) -> None:
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr(CoxTime, "fit", absent)
    model, why = choose_model(fleet(), horizon=30.0)
    assert model.kind == "weibull"
    assert why.candidates[-1].why == "torch is not installed"


@pytest.mark.parametrize(
    ("count", "kind", "words"),
    [(6, "exponential", "one rate for all nodes"), (60, "weibull", "one curve for all nodes")],
)
def test_few_incidents_fall_back_and_say_so(count: int, kind: str, words: str) -> None:
    rows = fleet(count)
    model, why = choose_model(rows, horizon=30.0)
    assert model.kind == kind
    assert words in why.reason
    assert f"{rows.incidents} incidents" in why.reason
    low, high = why.interval(0.1)
    assert low < 0.1 < high
    assert not why.candidates


def test_no_origin_knows_what_came_after_it() -> None:
    rows = fleet()
    for ongoing in (False, True):
        found = origins(rows, 30.0, ongoing=ongoing, seed=0)
        assert len(found) == 4
        for origin in found:
            known = origin.known
            moment = known.began.max()
            assert (known.began + known.duration).max() < 1000
            assert known.incidents < ((rows.began + rows.duration)[rows.event] < 1000).sum()
            assert (origin.follow <= 30.0).all()
            assert (origin.entry > 0).any() == ongoing
            assert moment < rows.began.max()
    assert len(origins(Intervals(rows.x, rows.duration, rows.event, rows.began, timed=False), 30.0,
                       ongoing=False, seed=0)) == 5  # fmt: skip


def test_a_larger_backtest_error_widens_intervals() -> None:
    known, unsure = (Backtest(reason="", error=error, degrees=4) for error in (0.1, 0.5))
    narrow, wide = known.interval(0.2), unsure.interval(0.2)
    assert 0 < wide[0] < narrow[0] < 0.2 < narrow[1] < wide[1] < 1


@pytest.mark.parametrize("field", ["candidates", "groups", "error", "degrees", "reason"])
def test_a_damaged_record_of_the_choice_is_refused(field: str) -> None:
    plain = Backtest(reason="r", error=0.1, degrees=4).to_plain()
    for wrong in ("?", None, [1], {"a": 1}):
        if field == "reason" and wrong == "?":
            continue
        with pytest.raises(SelectorError, match="damaged"):
            Backtest.from_plain(plain | {field: wrong})


def test_a_stack_adds_hazards_and_survives_plain_data() -> None:
    rows = fleet(300)
    one, two = (rows.fitted(new_model(kind, 0)) for kind in ("exponential", "cox"))
    stack = MeanHazard([(0.25, one), (0.75, two)])
    at = np.array([[5.0, 20.0]])
    expected = 0.25 * one.cumulative(at, rows.x) + 0.75 * two.cumulative(at, rows.x)
    assert stack.cumulative(at, rows.x) == pytest.approx(expected)
    plain = json.loads(json.dumps(stack.to_plain(), allow_nan=False))
    again = load_model(plain)
    assert again.kind == "stacked"
    assert again.survival([20.0], rows.x) == pytest.approx(stack.survival([20.0], rows.x))
    for parts in (
        [],
        [{"weight": -1.0, "model": one.to_plain()}],
        [{"weight": 1.0, "model": plain}],
    ):
        with pytest.raises(SelectorError, match="model file"):
            load_model(plain | {"parameters": {"parts": parts}})
