"""The trained network of Cox-Time as plain arrays: `cox_time_training` makes it, `cox_time` predicts by it.

Its first layer gets the covariates and the standardised logarithm of time. Since time enters linearly there,
the covariates' part is computed once for all times. Only the training needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats, items, numbers

Floats32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class TimeScale:
    """The network's input for a time: ``(log(max(t, start)) - mean) / scale``."""

    start: float  # earliest time that is distinguished from 0
    mean: float  # mean of the logarithm over the incidents
    scale: float  # its standard deviation

    def apply(self, times: npt.ArrayLike) -> Floats:
        """Return standardised times, of the same shape."""
        later = np.maximum(np.asarray(times, dtype=np.float64), self.start)
        return np.asarray((np.log(later) - self.mean) / self.scale)


def learn_time_scale(incidents: Floats) -> TimeScale:
    """Learn the scale from the durations until incidents, shape (events,)."""
    positive = incidents[incidents > 0]
    start = float(np.quantile(positive, 0.01)) if len(positive) else 1.0
    logs = np.log(np.maximum(incidents, start))
    return TimeScale(start=start, mean=float(logs.mean()), scale=float(logs.std()) or 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A hidden layer: ``max(0, z W + b) * scale + shift``; the last two are the batch normalisation."""

    weight: Floats32
    bias: Floats32
    scale: Floats32
    shift: Floats32

    def activate(self, linear: Floats32) -> Floats32:
        """Return the layer's output from z W + b."""
        return np.maximum(linear, 0) * self.scale + self.shift


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A trained g(t, z)."""

    layers: tuple[Layer, ...]  # hidden layers; the last input of the first one is the time
    out: Floats32  # shape (hidden,): weights of the output
    linear: Floats32  # shape (width,): slopes of the proportional part, which the layers correct

    def log_risk(self, times: Floats, z: Floats) -> Floats32:
        """Return the log relative risk g, shape (n, m), at standardised times, shape (m,).

        `z` are the prepared covariates (`HazardModel`), shape (n, width).
        """
        first = self.layers[0]
        fixed = z.astype(np.float32) @ first.weight[:-1] + first.bias
        found = np.empty((len(z), len(times)), dtype=np.float32)
        block = max(1, 400_000 // (len(times) * len(first.bias)))
        for start in range(0, len(z), block):
            part = fixed[start : start + block]
            values = first.activate(
                part[:, None, :] + times.astype(np.float32)[None, :, None] * first.weight[-1]
            )
            for layer in self.layers[1:]:
                values = layer.activate(values @ layer.weight + layer.bias)
            found[start : start + block] = values @ self.out
        return found + (z.astype(np.float32) @ self.linear)[:, None]

    def to_plain(self) -> dict[str, Any]:
        """Return nested lists."""
        return {
            "layers": [
                {field: getattr(layer, field).tolist() for field in ("weight", *_VECTORS)}
                for layer in self.layers
            ],
            "out": self.out.tolist(),
            "linear": self.linear.tolist(),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], width: int) -> Self:
        """Read what `to_plain` gave, for covariates of a width.

        Raises:
            SelectorError: A field is missing or has another shape.
        """
        layers = []
        size = width + 1
        for each in items(plain, "layers"):
            weight = numbers(each, "weight", (size, -1)).astype(np.float32)
            size = weight.shape[1]
            vectors = {name: numbers(each, name, (size,)).astype(np.float32) for name in _VECTORS}
            layers.append(Layer(weight=weight, **vectors))
        out, linear = numbers(plain, "out", (size,)), numbers(plain, "linear", (width,))
        return cls(
            layers=tuple(layers), out=out.astype(np.float32), linear=linear.astype(np.float32)
        )


_VECTORS = ("bias", "scale", "shift")
