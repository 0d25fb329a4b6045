"""Cox's proportional hazards: ``H(t | z) = H0(t) exp(b z)`` with a baseline of no assumed form.

The slopes b maximise the partial likelihood (ties by Efron); H0 is Breslow's estimate. `cox_time` and
`parametric` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats, numbers, rising
from pytest_anubis.selector.risk.models.hazard import HazardModel, unseen_rate

RIDGE = 1e-3
"""Penalty on the slopes, per incident."""


class CoxPH(HazardModel):
    """Proportional hazards with a log risk that is linear in the covariates."""

    kind = "cox"
    needs_events = 5

    def __init__(self) -> None:
        super().__init__()
        self._slopes: Floats = np.zeros(0)
        self._times: Floats = np.zeros(1)
        self._baseline: Floats = np.zeros(1)

    def _fit(self, z: Floats, duration: Floats, event: npt.NDArray[np.bool_]) -> None:
        order = np.argsort(-duration, kind="stable")  # the risk set of a time is then a prefix
        z, duration, event = z[order], duration[order], event[order]
        self._slopes = slopes(z, duration, event)
        risk = np.exp(np.clip(z @ self._slopes, -50, 50))
        weight = np.cumsum(risk)
        times, deaths = np.unique(duration[event], return_counts=True)
        at_risk = weight[np.searchsorted(-duration, -times, side="right") - 1]
        self._times = np.concatenate([[0.0], times])
        self._baseline = np.concatenate([[0.0], np.cumsum(deaths / at_risk)])
        if times[0] == 0:  # incidents at the very start are a jump at 0
            self._times, self._baseline = self._times[1:], self._baseline[1:]
        beyond = np.maximum(duration - times[-1], 0.0)
        # Without it a node up for longer than any incident took would have no risk.
        if beyond.any():
            rate = unseen_rate(float(risk @ beyond), float(event.sum() / (risk @ duration)))
            self._times = np.append(self._times, duration.max())
            self._baseline = np.append(self._baseline, self._baseline[-1] + rate * beyond.max())

    def _cumulative(self, times: Floats, z: Floats) -> Floats:
        # H0 has Breslow's value at each incident and is linear in between.
        baseline = np.interp(times, self._times, self._baseline)
        return np.asarray(baseline * np.exp(np.clip(z @ self._slopes, -50, 50))[:, None])

    def _parameters(self) -> dict[str, Any]:
        return {
            "slopes": self._slopes.tolist(),
            "times": self._times.tolist(),
            "baseline": self._baseline.tolist(),
        }

    def _restore(self, parameters: Mapping[str, Any]) -> None:
        self._slopes = numbers(parameters, "slopes", (self._prepared.width,))
        self._times = rising(parameters, "times", (-1,))
        self._baseline = rising(parameters, "baseline", (len(self._times),))

    @property
    def uses_facts(self) -> bool:
        """Whether covariates change a node's risk."""
        return bool(self._slopes.any())


def slopes(
    z: Floats, duration: Floats, event: npt.NDArray[np.bool_], ridge: float = RIDGE
) -> Floats:
    """Return the slopes that maximise the penalised partial likelihood, shape (width,).

    `z` are standardised covariates, shape (n, width); at least one `event` is true; `ridge` is per incident.
    """
    from scipy.optimize import minimize

    order = np.argsort(-duration, kind="stable")
    found = minimize(
        _partial(z[order], duration[order], event[order], ridge),
        np.zeros(z.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": 1e-14, "gtol": 1e-8},
    )
    return np.asarray(found.x, dtype=np.float64)


def _partial(
    z: Floats, duration: Floats, event: npt.NDArray[np.bool_], ridge: float
) -> Callable[[Floats], tuple[float, Floats]]:
    """Return a function that gives the negative log partial likelihood per incident, and its gradient.

    The rows are sorted by falling duration. Efron: of m incidents at one time, the l-th sees the risk set
    without the share l / m of these m.
    """
    times, tied = np.unique(-duration[event], return_inverse=True)
    last = np.searchsorted(-duration, times, side="right") - 1
    counts = np.bincount(tied, minlength=len(times))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    ties = len(times) < int(event.sum())
    rank = np.arange(len(tied)) - starts[tied]  # rows are sorted by time, so ties are adjacent
    share = rank / counts[tied]
    total = int(event.sum())
    penalty = ridge * total
    deaths = z[event]

    def loss(slopes: Floats) -> tuple[float, Floats]:
        linear = np.clip(z @ slopes, -50, 50)
        risk = np.exp(linear)
        sums = np.cumsum(risk)[last][tied]
        moments = np.cumsum(risk[:, None] * z, axis=0)[last][tied]
        if ties:
            own = risk[event]
            sums = sums - share * np.add.reduceat(own, starts)[tied]
            dead = np.add.reduceat(own[:, None] * deaths, starts, axis=0)[tied]
            moments = moments - share[:, None] * dead
        value = np.log(sums).sum() - linear[event].sum() + 0.5 * penalty * (slopes @ slopes)
        gradient = (moments / sums[:, None]).sum(0) - deaths.sum(0) + penalty * slopes
        return float(value) / total, gradient / total

    return loss
