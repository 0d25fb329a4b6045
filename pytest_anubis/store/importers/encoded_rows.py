"""The good rows of an imported table as arrays, from `long_form` to `grouping`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pytest_anubis.core.sample import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRows:
    """The good rows of a table as arrays.

    Attributes:
        names: Text column (also the table's `TRAITS` and `DURATION`) -> its distinct names.
        codes: Text column -> shape (n,), the place of each row's name.
        values: Shape (n,); NaN if the cell is empty or NaN.
        missing: Shape (n,); True if the cell is empty.
        times: Shape (n,), seconds; None for a file without times.
        return_codes: Shape (n,); 0 is success.
        lines: Shape (n,), line of each row, from 1.
        unused: Other column -> its distinct cells, and the place of each row's cell, shape (n,), of columns
            with at most `MAX_WORDS` different ones.
        causes: Columns and cells that say that a test failed in another way than by a number.
        cause: Shape (n,), the place of each row's among `causes`; -1 without one.
        words: Line -> its cell in ``value``, of those that are no numbers.
        code_column: The name of the file's column of return codes.
    """

    names: Mapping[str, Sequence[str]]
    codes: Mapping[str, IntArray]
    values: FloatArray
    missing: np.ndarray[Any, np.dtype[np.bool_]]
    times: FloatArray | None
    return_codes: IntArray
    lines: IntArray
    unused: Mapping[str, tuple[Sequence[str], IntArray]] = field(default_factory=dict)
    causes: Sequence[tuple[str, str]] = ()
    cause: IntArray | None = None
    words: Mapping[int, str] = field(default_factory=dict)
    code_column: str = "return_code"

    def failure(self, row: int) -> tuple[str, str] | None:
        """Return column and cell that say that a row's test failed; None if its return code does."""
        place = -1 if self.cause is None else int(self.cause[row])
        return self.causes[place] if place >= 0 else None
