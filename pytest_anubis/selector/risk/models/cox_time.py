"""Cox-Time: ``h(t | z) = h0(t) exp(g(t, z))`` with a network g that takes time as an input.

Kvamme, Borgan, Scheel, *Time-to-event prediction with neural networks and Cox regression* (JMLR 2019).
The relative risk may change with time, which proportional hazards forbid. Here g is Cox's linear part plus
a network that starts at zero and is kept only as far as rows apart confirm it, so where the past is no
guide to more, the model is Cox's. Those rows are a stretch of the history, not a random draw: neighbours
in it (a unit's many rows, a month of one fleet) share circumstances, and a network that had seen half of
them would be stopped far too late. Several networks, each with another fifth held back, are stopped at one
epoch, the first that their fifths cannot tell from the best, and averaged in g; one Breslow baseline
belongs to the average.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats, items, numbers
from pytest_anubis.selector.risk.models.cox import slopes
from pytest_anubis.selector.risk.models.cox_time_network import Clock, Network, make_clock
from pytest_anubis.selector.risk.models.cox_time_training import Recipe, sorted_rows, stop, train
from pytest_anubis.selector.risk.models.hazard import HazardModel, unseen_rate
from pytest_anubis.selector.selector_error import SelectorError

_GRID = 100  # times at which the baseline steps, at most
_ORDERED = 0.9  # rank correlation of row and duration from which rows count as sorted by it
_FEW = 0.1  # least share of its due that a stretch must have of the incidents
_CAP = 15.0  # largest |g| that is believed
_AT_RISK = (
    20_000  # rows without incident that risk is summed over, at most: a sample knows the sum to 1 %
)


class CoxTime(HazardModel):
    """A network's relative risk, without proportional hazards.

    Args:
        seed: Seed of everything random; equal seeds and data give equal models on one machine.
        networks: How many are averaged.
    """

    kind = "cox-time"
    needs_events = 20

    def __init__(
        self,
        *,
        seed: int = 0,
        networks: int = 5,
    ) -> None:
        super().__init__()
        if networks < 1:
            raise SelectorError(f"{networks} networks cannot be averaged; give at least 1")
        self.seed = seed
        self.networks = networks
        self._nets: tuple[Network, ...] = ()
        self._clock = Clock(1.0, 0.0, 1.0)
        self._times: Floats = np.zeros(1)
        self._steps: Floats = np.zeros(1)

    def _fit(self, z: Floats, duration: Floats, event: npt.NDArray[np.bool_]) -> None:
        self._clock = make_clock(duration[event])
        # More controls where incidents are rare.
        recipe = Recipe(controls=int(np.clip(10_000 // self.events, 1, 16)))
        folds = _stretches(duration, event, max(5, min(self.networks, 10)), self.seed)
        courses = []
        for number in range(self.networks):
            check = folds == number % (folds.max() + 1)
            fit = z[~check], duration[~check], event[~check]
            linear = slopes(*fit)
            course = train(
                sorted_rows(*fit, self._clock, linear),
                sorted_rows(z[check], duration[check], event[check], self._clock, linear),
                recipe,
                self.seed * 1009 + number,
                linear,
            )
            courses.append(course)
        epochs = stop(courses)
        self._nets = tuple(each.network(at) for each, at in zip(courses, epochs, strict=True))
        self._breslow(z, duration, event)
        self.notes += (
            f"{self.networks} networks of {'-'.join(map(str, recipe.hidden))}, taken after "
            f"{' and '.join(map(str, sorted(set(epochs))))} epochs by what a fifth of the rows each "
            "confirmed (0: proportional)",
        )

    def _breslow(self, z: Floats, duration: Floats, event: npt.NDArray[np.bool_]) -> None:
        """Set the baseline's steps at (binned) times of incidents: count / sum of risk at that time."""
        times = np.unique(duration[event])
        exact = len(times) <= _GRID
        if not exact:
            times = np.unique(np.quantile(duration[event], np.linspace(0, 1, _GRID + 1)[1:]))
        places = np.searchsorted(times, duration[event])
        deaths = np.bincount(places, minlength=len(times)).astype(np.float64)
        late = duration.max() > times[-1]
        if late:  # as in `CoxPH`: no incident is not no risk
            times, deaths = np.append(times, duration.max()), np.append(deaths, 0.0)
        weight = np.ones(len(z))
        others = np.flatnonzero(~event)
        if len(others) > _AT_RISK:
            drawn = np.random.default_rng(self.seed).choice(others, _AT_RISK, replace=False)
            kept = np.concatenate([np.flatnonzero(event), drawn])
            weight[drawn] = len(others) / _AT_RISK
            z, duration, weight = z[kept], duration[kept], weight[kept]
        # The incidents of a bin happen at its end; those who leave within it count as at risk for half.
        starts = np.concatenate([[0.0], times[:-1]])
        self._times = times
        risk = np.exp(np.clip(self._relative(times, z), -_CAP, _CAP))
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

    def _relative(self, times: Floats, z: Floats) -> Floats:
        """Return the networks' mean g, shape (n, m)."""
        moments = self._clock.of(times)
        total = np.zeros((len(z), len(times)))
        for net in self._nets:
            total += net.relative(moments, z)
        return total / len(self._nets)

    def _cumulative(self, times: Floats, z: Floats) -> Floats:
        found = np.empty((len(z), times.shape[1]))
        block = max(1, 2_000_000 // (len(self._times) + 1))
        marks = np.concatenate([[0.0], self._times])
        for start in range(0, len(z), block):
            part = z[start : start + block]
            risk = np.exp(np.clip(self._relative(self._times, part), -_CAP, _CAP)) * self._steps
            curve = np.concatenate([np.zeros((len(part), 1)), np.cumsum(risk, axis=1)], axis=1)
            when = times if len(times) == 1 else times[start : start + block]
            found[start : start + block] = _between(marks, curve, when)
        return found

    def _parameters(self) -> dict[str, Any]:
        return {
            "clock": [self._clock.start, self._clock.mean, self._clock.scale],
            "times": self._times.tolist(),
            "steps": self._steps.tolist(),
            "networks": [net.to_plain() for net in self._nets],
        }

    def _restore(self, parameters: Mapping[str, Any]) -> None:
        self._clock = Clock(*numbers(parameters, "clock", (3,)).tolist())
        self._times = numbers(parameters, "times", (-1,))
        self._steps = numbers(parameters, "steps", (len(self._times),))
        found = items(parameters, "networks")
        if not all(isinstance(net, Mapping) for net in found):
            raise SelectorError("model file: field 'networks' holds something else than objects")
        self._nets = tuple(Network.from_plain(net, self._prepared.width) for net in found)
        if not self._nets:
            raise SelectorError("model file: field 'networks' is missing or empty")
        self.networks = len(self._nets)


def _between(marks: Floats, curve: Floats, times: Floats) -> Floats:
    """Return curves, shape (n, k) at marks, at times of shape (n, m) or (1, m), drawn as lines."""
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
    """Deal rows into stretches of their order, shape (n,).

    Rows that stand in the order of what is to be predicted are dealt at random instead, incidents and the
    others alike: a stretch of only short lives would be no fair judge.
    """
    folds = np.arange(len(event)) * count // len(event)
    held = np.bincount(folds, weights=event, minlength=count) * count / event.sum()
    ranks = np.argsort(np.argsort(duration, kind="stable"), kind="stable")
    ordered = abs(float(np.corrcoef(ranks, np.arange(len(event)))[0, 1])) > _ORDERED
    if held.min() >= _FEW and not ordered:
        return folds
    rng = np.random.default_rng(seed)
    for group in (np.flatnonzero(event), np.flatnonzero(~event)):
        folds[rng.permutation(group)] = np.arange(len(group)) % count
    return folds
