"""Exponential and Weibull hazards, proportional in the covariates.

``H(t | z) = exp(a + k log t + b z)``; the exponential model fixes k = 1. They are fitted by maximum
likelihood (the sum of ``event * log h - H``) with a slight ridge on b.

`model_choice` and `refits` use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats, numbers
from pytest_anubis.selector.risk.models.cox import RIDGE
from pytest_anubis.selector.risk.models.hazard import NO_INCIDENT, HazardModel
from pytest_anubis.selector.selector_error import SelectorError


class Weibull(HazardModel):
    """A hazard that rises or falls as a power of time.

    Args:
        use_covariates: False fits one curve for all rows.
    """

    kind = "weibull"
    needs_events = 2
    free_shape: ClassVar[bool] = True

    def __init__(self, *, use_covariates: bool = True) -> None:
        super().__init__()
        self.use_covariates = use_covariates
        self._level = 0.0
        self._shape = 1.0
        self._slopes: Floats = np.zeros(0)

    def _fit(self, z: Floats, duration: Floats, event: npt.NDArray[np.bool_]) -> None:
        used = z if self.use_covariates and self.events else z[:, :0]
        # A duration of 0 has no logarithm: take half the shortest one that was measured.
        positive = duration[duration > 0]
        log_time = np.log(np.maximum(duration, positive.min() / 2))
        # Without incidents assume half a one, so that a quiet history is not a risk of 0.
        rate = max(self.events, NO_INCIDENT) / float(np.exp(log_time).sum())
        start = np.concatenate([[np.log(rate), 0.0], np.zeros(used.shape[1])])
        if self.events:
            start = self._maximise(start, used, log_time, event)
        self._level, self._shape = float(start[0]), float(np.exp(start[1]))
        self._slopes = np.concatenate([start[2:], np.zeros(z.shape[1] - used.shape[1])])

    def _maximise(
        self, start: Floats, z: Floats, log_time: Floats, event: npt.NDArray[np.bool_]
    ) -> Floats:
        from scipy.optimize import minimize

        middle = float(log_time[event].mean())  # centred, level and shape are nearly uncorrelated
        moved = log_time - middle
        penalty = RIDGE * self.events
        free = self.free_shape

        def loss(theta: Floats) -> tuple[float, Floats]:
            shape = np.exp(theta[1]) if free else 1.0
            linear = theta[0] + shape * moved + z @ theta[2:]
            hazard = np.exp(np.minimum(linear, 50.0))
            rest = event - hazard
            value = hazard.sum() - linear[event].sum() - self.events * np.log(shape)
            value += 0.5 * penalty * (theta[2:] @ theta[2:])
            slope = -(rest * moved).sum() * shape - self.events if free else 0.0
            gradient = np.concatenate([[-rest.sum(), slope], -(z.T @ rest) + penalty * theta[2:]])
            return float(value) / self.events, gradient / self.events

        first = start.copy()
        first[0] += middle
        found = minimize(
            loss,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=[(None, None), (-3.0, 3.0), *[(None, None)] * z.shape[1]],
            options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9},
        ).x.copy()
        found[0] -= (np.exp(found[1]) if free else 1.0) * middle
        return np.asarray(found, dtype=np.float64)

    def _cumulative(self, times: Floats, z: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            log_time = np.log(times)
        linear = self._level + self._shape * log_time + (z @ self._slopes)[:, None]
        return np.exp(np.minimum(linear, 700.0))

    def _parameters(self) -> dict[str, Any]:
        return {"level": self._level, "shape": self._shape, "slopes": self._slopes.tolist()}

    def _restore(self, parameters: Mapping[str, Any]) -> None:
        self._level = float(numbers(parameters, "level", ()))
        self._shape = float(numbers(parameters, "shape", ()))
        if self._shape <= 0:
            raise SelectorError("model file: field 'shape' is not above 0")
        self._slopes = numbers(parameters, "slopes", (self._prepared.width,))

    @property
    def uses_facts(self) -> bool:
        """Whether covariates change a node's risk."""
        return bool(self._slopes.any())


class Exponential(Weibull):
    """A constant hazard; without any incident it assumes half a one."""

    kind = "exponential"
    needs_events = 0
    free_shape = False
