"""Make covariates fit for a model: fill in what is missing, hold back what is wild, and say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import percent_text
from pytest_anubis.selector.selector_error import SelectorError

Floats = npt.NDArray[np.float64]

CLIP = (
    4.0  # standard deviations; rare counts reach 60, and a network gives such rows all the hazard
)
_HEAVY = 8.0  # a largest value this many standard deviations above the mean: take logarithms first
_OFTEN = 0.01  # a value that is missing in this share of rows gets a column that says so


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """How raw covariates become standardised ones, as learned from the training rows.

    Attributes:
        names: The d raw columns.
        median: Shape (d,): what represents a missing value.
        low: Shape (d,): smallest value seen; less is held at it.
        high: Shape (d,): largest value seen; more is held at it.
        logged: Shape (d,): columns of which ``log(1 + x - low)`` is taken.
        mean: Shape (d,), after the logarithm.
        scale: Shape (d,), after the logarithm; 0 drops the column.
        flagged: Shape (d,): columns with another column that says whether the value is missing.
        rate: Shape (d,): share of rows in which the value was missing.
    """

    names: tuple[str, ...]
    median: Floats
    low: Floats
    high: Floats
    logged: npt.NDArray[np.bool_]
    mean: Floats
    scale: Floats
    flagged: npt.NDArray[np.bool_]
    rate: Floats

    @property
    def width(self) -> int:
        """Number of standardised columns."""
        return int((self.scale > 0).sum() + self.flagged.sum())

    def apply(self, x: npt.ArrayLike) -> Floats:
        """Return standardised covariates, shape (n, width), all finite and within ±`CLIP`.

        Args:
            x: Raw covariates, shape (n, d); NaN is missing, infinities count as the largest value seen.

        Raises:
            SelectorError: The shape does not fit.
        """
        raw = matrix(x, len(self.names))
        missing = np.isnan(raw)
        held = np.clip(np.where(missing, self.median, raw), self.low, self.high)
        bent = np.where(self.logged, np.log1p(held - self.low), held)
        used = self.scale > 0
        z = np.clip((bent[:, used] - self.mean[used]) / self.scale[used], -CLIP, CLIP)
        rate = self.rate[self.flagged]
        flags = (missing[:, self.flagged] - rate) / np.sqrt(rate * (1 - rate))
        return np.hstack([z, np.clip(flags, -CLIP, CLIP)])

    def cautions(self, x: npt.ArrayLike) -> tuple[str, ...]:
        """Return in words what `apply` fills in and holds back in these rows."""
        raw = matrix(x, len(self.names))
        said = []
        for column, name in enumerate(self.names):
            values = raw[:, column]
            if self.scale[column] <= 0:
                continue
            missing = int(np.isnan(values).sum())
            above = int((values > self.high[column]).sum())
            below = int((values < self.low[column]).sum())
            # A flagged column tells the model itself that there is no value: nothing is made up.
            if missing and not self.flagged[column]:
                said.append(
                    f"{name}: {missing} of {len(raw)} nodes {'has' if missing == 1 else 'have'} none; the "
                    f"usual {self.median[column]:.4g} stands for it"
                )
            if above:
                said.append(
                    f"{name}: up to {np.nanmax(values):.4g} in {above} rows, at most "
                    f"{self.high[column]:.4g} was seen in training; held there"
                )
            if below:
                said.append(
                    f"{name}: down to {np.nanmin(values):.4g} in {below} rows, at least "
                    f"{self.low[column]:.4g} was seen in training; held there"
                )
        return tuple(said)

    def to_plain(self) -> dict[str, Any]:
        """Return lists and strings."""
        return {
            "names": list(self.names),
            **{field: getattr(self, field).tolist() for field in _FIELDS},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Read back what `to_plain` gave.

        Raises:
            SelectorError: A field is missing or has another length, or bounds or rates are impossible.
        """
        names = tuple(str(name) for name in items(plain, "names"))
        columns: dict[str, Any] = {}
        for field, kind in _FIELDS.items():
            columns[field] = numbers(plain, field, (len(names),)).astype(kind)
        scale = columns["scale"]
        wild = any((np.abs(column) > _LARGEST).any() for column in columns.values())
        if wild or ((scale > 0) & (scale < 1 / _LARGEST)).any():
            raise SelectorError(
                "model file: a covariate is too large or too small to be reckoned with"
            )
        low, median, high = columns["low"], columns["median"], columns["high"]
        rate = columns["rate"][columns["flagged"]]
        if (low > median).any() or (median > high).any():
            raise SelectorError("model file: not every 'median' lies between its 'low' and 'high'")
        if (rate <= 0).any() or (rate >= 1).any():
            raise SelectorError("model file: a flagged 'rate' does not lie between 0 and 1")
        return cls(names=names, **columns)


