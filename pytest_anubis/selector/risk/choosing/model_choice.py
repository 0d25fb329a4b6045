"""Choose the risk model that would have served best at earlier moments of a history, and fit it to all of it.

`choice_rule` decides on the scores; `risk_backtest` makes them. `named_model` is for `anubis risk --model`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pytest_anubis.selector.risk.choosing.backtest_record import Backtest, BacktestedModel
from pytest_anubis.selector.risk.choosing.choice_rule import SIMPLE, chosen_models
from pytest_anubis.selector.risk.choosing.risk_backtest import (
    Intervals,
    Origin,
    Score,
    merged_groups,
    origins,
    predicted_hazard,
    risk_groups,
    score,
)
from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.models.cox_time import CoxTime
from pytest_anubis.selector.risk.models.hazard import HazardModel, make_model
from pytest_anubis.selector.risk.models.parametric import Exponential, Weibull
from pytest_anubis.selector.risk.models.stacked import MeanHazard
from pytest_anubis.selector.selector_error import SelectorError

SHAPE_FROM = 10
"""Incidents from which on the hazard may change with time."""
COVARIATES_FROM = 100
"""Incidents from which on covariates are used, about ten for each column, and models are compared."""
NETWORK_FROM = 200
"""Incidents from which on Cox-Time is tried: a third of them are known at the first origin."""
_BACKTEST_INCIDENTS = 1_500  # that a backtest's network learns from: seconds instead of minutes
_BACKTEST_NETWORKS = 3  # the fewest that are stopped by stretches of the history
_FINAL_INCIDENTS = 6_000  # that the kept network learns from, for the same reason
_SHOWN_GROUPS = 5  # groups of risk whose calibration is shown
_ERROR_GROUPS = 3  # groups of risk at each origin for the error of a risk


def choose_model(
    rows: Intervals,
    *,
    horizon: float,
    ongoing: bool = False,
    upto: float | None = None,
    quick: bool = False,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[HazardModel, Backtest]:
    """Choose a model by backtests, and fit it to all rows; networks learn from a sample of many incidents.

    Args:
        rows: The history.
        horizon: How far ahead predictions are judged, positive.
        ongoing: See `risk_backtest.origins`.
        upto: The last moment that backtests see, in the unit of `began`; None: all. If it is that of the last
            event, an unchanged history gives the same choice tomorrow.
        quick: Leave out Cox-Time, so that no torch is needed and the choice takes a second.
        seed: Equal seeds and rows give equal choices on one machine.
        say: Gets progress in words.

    Raises:
        SelectorError: A value of the rows is impossible.
    """
    few = _too_few(rows)
    if few is not None:
        model, reason = few
        return rows.fitted(model), _untested(rows, reason)
    found = _usable_origins(rows, horizon, ongoing=ongoing, upto=upto, seed=seed)
    if len(found) < 2:
        reason = (
            f"weibull: {rows.incidents} incidents do not suffice for two backtests; the models could not "
            "be compared"
        )
        return rows.fitted(Weibull()), _untested(rows, reason)
    hazards = {name: _predictions(name, found, seed, say) for name in SIMPLE}
    untried = _why_no_network(rows, quick)
    if not untried:
        try:
            hazards["cox-time"] = _predictions("cox-time", found, seed, say)
        except ImportError:
            untried = "torch is not installed"
    scores = {name: _scores(each, found) for name, each in hazards.items()}
    judged = [int(origin.event.sum()) for origin in found]
    names, reason = chosen_models(scores, judged, timed=rows.timed)
    name = names[0] if len(names) == 1 else "stacked"
    if len(names) > 1:
        hazards[name] = [
            sum(each, np.zeros(())) / len(names)
            for each in zip(*(hazards[n] for n in names), strict=True)
        ]
        scores[name] = _scores(hazards[name], found)
    say(f"fitting {' and '.join(names)} to {rows.incidents} incidents")
    fitted = [_fitted(each, rows, seed) for each in names]
    model = fitted[0] if len(fitted) == 1 else MeanHazard([(1 / len(fitted), m) for m in fitted])
    candidates = [
        BacktestedModel(model=kind, scores=each, chosen=kind == name)
        for kind, each in scores.items()
    ]
    if untried:
        candidates.append(BacktestedModel(model="cox-time", why=untried))
    return model, _tested(candidates, hazards[name], found, reason, timed=rows.timed)


def named_model(
    name: str,
    rows: Intervals,
    *,
    horizon: float,
    ongoing: bool = False,
    upto: float | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[HazardModel, Backtest]:
    """Fit the named kind of model, and judge it at earlier moments, if there are two with enough incidents.

    The other arguments are those of `choose_model`.

    Raises:
        SelectorError: There is no such model, the rows are too few for it, or a value is impossible.
    """
    say(f"fitting {name} to {rows.incidents} incidents")
    model = rows.fitted(new_model(name, seed))
    found = _usable_origins(rows, horizon, ongoing=ongoing, upto=upto, seed=seed)
    if len(found) < 2:
        reason = (
            f"{name}, as named: {count_words(rows.incidents)} do not suffice for two backtests, so it is "
            "not known how far it is right"
        )
        return model, _untested(rows, reason)
    hazards = _predictions(name, found, seed, say)
    candidates = [BacktestedModel(model=name, scores=_scores(hazards, found), chosen=True)]
    reason = f"{name}, as named: compared with no other ('--model auto' compares)"
    return model, _tested(candidates, hazards, found, reason, timed=rows.timed)


def count_words(count: int, noun: str = "incident") -> str:
    """Return a number with its noun, in the singular or plural."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _usable_origins(
    rows: Intervals, horizon: float, *, ongoing: bool, upto: float | None, seed: int
) -> list[Origin]:
    """Return the origins at which enough was known, and after which enough came."""
    seen = rows if upto is None or not rows.timed else rows.known_at(upto)
    if not seen.incidents:
        return []
    found = origins(seen, horizon, ongoing=ongoing, seed=seed)
    return [origin for origin in found if origin.known.incidents >= CoxTime.needs_events]


