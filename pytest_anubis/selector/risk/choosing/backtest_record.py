"""The record of a model's choice and backtests, as a model file keeps it, and a risk's interval by it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pytest_anubis.selector.risk.choosing.choice_rule import SKILL_GAIN
from pytest_anubis.selector.risk.choosing.risk_backtest import RiskGroup, Score
from pytest_anubis.selector.selector_error import SelectorError

MAX_LOG_HAZARD_ERROR = 20.0
"""Beyond it every probability is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestedModel:
    """A model in the backtests."""

    model: str
    scores: tuple[Score, ...] = ()  # its score at each origin; empty if it was not tried
    chosen: bool = False
    why: str = ""  # why it was not tried; empty if it was

    def mean(self, field: str) -> float:
        """Return the mean of a score over origins."""
        return float(np.mean([getattr(each, field) for each in self.scores]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """Why a model was chosen, and how good it was."""

    reason: str  # why this one was chosen, in words
    # Error of a predicted log hazard: root mean square of log(observed / predicted incidents) over
    # groups of risk at each origin
    error: float
    degrees: int  # degrees of freedom of the error: the number of origins
    # The models; empty if the history was too short to test any
    candidates: tuple[BacktestedModel, ...] = ()
    horizon: float = 0.0  # how far ahead it was judged, in the unit of the durations
    # Whether origins are moments; otherwise they are folds of rows without a time
    timed: bool = True
    incidents: int = 0  # incidents judged, over all origins
    groups: tuple[RiskGroup, ...] = ()  # predicted and observed risk, by predicted risk

    def interval(self, probability: float) -> tuple[float, float]:
        """Return the 95 % interval of a predicted probability, by Student's t of the log hazard's error."""
        from scipy.special import stdtrit

        reach = float(stdtrit(max(1, self.degrees), 0.975)) * self.error
        factor = float(np.exp(min(reach, MAX_LOG_HAZARD_ERROR)))
        hazard = -np.log1p(-min(probability, 1 - 1e-9))
        return float(-np.expm1(-hazard / factor)), float(-np.expm1(-hazard * factor))

    @property
    def chosen(self) -> BacktestedModel | None:
        """The chosen model's backtests; None if none was made."""
        return next((each for each in self.candidates if each.chosen and each.scores), None)

    @property
    def warning(self) -> str:
        """Why not to choose benchmarks by this model, in words; empty if nothing speaks against it.

        It is given for a skill below 0 by more than `SKILL_GAIN` and its standard error over the origins: one
        rate for all nodes would have predicted better. Where nodes are alike, every model is just below 0.
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

    def to_plain(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Any) -> Backtest:
        """Read what `to_plain` gave.

        Raises:
            SelectorError: A field is missing or wrong.
        """
        try:
            fields = dict(plain)
            fields["candidates"] = tuple(
                BacktestedModel(**{**each, "scores": tuple(Score(**one) for one in each["scores"])})
                for each in fields["candidates"]
            )
            fields["groups"] = tuple(RiskGroup(**each) for each in fields["groups"])
            found = cls(**fields)
            scores = [score for model in found.candidates for score in model.scores]
            numbers = [found.error, found.horizon, found.degrees, found.incidents]
            numbers += [number for score in scores for number in asdict(score).values()]
            words = [word for model in found.candidates for word in (model.model, model.why)]
            sound = (
                np.isfinite(np.array(numbers, dtype=np.float64)).all()
                and found.error >= 0
                and found.degrees >= 1
                and all(isinstance(word, str) for word in (found.reason, *words))
                and all(isinstance(g.rows, int) and g.rows >= 1 for g in found.groups)
                and all(0 <= p <= 1 for g in found.groups for p in (g.predicted, g.observed))
            )
            if not sound:
                raise ValueError
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            raise SelectorError("model file: the record of the choice is damaged") from None
        return found