_LARGEST = 1e100
"""No covariate is as large, nor any scale as small as its inverse: differences and quotients stay finite."""

_FIELDS: dict[str, type] = {
    "median": np.float64,
    "low": np.float64,
    "high": np.float64,
    "logged": np.bool_,
    "mean": np.float64,
    "scale": np.float64,
    "flagged": np.bool_,
    "rate": np.float64,
}


def learn_preparation(
    x: npt.ArrayLike, names: Sequence[str] | None = None
) -> tuple[Preparation, tuple[str, ...]]:
    """Learn how to prepare covariates, and say what will be done to them.

    Args:
        x: Raw covariates, shape (n, d).
        names: The d names for messages; default ``x0``, ``x1``, ...

    Raises:
        SelectorError: The shapes do not fit.
    """
    raw = matrix(x, None)
    count, width = raw.shape
    labels = tuple(names) if names is not None else tuple(f"x{i}" for i in range(width))
    if len(labels) != width:
        raise SelectorError(f"{len(labels)} names for {width} covariates; give one for each")
    known = np.isfinite(raw)
    median, low, high = np.zeros(width), np.zeros(width), np.zeros(width)
    logged = np.zeros(width, dtype=np.bool_)
    mean, scale = np.zeros(width), np.zeros(width)
    notes: list[str] = []
    for column in range(width):
        values = raw[known[:, column], column]
        if not len(values) or values.min() == values.max():
            word = "never given" if not len(values) else "the same in all rows"
            notes.append(f"{labels[column]}: {word}; left out")
            median[column] = low[column] = high[column] = values[0] if len(values) else 0.0
            continue
        median[column], low[column], high[column] = np.median(values), values.min(), values.max()
        if (values.max() - values.mean()) > _HEAVY * values.std():
            logged[column] = True
            values = np.log1p(values - low[column])
            notes.append(f"{labels[column]}: heavy tail; its logarithm is used")
        mean[column], scale[column] = values.mean(), values.std()
        wild = int((np.abs(values - mean[column]) > CLIP * scale[column]).sum())
        if wild:
            notes.append(
                f"{labels[column]}: {wild} of {count} values limited to {CLIP:g} standard deviations"
            )
    rate = np.isnan(raw).mean(axis=0) if count else np.zeros(width)
    for column in np.flatnonzero((rate > 0) & (scale > 0)).tolist():
        notes.append(
            f"{labels[column]}: none in {percent_text(rate[column])} of rows; its median is used"
        )
    flagged = (rate >= _OFTEN) & (rate <= 1 - _OFTEN) & (scale > 0)
    return Preparation(labels, median, low, high, logged, mean, scale, flagged, rate), tuple(notes)


def matrix(x: npt.ArrayLike, width: int | None) -> Floats:
    """Return covariates as floats of shape (n, d).

    Raises:
        SelectorError: They are no numbers, not two-dimensional, or not of the width asked for.
    """
    try:
        raw = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise SelectorError("covariates must be numbers of shape (rows, columns)") from None
    if raw.ndim != 2 or (width is not None and raw.shape[1] != width):
        columns = "columns" if width is None else f"{width} columns"
        raise SelectorError(
            f"covariates have the shape {raw.shape}; give rows and {columns}, as in training"
        )
    return raw


def numbers(plain: Mapping[str, Any], field: str, shape: tuple[int, ...]) -> Floats:
    """Return a field of plain data as an array; -1 in the shape takes any length.

    Raises:
        SelectorError: It is missing, holds something else, or has another shape.
    """
    try:
        found = np.asarray(plain[field], dtype=np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise SelectorError(
            f"model file: field {field!r} is missing or no list of numbers"
        ) from None
    if found.size == 0 and 0 in shape:
        found = found.reshape([max(0, size) for size in shape])
    fits = found.ndim == len(shape) and all(
        size in (-1, have) for size, have in zip(shape, found.shape, strict=True)
    )
    if not fits or not np.isfinite(found).all():
        raise SelectorError(
            f"model file: field {field!r} has the shape {found.shape} or no numbers"
        )
    return found


def items(plain: Mapping[str, Any], field: str) -> list[Any]:
    """Return a list out of plain data; empty where it is missing.

    Raises:
        SelectorError: It is no list.
    """
    found = plain.get(field, [])
    if not isinstance(found, list):
        raise SelectorError(f"model file: field {field!r} is no list")
    return found
