"""Why a risk model was taken and how good it was at earlier moments, as a model's file keeps it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pytest_anubis.selector.risk.choosing.choice_rule import SKILL_GAIN
from pytest_anubis.selector.risk.choosing.risk_backtest import RiskGroup, Score
from pytest_anubis.selector.selector_error import SelectorError

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
        candidates: The models; empty where there was too little to test any.
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
    def from_plain(cls, plain: Any) -> Backtest:
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
