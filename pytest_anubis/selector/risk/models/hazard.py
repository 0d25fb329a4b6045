"""The base of all risk models: from a node's covariates and uptime to the probability of an incident.

A model gives the cumulative hazard H(t | x); ``S(t | x) = exp(-H)`` is the probability of no incident until
t. For a node that has been up for u, the probability of an incident in the next h is
``1 - S(u + h | x) / S(u | x)``. The unit of time is the caller's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import (
    Floats,
    Preparation,
    items,
    learn_preparation,
    numbers,
)
from pytest_anubis.selector.selector_error import SelectorError

SCHEMA = 1
NO_INCIDENT = 0.5
"""Incidents assumed where none was seen, since one may still come."""

_MODELS = {
    "exponential": ("parametric", "Exponential"),
    "weibull": ("parametric", "Weibull"),
    "cox": ("cox", "CoxPH"),
    "cox-time": ("cox_time", "CoxTime"),
    "stacked": ("stacked", "MeanHazard"),
}
"""Kind of model -> its module and class."""


def unseen_rate(exposure: float, rate: float) -> float:
    """Return the rate of incidents, above 0, of a time in which none was seen.

    It assumes half an incident, and a prior of half an incident at the usual rate, which is above 0: after a
    short exposure it is the usual rate, after a long one that of half an incident, and never above either.
    """
    return NO_INCIDENT / (exposure + NO_INCIDENT / rate)


class HazardModel(ABC):
    """A model of the time to the next incident.

    Beyond the longest observed time it assumes the mean hazard of the last fifth of that time; `cautions`
    says so. Negative times, and shapes that do not fit, raise `SelectorError`.

    Attributes:
        notes: What `fit` did to the data, in words.
        observed: Largest duration in training.
        events: Incidents in training.
        rows: Rows in training.
    """

    kind: ClassVar[str]
    needs_events: ClassVar[int] = 1

    def __init__(self) -> None:
        self.notes: tuple[str, ...] = ()
        self.observed = 0.0
        self.events = 0
        self.rows = 0
        self._prepare: Preparation | None = None

    # Use

    def fit(
        self,
        x: npt.ArrayLike,
        duration: npt.ArrayLike,
        event: npt.ArrayLike,
        *,
        names: Sequence[str] | None = None,
        order: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn from intervals of service, and return the model itself.

        Cox-Time checks itself on held-back stretches of the rows, so rows of one time should be adjacent.

        Args:
            x: Covariates at the start of the interval, shape (n, d); NaN is missing; d may be 0.
            duration: Length of the interval, shape (n,), 0 or more.
            event: Whether it ended with an incident (1) or has only been observed so far (0), shape (n,).
            names: Names of the covariates for messages.
            order: When each interval began, shape (n,), to sort the rows by; None: keep their order.

        Raises:
            SelectorError: The shapes do not fit, a duration is negative or not finite, an event is
                not 0 or 1, or there are too few incidents for this model.
        """
        prepare, notes = learn_preparation(x, names)
        time, happened = checked(duration, event, np.asarray(x).shape[0])
        if happened.sum() < self.needs_events:
            raise SelectorError(
                f"{int(happened.sum())} incidents are too few for {self.kind} (at least "
                f"{self.needs_events}); use exponential, or wait for more history"
            )
        place = np.arange(len(time)) if order is None else _sorting(order, len(time))
        self._prepare = prepare
        self.notes = notes
        self.observed = float(time.max())
        self.events, self.rows = int(happened.sum()), len(time)
        self._fit(prepare.apply(x)[place], time[place], happened[place])
        return self

    def survival(self, times: npt.ArrayLike, x: npt.ArrayLike) -> Floats:
        """Return the probability of no incident until each time, shape (n, m).

        The times since the start of the interval, shape (m,), are in any order; the covariates have the shape
        (n, d).
        """
        moments = np.asarray(times, dtype=np.float64)
        if moments.ndim != 1:
            raise SelectorError(f"times have the shape {moments.shape}; give a list of times")
        return np.exp(-self.cumulative(moments[None, :], x))

    def incident_probability(
        self, x: npt.ArrayLike, uptime: npt.ArrayLike, horizon: npt.ArrayLike
    ) -> Floats:
        """Return the probability of an incident within the horizon, shape (n,).

        The covariates, shape (n, d), are those at the start of the interval; `uptime`, the time since then
        without an incident, and `horizon` are numbers or have the shape (n,).
        """
        count = len(np.asarray(x))
        start = np.broadcast_to(np.asarray(uptime, dtype=np.float64), (count,))
        ahead = np.broadcast_to(np.asarray(horizon, dtype=np.float64), (count,))
        if (ahead < 0).any():
            raise SelectorError("the horizon is negative; give a time of 0 or more")
        hazards = self.cumulative(np.stack([start, start + ahead], axis=1), x)
        return -np.expm1(hazards[:, 0] - hazards[:, 1])

    def cumulative(self, times: Floats, x: npt.ArrayLike) -> Floats:
        """Return the cumulative hazard H, shape (n, m), constant beyond the observed times.

        The times since the start of the interval have the shape (n, m), or (1, m) for all rows; the
        covariates have the shape (n, d).
        """
        z = self._prepared.apply(x)
        if not np.isfinite(times).all() or (times < 0).any():
            raise SelectorError("a time is negative or not finite; give times of 0 or more")
        inside = self._cumulative(np.minimum(times, self.observed), z)
        if times.max(initial=0.0) <= self.observed:
            return inside
        marks = self._cumulative(np.array([[0.8 * self.observed, self.observed]]), z)
        tail = (marks[:, 1] - marks[:, 0]) / (0.2 * self.observed)
        rate = np.where(tail > 0, tail, marks[:, 1] / self.observed)
        extended: Floats = inside + rate[:, None] * np.maximum(0, times - self.observed)
        return extended

    def cautions(
        self, x: npt.ArrayLike, until: float = 0.0, shown: Callable[[float], str] = "{:.6g}".format
    ) -> tuple[str, ...]:
        """Return in words what a prediction for these rows up to a time assumes beyond the data.

        `shown` formats a time with the caller's unit.
        """
        found = self._prepared.cautions(x)
        if until <= self.observed:
            return found
        return (
            *found,
            f"the forecast reaches {shown(until - self.observed)} beyond the longest time without an "
            f"incident that the model learned from ({shown(self.observed)}): there, incidents are only "
            "assumed to come as often as in the last fifth of that time",
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its covariates."""
        return self._prepared.names

    @property
    def uses_facts(self) -> bool:
        """Whether covariates change a node's risk, besides its uptime."""
        return True

    # Plain data

    def to_plain(self) -> dict[str, Any]:
        """Return the fitted model as plain data for JSON."""
        return {
            "schema": SCHEMA,
            "model": self.kind,
            "observed": self.observed,
            "events": self.events,
            "rows": self.rows,
            "notes": list(self.notes),
            "covariates": self._prepared.to_plain(),
            "parameters": self._parameters(),
        }

    def _read(self, plain: Mapping[str, Any]) -> None:
        covariates, parameters = plain.get("covariates"), plain.get("parameters")
        if not isinstance(covariates, Mapping) or not isinstance(parameters, Mapping):
            raise SelectorError("model file: covariates or parameters are missing")
        self._prepare = Preparation.from_plain(covariates)
        self.observed = float(numbers(plain, "observed", ()))
        self.events = int(numbers(plain, "events", ()))
        self.rows = int(numbers(plain, "rows", ()))
        self.notes = tuple(str(note) for note in items(plain, "notes"))
        if self.observed <= 0:
            raise SelectorError("model file: field 'observed' is not a time above 0")
        self._restore(parameters)

    # For the models

    @abstractmethod
    def _fit(self, z: Floats, duration: Floats, event: npt.NDArray[np.bool_]) -> None:
        """Learn from standardised covariates, shape (n, width)."""

    @abstractmethod
    def _cumulative(self, times: Floats, z: Floats) -> Floats:
        """Return H, shape (n, m), at times of shape (n, m) or (1, m), none beyond `observed`."""

    @abstractmethod
    def _parameters(self) -> dict[str, Any]:
        """Return the learned parameters as plain data."""

    @abstractmethod
    def _restore(self, parameters: Mapping[str, Any]) -> None:
        """Read what `_parameters` gave."""

    @property
    def _prepared(self) -> Preparation:
        if self._prepare is None:
            raise SelectorError(f"the {self.kind} model has not been fitted; call fit first")
        return self._prepare


def load_model(plain: Mapping[str, Any]) -> HazardModel:
    """Return the model that `HazardModel.to_plain` wrote.

    Raises:
        SelectorError: It is of another schema or kind, or a field is missing or wrong.
    """
    if not isinstance(plain, Mapping) or plain.get("schema") != SCHEMA:
        found = plain.get("schema") if isinstance(plain, Mapping) else None
        raise SelectorError(
            f"model file of schema {str(found)[:20]!r}, this version reads {SCHEMA}; fit it again"
        )
    kind = str(plain.get("model"))
    if kind not in _MODELS:
        raise SelectorError(f"model file: model {kind[:40]!r} is none of {', '.join(_MODELS)}")
    model = make_model(kind)
    model._read(plain)
    return model


def make_model(kind: str) -> HazardModel:
    """Return an unfitted model of a known kind."""
    module, name = _MODELS[kind]
    model: HazardModel = getattr(
        import_module(f"pytest_anubis.selector.risk.models.{module}"), name
    )()
    return model


def _sorting(order: npt.ArrayLike, rows: int) -> npt.NDArray[np.int64]:
    """Return the indices that sort rows by a number for each, shape (rows,); the sort is stable."""
    figure = np.asarray(order, dtype=np.float64)
    if figure.shape != (rows,) or not np.isfinite(figure).all():
        raise SelectorError(
            f"{rows} rows and an order of shape {figure.shape}; give one finite number for each row"
        )
    return np.argsort(figure, kind="stable")


def checked(
    duration: npt.ArrayLike, event: npt.ArrayLike, rows: int
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return durations and events as arrays of shape (rows,).

    Raises:
        SelectorError: There are none, the lengths differ, or a value is impossible.
    """
    time = np.asarray(duration, dtype=np.float64)
    happened = np.asarray(event, dtype=np.float64)
    if rows == 0:
        raise SelectorError("there is no row to learn from; the history is empty")
    if time.shape != (rows,) or happened.shape != (rows,):
        raise SelectorError(
            f"{rows} rows of covariates, durations of shape {time.shape}, events of shape "
            f"{happened.shape}; give one duration and one event for each row"
        )
    if not np.isfinite(time).all() or (time < 0).any():
        worst = int(np.flatnonzero(~np.isfinite(time) | (time < 0))[0])
        raise SelectorError(f"row {worst} has the duration {time[worst]}; give 0 or more")
    if not np.isin(happened, (0, 1)).all():
        raise SelectorError(
            "an event is neither 0 nor 1; give 1 for an incident, 0 for none so far"
        )
    if time.max() <= 0:
        raise SelectorError("all durations are 0; nothing was observed")
    return time, happened.astype(np.bool_)
