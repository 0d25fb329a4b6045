"""Cox-Time: ``h(t | z) = h0(t) exp(g(t, z))`` with a network g that takes time as an input.

Kvamme, Borgan, Scheel, *Time-to-event prediction with neural networks and Cox regression* (JMLR 2019).
The relative risk may change with time, which proportional hazards exclude. Here g is Cox's linear part plus a
network that starts at zero and is trained only as long as held-back rows confirm it; if they never do, the
model is Cox's. The held-back rows are a stretch of the history, not a random draw: neighbours in it (a unit's
many rows, a month of one fleet) share circumstances, and a network that had seen half of them would be
stopped far too late. Three networks or more, each with another part held back, stop at one common epoch,
the first that the parts cannot distinguish from the best. Their g is averaged, with one Breslow baseline.
`model_choice` and `refits` use it; `hazard` imports it by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats, items, numbers, rising
from pytest_anubis.selector.risk.models.cox import slopes
from pytest_anubis.selector.risk.models.cox_time_network import (
    Network,
    TimeScale,
    learn_time_scale,
)
from pytest_anubis.selector.risk.models.cox_time_training import (
    HIDDEN,
    sort_rows,
    stop_epochs,
    train,
)
from pytest_anubis.selector.risk.models.hazard import HazardModel, unseen_rate
from pytest_anubis.selector.selector_error import SelectorError

_MAX_BASELINE_STEPS = 100
_SORTED = 0.9  # rank correlation of row and duration from which rows count as sorted by duration
_MIN_INCIDENTS = 0.1  # of a stretch, relative to an equal share of them
_MAX_LOG_RISK = 15.0  # larger |g| is not believed
_MAX_AT_RISK = 20_000  # rows without incident to sum risk over: a sample gives the sum to 1 %


class CoxTime(HazardModel):
    """A relative risk from networks, without proportional hazards.

    Args:
        seed: Equal seeds and data give equal models on one machine.
        networks: How many are averaged.
    """

    kind = "cox-time"
    needs_events = 20

    def __init__(self, *, seed: int = 0, networks: int = 5) -> None:
        super().__init__()
        if networks < 1:
            raise SelectorError(f"{networks} networks cannot be averaged; give at least 1")
        self.seed = seed
        self.networks = networks
        self._nets: tuple[Network, ...] = ()
        self._time_scale = TimeScale(1.0, 0.0, 1.0)
        self._times: Floats = np.zeros(1)
        self._steps: Floats = np.zeros(1)

    def _fit(self, z: Floats, duration: Floats, event: npt.NDArray[np.bool_]) -> None:
        self._time_scale = learn_time_scale(duration[event])
        # More controls where incidents are rare.
        controls = int(np.clip(10_000 // self.events, 1, 16))
        folds = _stretches(duration, event, max(5, min(self.networks, 10)), self.seed)
        trainings = []
        for number in range(self.networks):
            check = folds == number % (folds.max() + 1)
            fit = z[~check], duration[~check], event[~check]
            linear = slopes(*fit)
            training = train(
                sort_rows(*fit, self._time_scale, linear),
                sort_rows(z[check], duration[check], event[check], self._time_scale, linear),
                controls,
                self.seed * 1009 + number,
                linear,
            )
            trainings.append(training)
        epochs = stop_epochs(trainings)
        self._nets = tuple(each.network(at) for each, at in zip(trainings, epochs, strict=True))
        self._fit_baseline(z, duration, event)
        self.notes += (
            f"{self.networks} networks of {'-'.join(map(str, HIDDEN))}, taken after "
            f"{' and '.join(map(str, sorted(set(epochs))))} epochs by what a fifth of the rows each "
            "confirmed (0: proportional)",
        )

    def _fit_baseline(self, z: Floats, duration: Floats, event: npt.NDArray[np.bool_]) -> None:
        """Set Breslow's steps at (binned) times of incidents: their number over the risk of all at risk."""
        times = np.unique(duration[event])
        exact = len(times) <= _MAX_BASELINE_STEPS
        if not exact:
            times = np.unique(
                np.quantile(duration[event], np.linspace(0, 1, _MAX_BASELINE_STEPS + 1)[1:])
            )
        places = np.searchsorted(times, duration[event])
        deaths = np.bincount(places, minlength=len(times)).astype(np.float64)
        late = duration.max() > times[-1]
        if late:  # as in `CoxPH`: a time without incidents is not without risk
            times, deaths = np.append(times, duration.max()), np.append(deaths, 0.0)
        weight = np.ones(len(z))
        others = np.flatnonzero(~event)
        if len(others) > _MAX_AT_RISK:
            drawn = np.random.default_rng(self.seed).choice(others, _MAX_AT_RISK, replace=False)
            kept = np.concatenate([np.flatnonzero(event), drawn])
            weight[drawn] = len(others) / _MAX_AT_RISK
            z, duration, weight = z[kept], duration[kept], weight[kept]
        # The incidents of a bin happen at its end; a row that ends within it counts for its part of the bin.
        starts = np.concatenate([[0.0], times[:-1]])
        self._times = times
        risk = self._relative_risk(times, z)
        width = np.maximum(times - starts, 1e-300)
        for step, (start, end) in enumerate(zip(starts, times, strict=True)):
            if exact and not (late and step == len(times) - 1):
                share = (duration >= end).astype(np.float64)
            else:
                share = np.clip((duration - start) / width[step], 0, 1)
            risk[:, step] *= share * weight
        at_risk = np.maximum(risk.sum(axis=0), 1e-300)
        if late:
            watched = at_risk * width
            rate = unseen_rate(float(watched[-1]), float(deaths.sum() / watched.sum()))
            deaths[-1] = rate * watched[-1]
        self._steps = deaths / at_risk

    def _relative_risk(self, times: Floats, z: Floats) -> Floats:
        """Return exp(g), shape (n, m), with the networks' mean g."""
        scaled = self._time_scale.apply(times)
        total = np.zeros((len(z), len(times)))
        for net in self._nets:
            total += net.log_risk(scaled, z)
        return np.exp(np.clip(total / len(self._nets), -_MAX_LOG_RISK, _MAX_LOG_RISK))

    def _cumulative(self, times: Floats, z: Floats) -> Floats:
        found = np.empty((len(z), times.shape[1]))
        block = max(1, 2_000_000 // (len(self._times) + 1))
        marks = np.concatenate([[0.0], self._times])
        for start in range(0, len(z), block):
            part = z[start : start + block]
            risk = self._relative_risk(self._times, part) * self._steps
            curve = np.concatenate([np.zeros((len(part), 1)), np.cumsum(risk, axis=1)], axis=1)
            when = times if len(times) == 1 else times[start : start + block]
            found[start : start + block] = _between(marks, curve, when)
        return found

    def _parameters(self) -> dict[str, Any]:
        return {
            "clock": [self._time_scale.start, self._time_scale.mean, self._time_scale.scale],
            "times": self._times.tolist(),
            "steps": self._steps.tolist(),
            "networks": [net.to_plain() for net in self._nets],
        }

    def _restore(self, parameters: Mapping[str, Any]) -> None:
        self._time_scale = TimeScale(*numbers(parameters, "clock", (3,)).tolist())
        self._times = rising(parameters, "times", (-1,))
        self._steps = numbers(parameters, "steps", (len(self._times),))
        if (self._steps < 0).any():
            raise SelectorError("model file: field 'steps' has a number below 0")
        found = items(parameters, "networks")
        if not all(isinstance(net, Mapping) for net in found):
            raise SelectorError("model file: field 'networks' holds something else than objects")
        self._nets = tuple(Network.from_plain(net, self._prepared.width) for net in found)
        if not self._nets:
            raise SelectorError("model file: field 'networks' is missing or empty")
        self.networks = len(self._nets)


def _between(marks: Floats, curve: Floats, times: Floats) -> Floats:
    """Interpolate curves, given at marks with shape (n, k), at times of shape (n, m) or (1, m)."""
    place = np.clip(np.searchsorted(marks, times, side="left"), 1, len(marks) - 1)
    low, high = marks[place - 1], marks[place]
    share = np.clip((times - low) / np.maximum(high - low, 1e-300), 0, 1)
    shape = (len(curve), times.shape[1])
    place, share = np.broadcast_to(place, shape), np.broadcast_to(share, shape)
    left = np.take_along_axis(curve, place - 1, axis=1)
    right = np.take_along_axis(curve, place, axis=1)
    found: Floats = left + share * (right - left)
    return found


def _stretches(
    duration: Floats, event: npt.NDArray[np.bool_], count: int, seed: int
) -> npt.NDArray[np.int64]:
    """Return the stretch of each row, shape (n,): equal parts of the rows in their order.

    If a stretch has few incidents, or rows are sorted by duration, they are dealt at random, incidents and
    others evenly: a stretch of only short durations is no fair test.
    """
    folds = np.arange(len(event)) * count // len(event)
    incidents = np.bincount(folds, weights=event, minlength=count) * count / event.sum()
    ranks = np.argsort(np.argsort(duration, kind="stable"), kind="stable")
    by_duration = abs(float(np.corrcoef(ranks, np.arange(len(event)))[0, 1])) > _SORTED
    if incidents.min() >= _MIN_INCIDENTS and not by_duration:
        return folds
    rng = np.random.default_rng(seed)
    for group in (np.flatnonzero(event), np.flatnonzero(~event)):
        folds[rng.permutation(group)] = np.arange(len(group)) % count
    return folds
