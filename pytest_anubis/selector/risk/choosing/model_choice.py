"""Which model does a history deserve? The one that earlier moments of it would have been served best by.

Here the models are tried at earlier moments and the chosen one is fitted to all that is known; by which
rule it is chosen stands in `choice_rule`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pytest_anubis.selector.risk.choosing.choice_rule import SIMPLE, SKILL_GAIN, chosen_models
from pytest_anubis.selector.risk.choosing.risk_backtest import (
    Intervals,
    Origin,
    RiskGroup,
    Score,
    ahead,
    merged_groups,
    origins,
    risk_groups,
    score,
)
from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.models.cox import CoxPH
from pytest_anubis.selector.risk.models.cox_time import CoxTime
from pytest_anubis.selector.risk.models.hazard import ExtrapolationWarning, HazardModel
from pytest_anubis.selector.risk.models.parametric import Exponential, Weibull
from pytest_anubis.selector.risk.models.stacked import Stacked
from pytest_anubis.selector.selector_error import SelectorError

SHAPE_FROM = 10
"""Incidents from which on the hazard may change with time."""
COVARIATES_FROM = 100
"""Incidents from which on covariates are trusted, about ten for each column, and models are compared."""
NETWORK_FROM = 200
"""Incidents from which on Cox-Time is tried: a third of them are known at the first origin."""
_BACKTEST_INCIDENTS = 1_500  # that a backtest's network learns from: seconds instead of minutes
_BACKTEST_NETWORKS = 3  # the fewest that are stopped by stretches of the history
_FINAL_INCIDENTS = 6_000  # that the kept network learns from, for the same reason
_GROUPS = 5  # groups of risk whose calibration is shown
_CELLS = 3  # groups of risk at each origin that the error of a risk is taken from
_FARTHEST = 20.0  # of a log hazard: beyond it every probability is possible


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A model in the backtest.

    Attributes:
        model: Its kind.
        scores: At each origin; empty where it could not be tried.
        chosen: Whether it was taken.
        why: Why it was not tried; empty where it was.
    """

    model: str
    scores: tuple[Score, ...] = ()
    chosen: bool = False
    why: str = ""

    def mean(self, field: str) -> float:
        """Return the mean of a score over origins."""
        return float(np.mean([getattr(each, field) for each in self.scores]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """Why a model was chosen, and how good it was.

    Attributes:
        candidates: The models; empty where there was too little to compare them.
        reason: Why this one, in words.
        horizon: How far ahead it was judged, in the unit of the durations.
        timed: Whether in time; otherwise rows of unknown time were held back in turn.
        incidents: How many were judged, over all origins.
        groups: Predicted and observed, by predicted risk.
        error: Root mean square of the logarithm of observed / predicted incidents, over groups of risk at
            each origin: what a predicted hazard is off by.
        degrees: How many origins the error is known from.
    """

    reason: str
    error: float
    degrees: int
    candidates: tuple[Candidate, ...] = ()
    horizon: float = 0.0
    timed: bool = True
    incidents: int = 0
    groups: tuple[RiskGroup, ...] = ()

    def interval(self, probability: float) -> tuple[float, float]:
        """Return where an incident probability lies in 95 % of cases, after the backtests' error."""
        factor = float(np.exp(min(self.reach, _FARTHEST)))
        hazard = -np.log1p(-min(probability, 1 - 1e-9))
        return float(-np.expm1(-hazard / factor)), float(-np.expm1(-hazard * factor))

    @property
    def chosen(self) -> Candidate | None:
        """The model that was taken, as backtests saw it; None where none was compared."""
        return next((each for each in self.candidates if each.chosen and each.scores), None)

    @property
    def warning(self) -> str:
        """What speaks against choosing by this model, in words; empty where nothing does.

        A skill below 0 by more than `SKILL_GAIN` and by more than its standard error over the moments: one
        figure for all nodes would have predicted better. Where nodes are alike every model lies just below.
        """
        chosen = self.chosen
        if chosen is None:
            return ""
        skills = np.array([each.skill for each in chosen.scores])
        error = float(skills.std(ddof=1)) / len(skills) ** 0.5 if len(skills) > 1 else 0.0
        if not skills.mean() < -max(SKILL_GAIN, error):
            return ""
        return (
            f"{chosen.model} predicted worse than one rate for all nodes in its own backtest (skill "
            f"{chosen.mean('skill'):.3f}): do not choose by it which nodes or benchmarks to leave out"
        )

    @property
    def reach(self) -> float:
        """How far the logarithm of a hazard may be off in 95 % of cases (Student's t)."""
        from scipy.special import stdtrit

        return float(stdtrit(max(1, self.degrees), 0.975)) * self.error

    def to_plain(self) -> dict[str, Any]:
        """Return numbers, strings, lists and dicts, fit for JSON."""
        plain: dict[str, Any] = asdict(self)
        for each in plain["candidates"]:
            each["scores"] = list(each["scores"])
        return plain | {
            "candidates": list(plain["candidates"]),
            "groups": list(plain["groups"]),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Backtest:
        """Read back what `to_plain` gave.

        Raises:
            SelectorError: It does not hold what it should.
        """
        try:
            facts = dict(plain)
            facts["candidates"] = tuple(
                Candidate(**{**each, "scores": tuple(Score(**one) for one in each["scores"])})
                for each in facts["candidates"]
            )
            facts["groups"] = tuple(RiskGroup(**each) for each in facts["groups"])
            found = cls(**facts)
            numbers = [found.error, found.horizon, found.degrees, found.incidents]
            numbers += [
                n for c in found.candidates for each in c.scores for n in asdict(each).values()
            ]
            words = [
                found.reason,
                *(w for each in found.candidates for w in (each.model, each.why)),
            ]
            sound = (
                np.isfinite(np.array(numbers, dtype=np.float64)).all()
                and found.error >= 0
                and found.degrees >= 1
                and all(isinstance(word, str) for word in words)
                and all(isinstance(n, int) and n >= 1 for n in (each.rows for each in found.groups))
                and all(0 <= p <= 1 for g in found.groups for p in (g.predicted, g.observed))
            )
            if not sound:
                raise ValueError
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            raise SelectorError("model file: the record of the choice is damaged") from None
        return found


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
    """Choose a model by backtests, and fit it to all rows.

    Its cost is bounded: networks learn from a sample where there are many incidents.

    Args:
        rows: The history.
        horizon: How far ahead predictions are judged, positive.
        ongoing: See `risk_backtest.origins`.
        upto: The last moment that backtests see, in the unit of `began`; None: all. With the last thing that
            happened for it, an unchanged history gives the same choice tomorrow.
        quick: Leave Cox-Time out: no torch, and done in a second.
        seed: Seed of everything random; equal seeds and rows give equal choices on one machine.
        say: Gets words about the progress.

    Raises:
        SelectorError: The rows make no sense.
    """
    few = _too_few(rows)
    if few is not None:
        model, reason = few
        return _fit(model, rows), Backtest(
            reason=reason, error=1 / (rows.incidents + 0.5) ** 0.5, degrees=max(1, rows.incidents)
        )
    seen = rows if upto is None or not rows.timed else rows.known_at(upto)
    found = origins(seen, horizon, ongoing=ongoing, seed=seed)
    found = [origin for origin in found if origin.known.incidents >= CoxTime.needs_events]
    if len(found) < 2:
        reason = (
            f"weibull: {rows.incidents} incidents do not suffice for two backtests; the models could not "
            "be compared"
        )
        error = 1 / (rows.incidents + 0.5) ** 0.5
        return _fit(Weibull(), rows), Backtest(reason=reason, error=error, degrees=len(found) + 1)
    hazards = {name: _foresee(name, found, seed, say) for name in SIMPLE}
    missing = _no_network(rows, quick)
    if not missing:
        try:
            hazards["cox-time"] = _foresee("cox-time", found, seed, say)
        except ImportError:
            missing = "torch is not installed"
    scores = {
        name: tuple(score(h, o) for h, o in zip(each, found, strict=True))
        for name, each in hazards.items()
    }
    judged = [int(origin.event.sum()) for origin in found]
    names, reason = chosen_models(scores, judged, timed=rows.timed)
    name = names[0] if len(names) == 1 else "stacked"
    if len(names) > 1:
        together = [
            sum(each, np.zeros(())) / len(names)
            for each in zip(*(hazards[n] for n in names), strict=True)
        ]
        hazards[name] = together
        scores[name] = tuple(score(h, o) for h, o in zip(together, found, strict=True))
    say(f"fitting {' and '.join(names)} to {rows.incidents} incidents")
    fitted = [_fitted(each, rows, seed) for each in names]
    model = fitted[0] if len(fitted) == 1 else Stacked([(1 / len(fitted), m) for m in fitted])
    candidates = [
        Candidate(model=kind, scores=each, chosen=kind == name) for kind, each in scores.items()
    ]
    pairs = list(zip(hazards[name], found, strict=True))
    groups = [risk_groups(hazard, origin, _GROUPS) for hazard, origin in pairs]
    if missing:
        candidates.append(Candidate(model="cox-time", why=missing))
    return model, Backtest(
        candidates=tuple(candidates),
        reason=reason,
        horizon=float(np.median([origin.horizon for origin in found])),
        timed=rows.timed,
        incidents=sum(judged),
        groups=tuple(merged_groups(groups)),
        error=_error(hazards[name], found),
        degrees=len(found),
    )


def _too_few(rows: Intervals) -> tuple[HazardModel, str] | None:
    """Return the model of a history that is too small to compare models on, and why."""
    count = rows.incidents
    if count < SHAPE_FROM:
        return Exponential(use_covariates=False), (
            f"exponential, one rate for all nodes: {count} incident{'s' if count != 1 else ''}; from "
            f"{SHAPE_FROM} on the rate of incidents may change with a node's age"
        )
    if count < COVARIATES_FROM:
        return Weibull(use_covariates=False), (
            f"weibull, one curve for all nodes: {count} incidents; models are compared from "
            f"{COVARIATES_FROM} on; until then the time since the last incident alone tells nodes apart, not "
            "how many incidents they had"
        )
    return None


def _no_network(rows: Intervals, quick: bool) -> str:
    """Say why Cox-Time is not tried; nothing where it is."""
    if quick:
        return "not tried here, it takes too long; 'anubis risk --save' compares it as well"
    if rows.incidents < NETWORK_FROM:
        return f"needs {NETWORK_FROM} incidents, there are {rows.incidents}"
    return ""


def _foresee(
    name: str, found: Sequence[Origin], seed: int, say: Callable[[str], None]
) -> list[Floats]:
    """Return what a model would have said at each origin."""
    said = []
    for number, origin in enumerate(found):
        say(f"backtest {number + 1} of {len(found)}: {name}")
        known = origin.known
        if name == "cox-time":
            known = known.thinned(_BACKTEST_INCIDENTS, seed)
            model: HazardModel = CoxTime(seed=seed, networks=_BACKTEST_NETWORKS)
        else:
            model = _new(name, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtrapolationWarning)  # the far future is what is asked
            said.append(ahead(_fit(model, known), origin))
    return said


def _new(name: str, seed: int) -> HazardModel:
    if name == "exponential":
        return Exponential()
    if name == "weibull":
        return Weibull()
    return CoxPH() if name == "cox" else CoxTime(seed=seed)


def _fit(model: HazardModel, rows: Intervals) -> HazardModel:
    return model.fit(
        rows.x,
        rows.duration,
        rows.event,
        names=rows.names,
        order=rows.began if rows.timed else None,
    )


def _fitted(name: str, rows: Intervals, seed: int) -> HazardModel:
    known = rows.thinned(_FINAL_INCIDENTS, seed) if name == "cox-time" else rows
    model = _fit(_new(name, seed), known)
    if known is not rows:
        model.notes += (f"learned from {known.incidents} of {rows.incidents} incidents, drawn",)
    return model


def _error(hazards: Sequence[Floats], found: Sequence[Origin]) -> float:
    """Return the root mean square of log(observed / predicted) over groups of risk at each origin."""
    misses = []
    for hazard, origin in zip(hazards, found, strict=True):
        for group in risk_groups(hazard, origin, _CELLS):
            # Half an incident on both sides keeps groups without any finite, and shrinks small ones.
            seen, said = group.rows * group.observed + 0.5, group.rows * group.predicted + 0.5
            misses.append(float(np.log(seen / said)))
    return float(np.sqrt(np.mean(np.square(misses)))) if misses else 1.0
