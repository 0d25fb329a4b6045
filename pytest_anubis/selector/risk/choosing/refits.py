"""Intervals of a risk without backtests, from the number of incidents and refits without parts of the nodes.

They take the larger of two errors: that of the number of incidents (the exact interval of a count), and how
far the prediction moves when the model is fitted without one part of the nodes after the other (the jackknife
by groups; Efron and Stein, *The jackknife estimate of variance*, 1981). Both assume that the model is right;
only backtests show what it gets wrong. From few incidents a model with covariates may give a risk of nearly 0
to nodes that happened to have none, so its intervals reach to the one rate for all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pytest_anubis.selector.risk.choosing.backtest_record import MAX_LOG_HAZARD_ERROR
from pytest_anubis.selector.risk.choosing.risk_backtest import Intervals
from pytest_anubis.selector.risk.models.covariates import Floats, items, numbers
from pytest_anubis.selector.risk.models.cox_time import CoxTime
from pytest_anubis.selector.risk.models.hazard import NO_INCIDENT, HazardModel, load_model
from pytest_anubis.selector.risk.models.parametric import Exponential
from pytest_anubis.selector.selector_error import SelectorError

PARTS = 20
"""Parts left out in turn: from twenty on Student's t is within 7 % of the normal distribution's."""
NETWORK_PARTS = 10
"""The same for networks, which take about a second each."""
_NETWORKS = 3  # averaged in each fit, as in a backtest
_MAX_PARTS = 64  # in a file; we write fewer
_MAX_INCIDENTS = 2**53  # smaller whole numbers are exact as floats
_ENDS = (0.025, 0.975)
_MIN_HAZARD = 1e-12  # used for 0, which has no logarithm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refits:
    """A model fitted to a history without one part of it after the other."""

    incidents: int  # incidents that the model itself learned from
    # The fits; empty for one rate for all nodes, whose error is that of a count
    models: tuple[HazardModel, ...] = ()
    # Incidents of all nodes per unit of time, which every interval includes; None for a model
    # without covariates
    rate: float | None = None

    def interval(
        self, chance: Floats, x: Floats, uptime: Floats, ahead: float
    ) -> tuple[Floats, Floats]:
        """Return the ends of the 95 % intervals of probabilities, each of shape (n,).

        `chance` are the probabilities for a time `ahead`, shape (n,); `x`, shape (n, d), the covariates at
        the start of the intervals of service; and `uptime` the time since then, shape (n,).
        """
        hazard = np.maximum(-np.log1p(-np.minimum(chance, 1 - 1e-9)), _MIN_HAZARD)
        low, high = (hazard * factor for factor in count_factors(self.incidents))
        if self.models:
            error = np.minimum(self._log_error(x, uptime, ahead), MAX_LOG_HAZARD_ERROR)
            low = np.minimum(low, hazard * np.exp(-error))
            high = np.maximum(high, hazard * np.exp(error))
        if self.rate is not None:
            low, high = np.minimum(low, self.rate * ahead), np.maximum(high, self.rate * ahead)
        return np.clip(-np.expm1(-low), 0.0, chance + 0.0), np.maximum(-np.expm1(-high), chance)

    def _log_error(self, x: Floats, uptime: Floats, ahead: float) -> Floats:
        """Return the half width of the 95 % interval of each log hazard by the jackknife, shape (n,)."""
        from scipy.special import stdtrit

        chances = [model.incident_probability(x, uptime, ahead) for model in self.models]
        hazards = -np.log1p(-np.minimum(np.array(chances), 1 - 1e-9))
        logs = np.log(np.maximum(hazards, _MIN_HAZARD))
        count = len(self.models)
        spread = np.sqrt((count - 1) / count * ((logs - logs.mean(axis=0)) ** 2).sum(axis=0))
        found: Floats = float(stdtrit(count - 1, _ENDS[1])) * spread
        return found

    def to_plain(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "incidents": self.incidents,
            "models": [model.to_plain() for model in self.models],
            "rate": self.rate,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], *, like: HazardModel) -> Self:
        """Read what `to_plain` gave; all models must have the covariates of `like`.

        Raises:
            SelectorError: A field is missing or wrong.
        """
        if not isinstance(plain, Mapping):
            raise SelectorError("model file: the record of what was left out is no object")
        count = plain.get("incidents")
        rate = None if plain.get("rate") is None else float(numbers(plain, "rate", ()))
        if type(count) is not int or not 0 <= count < _MAX_INCIDENTS:
            raise SelectorError("model file: the record of what was left out is damaged")
        found = items(plain, "models")
        if len(found) == 1 or len(found) > _MAX_PARTS:
            raise SelectorError(
                f"model file: {len(found)} fits without a part; there are 0 or 2 to {_MAX_PARTS}"
            )
        models = tuple(load_model(one) for one in found)
        if any(model.names != like.names for model in models):
            raise SelectorError("model file: a fit without a part knows other covariates")
        return cls(incidents=count, models=models, rate=rate)


def count_factors(incidents: int) -> tuple[float, float]:
    """Return the ends of the exact 95 % interval of a rate, as multiples of the observed one (Garwood 1936).

    Without incidents the observed rate is that of half an incident, and the interval starts at 0.
    """
    from scipy.special import gammaincinv

    seen = max(incidents, NO_INCIDENT)
    low = float(gammaincinv(incidents, _ENDS[0])) if incidents else 0.0
    return low / seen, float(gammaincinv(incidents + 1, _ENDS[1])) / seen


def refit_without_parts(
    model: HazardModel,
    rows: Intervals,
    nodes: Sequence[str],
    *,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Refits:
    """Fit a model, as it was fitted to the history, again without one part of it after the other.

    `nodes` are those of the rows, shape (n,). All rows of a node are left out together; if there are fewer
    nodes than parts, rows are left out singly. `seed` is that of networks, and `say` gets progress in words.
    """
    if isinstance(model, Exponential) and not model.use_covariates:
        return Refits(incidents=model.events)
    network = isinstance(model, CoxTime)
    template = CoxTime(seed=seed, networks=_NETWORKS) if network else model
    found = _refit(template, rows, nodes, NETWORK_PARTS if network else PARTS, say)
    rate = max(model.events, NO_INCIDENT) / float(rows.duration.sum()) if model.uses_facts else None
    return Refits(incidents=model.events, models=found, rate=rate)


def _refit(
    template: HazardModel,
    rows: Intervals,
    nodes: Sequence[str],
    parts: int,
    say: Callable[[str], None],
) -> tuple[HazardModel, ...]:
    """Return the fits; none if fewer than two are possible."""
    number_of = {node: number for number, node in enumerate(sorted(set(nodes)))}
    if len(number_of) < parts:
        number = np.argsort(np.argsort(rows.began, kind="stable"), kind="stable")
    else:
        number = np.array([number_of[node] for node in nodes])
    part = number % min(parts, len(nodes))
    count = int(part.max()) + 1
    found: list[HazardModel] = []
    for left_out in range(count):
        say(f"without part {left_out + 1} of {count}")
        fitted = _fit(template, rows.only(part != left_out))
        found += [] if fitted is None else [fitted]
    return tuple(found) if len(found) > 1 else ()


def _fit(template: HazardModel, rows: Intervals) -> HazardModel | None:
    """Fit a copy, or one rate for all if there are too few incidents for it; None if that fails too."""
    # `fit` replaces all that a copy has learned.
    for model in (copy(template), Exponential(use_covariates=False)):
        try:
            return rows.fitted(model)
        except SelectorError:  # `fit` checks the number of incidents
            continue
    return None
