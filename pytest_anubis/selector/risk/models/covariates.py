"""Prepare covariates for a risk model: standardise, fill in missing values, limit extremes, and say so.

`numbers`, `rising` and `items` check the fields of a kept model, for all models. What is missing, no
number or of another shape raises `SelectorError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import percent_text
from pytest_anubis.selector.selector_error import SelectorError

Floats = npt.NDArray[np.float64]

CLIP = 4.0
"""Standard deviations; rare counts reach 60, and a network would give such rows all the hazard."""
_HEAVY_TAIL = 8.0  # standard deviations from the mean to the largest value: use the logarithm
_MIN_FLAGGED = 0.01  # share of rows with a missing value from which a column flags them
_MAX_VALUE = 1e100  # of covariates, and of 1 / scale: differences and quotients stay finite

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


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """A map from raw to standardised covariates, learned from the training rows."""

    names: tuple[str, ...]  # the d raw columns
    median: Floats  # shape (d,): replaces a missing value
    low: Floats  # shape (d,): smallest training value; lower values are raised to it
    high: Floats  # shape (d,): largest training value; higher values are lowered to it
    logged: npt.NDArray[np.bool_]  # shape (d,): columns of which ``log(1 + x - low)`` is used
    mean: Floats  # shape (d,), after the logarithm
    scale: Floats  # shape (d,), after the logarithm; 0 drops the column
    # Shape (d,): columns with a further column that flags missing values
    flagged: npt.NDArray[np.bool_]
    rate: Floats  # shape (d,): share of rows in which the value was missing

    @property
    def width(self) -> int:
        """Number of standardised columns."""
        return int((self.scale > 0).sum() + self.flagged.sum())

    def apply(self, x: npt.ArrayLike) -> Floats:
        """Return standardised covariates, shape (n, width), all finite and within ±`CLIP`.

        In the raw ones, shape (n, d), NaN is missing, and infinities count as the largest value seen.
        """
        raw = matrix(x, len(self.names))
        missing = np.isnan(raw)
        limited = np.clip(np.where(missing, self.median, raw), self.low, self.high)
        bent = np.where(self.logged, np.log1p(limited - self.low), limited)
        used = self.scale > 0
        z = np.clip((bent[:, used] - self.mean[used]) / self.scale[used], -CLIP, CLIP)
        rate = self.rate[self.flagged]
        flags = (missing[:, self.flagged] - rate) / np.sqrt(rate * (1 - rate))
        return np.hstack([z, np.clip(flags, -CLIP, CLIP)])

    def cautions(self, x: npt.ArrayLike) -> tuple[str, ...]:
        """Return in words what `apply` fills in and limits in these rows."""
        raw = matrix(x, len(self.names))
        found = []
        for column, name in enumerate(self.names):
            values = raw[:, column]
            if self.scale[column] <= 0:
                continue
            missing = int(np.isnan(values).sum())
            # In a flagged column the model knows that the value is missing: nothing is made up.
            if missing and not self.flagged[column]:
                found.append(
                    f"{name}: {missing} of {len(raw)} nodes {'has' if missing == 1 else 'have'} none; the "
                    f"usual {self.median[column]:.4g} is used"
                )
            for way, over, extreme, most, limit in (
                ("up", values > self.high[column], np.nanmax, "most", self.high[column]),
                ("down", values < self.low[column], np.nanmin, "least", self.low[column]),
            ):
                if over.any():
                    found.append(
                        f"{name}: {way} to {extreme(values):.4g} in {int(over.sum())} rows, at {most} "
                        f"{limit:.4g} was seen in training; held there"
                    )
        return tuple(found)

    def to_plain(self) -> dict[str, Any]:
        """Return lists and strings."""
        return {
            "names": list(self.names),
            **{field: getattr(self, field).tolist() for field in _FIELDS},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Read what `to_plain` gave.

        Raises:
            SelectorError: A field is missing or of another length, or limits or rates are impossible.
        """
        names = tuple(str(name) for name in items(plain, "names"))
        columns: dict[str, Any] = {}
        for field, kind in _FIELDS.items():
            columns[field] = numbers(plain, field, (len(names),)).astype(kind)
        scale = columns["scale"]
        too_large = any((np.abs(column) > _MAX_VALUE).any() for column in columns.values())
        if too_large or ((scale > 0) & (scale < 1 / _MAX_VALUE)).any():
            raise SelectorError(
                "model file: a covariate is too large or too small to be computed with"
            )
        low, median, high = columns["low"], columns["median"], columns["high"]
        rate = columns["rate"][columns["flagged"]]
        if (low > median).any() or (median > high).any():
            raise SelectorError("model file: not every 'median' lies between its 'low' and 'high'")
        if (rate <= 0).any() or (rate >= 1).any():
            raise SelectorError("model file: a flagged 'rate' does not lie between 0 and 1")
        return cls(names=names, **columns)


def learn_preparation(
    x: npt.ArrayLike, names: Sequence[str] | None = None
) -> tuple[Preparation, tuple[str, ...]]:
    """Learn how to prepare covariates, shape (n, d); also return in words what will be done to them.

    The d names are for messages; by default they are ``x0``, ``x1``, ...
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
    for column, label in enumerate(labels):
        values = raw[known[:, column], column]
        if not len(values) or values.min() == values.max():
            reason = "never given" if not len(values) else "the same in all rows"
            notes.append(f"{label}: {reason}; left out")
            median[column] = low[column] = high[column] = values[0] if len(values) else 0.0
            continue
        median[column], low[column], high[column] = np.median(values), values.min(), values.max()
        if (values.max() - values.mean()) > _HEAVY_TAIL * values.std():
            logged[column] = True
            values = np.log1p(values - low[column])
            notes.append(f"{label}: heavy tail; its logarithm is used")
        mean[column], scale[column] = values.mean(), values.std()
        extreme = int((np.abs(values - mean[column]) > CLIP * scale[column]).sum())
        if extreme:
            notes.append(
                f"{label}: {extreme} of {count} values limited to {CLIP:g} standard deviations"
            )
    rate = np.isnan(raw).mean(axis=0) if count else np.zeros(width)
    for column in np.flatnonzero((rate > 0) & (scale > 0)).tolist():
        share = percent_text(rate[column])
        notes.append(f"{labels[column]}: none in {share} of rows; its median is used")
    flagged = (rate >= _MIN_FLAGGED) & (rate <= 1 - _MIN_FLAGGED) & (scale > 0)
    return Preparation(labels, median, low, high, logged, mean, scale, flagged, rate), tuple(notes)


def matrix(x: npt.ArrayLike, width: int | None) -> Floats:
    """Return covariates as floats of shape (n, d)."""
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
    """Return a field of plain data as an array; -1 in the shape takes any length."""
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


def rising(plain: Mapping[str, Any], field: str, shape: tuple[int, ...]) -> Floats:
    """Return a field of numbers of 0 or more, none below the one before it."""
    found = numbers(plain, field, shape)
    if (np.diff(found, prepend=0.0) < 0).any():
        raise SelectorError(f"model file: field {field!r} falls, or begins below 0")
    return found


def items(plain: Mapping[str, Any], field: str) -> list[Any]:
    """Return a list out of plain data; empty if it is missing."""
    found = plain.get(field, [])
    if not isinstance(found, list):
        raise SelectorError(f"model file: field {field!r} is no list")
    return found