def _scores(hazards: Sequence[Floats], found: Sequence[Origin]) -> tuple[Score, ...]:
    return tuple(score(hazard, origin) for hazard, origin in zip(hazards, found, strict=True))


def _untested(rows: Intervals, reason: str) -> Backtest:
    """Return the record of a model without backtests, whose error is that of a count of incidents."""
    return Backtest(
        reason=reason, error=1 / (rows.incidents + 0.5) ** 0.5, degrees=max(1, rows.incidents)
    )


def _tested(
    candidates: Sequence[BacktestedModel],
    hazards: Sequence[Floats],
    found: Sequence[Origin],
    reason: str,
    *,
    timed: bool,
) -> Backtest:
    """Return the record of a model with these predictions at the origins."""
    groups = [
        risk_groups(hazard, origin, _SHOWN_GROUPS)
        for hazard, origin in zip(hazards, found, strict=True)
    ]
    return Backtest(
        candidates=tuple(candidates),
        reason=reason,
        horizon=float(np.median([origin.horizon for origin in found])),
        timed=timed,
        incidents=sum(int(origin.event.sum()) for origin in found),
        groups=tuple(merged_groups(groups)),
        error=_error(hazards, found),
        degrees=len(found),
    )


def _too_few(rows: Intervals) -> tuple[HazardModel, str] | None:
    """Return the model for a history that is too short to compare models, and why."""
    count = rows.incidents
    if count < SHAPE_FROM:
        return Exponential(use_covariates=False), (
            f"exponential, one rate for all nodes: {count_words(count)}; from "
            f"{SHAPE_FROM} on the rate of incidents may change with a node's age"
        )
    if count < COVARIATES_FROM:
        return Weibull(use_covariates=False), (
            f"weibull, one curve for all nodes: {count} incidents; models are compared from "
            f"{COVARIATES_FROM} on; until then only the time since a node's last incident counts, not how "
            "many it had"
        )
    return None


def _why_no_network(rows: Intervals, quick: bool) -> str:
    """Return why Cox-Time is not tried; empty if it is."""
    if quick:
        return "not tried here, it takes too long; 'anubis risk --save' compares it as well"
    if rows.incidents < NETWORK_FROM:
        return f"needs {NETWORK_FROM} incidents, there are {rows.incidents}"
    return ""


def _predictions(
    name: str, found: Sequence[Origin], seed: int, say: Callable[[str], None]
) -> list[Floats]:
    """Return the hazards that a model would have predicted at each origin."""
    hazards = []
    for number, origin in enumerate(found):
        say(f"backtest {number + 1} of {len(found)}: {name}")
        known = origin.known
        if name == "cox-time":
            known = known.thinned(_BACKTEST_INCIDENTS, seed)
            model: HazardModel = CoxTime(seed=seed, networks=_BACKTEST_NETWORKS)
        else:
            model = new_model(name, seed)
        hazards.append(predicted_hazard(known.fitted(model), origin))
    return hazards


def new_model(name: str, seed: int) -> HazardModel:
    """Return an unfitted model of a kind.

    Raises:
        SelectorError: There is no such kind.
    """
    if name not in (*SIMPLE, CoxTime.kind):
        raise SelectorError(f"risk model {name[:20]!r} is none of {', '.join(SIMPLE)}, cox-time")
    return CoxTime(seed=seed) if name == CoxTime.kind else make_model(name)


def _fitted(name: str, rows: Intervals, seed: int) -> HazardModel:
    known = rows.thinned(_FINAL_INCIDENTS, seed) if name == "cox-time" else rows
    model = known.fitted(new_model(name, seed))
    if known is not rows:
        model.notes += (f"learned from {known.incidents} of {rows.incidents} incidents, drawn",)
    return model


def _error(hazards: Sequence[Floats], found: Sequence[Origin]) -> float:
    """Return the root mean square of log(observed / predicted) over groups of risk at each origin."""
    errors = []
    for hazard, origin in zip(hazards, found, strict=True):
        for group in risk_groups(hazard, origin, _ERROR_GROUPS):
            # Half an incident on both sides keeps groups without any finite, and shrinks small ones.
            observed = group.rows * group.observed + 0.5
            predicted = group.rows * group.predicted + 0.5
            errors.append(float(np.log(observed / predicted)))
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else 1.0
