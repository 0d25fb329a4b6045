"""The columns of imported tables, rules for the names in them, and the good rows of a table as arrays.

`long_form`, `table` and `grouping` use it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pytest_anubis.codec.encodable_text import LONE
from pytest_anubis.core.metric import DIRECTIONS
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.store.importers.import_result import UNCLASSIFIED

NEEDED = ("node", "benchmark", "metric", "unit", "better")
# Columns that may be absent or empty -> default.
OPTIONAL = {"device": "node", "class": UNCLASSIFIED, "group": "", "component": "", "run": ""}
TEXTS = (*NEEDED, *OPTIONAL)
TRAITS = ("driver", "firmware", "bios", "kernel", "batch", "rack", "serial")
"""Columns with properties of a node at the time of its run; slow nodes may share one."""
DURATION = "duration"
"""Column with the duration of the row's benchmark on its node, in seconds or with a unit."""
NUMBERS = ("value", "time", "return_code")
PLACE, PROBLEM = "number", "problem"
"""Columns that only a table which came from ``anubis export`` has: a value's place in its sample, and why
nothing may be learned from it."""

_CODES = frozenset(("returncode", "rc", "exitcode", "exitstatus", "retcode", "retval", "exit"))

MAX_NAME_LENGTH = 1000
"""Characters of a name. SuperBench's metrics contain all arguments of a function, some three hundred."""

_DEVICE = re.compile(r"(?<![^>])([A-Za-z]+):([0-9]{1,9})(?![^>])")
"""Kind and number of a device, alone or in a pair."""
_SUMMARIES = frozenset((
    "mean", "average", "avg", "median", "min", "minimum", "max", "maximum", "std", "stdev", "stddev", "sd",
    "standarddeviation", "variance", "var", "total", "sum", "count", "overall", "grandtotal", "geomean",
    "mittelwert", "durchschnitt", "summe", "gesamt", "25%", "50%", "75%",
))  # fmt: skip
"""What spreadsheets and pandas write below the nodes' rows, in small letters without marks."""
FILLED = ("unit", "better", "component")
"""Columns that a metric map fills where they are empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRows:
    """The good rows of a table as arrays."""

    # Text column (also the table's `TRAITS` and `DURATION`) -> its distinct names
    names: Mapping[str, Sequence[str]]
    codes: Mapping[str, IntArray]  # text column -> shape (n,), the place of each row's name
    values: FloatArray  # shape (n,); NaN if the cell is empty or NaN
    missing: np.ndarray[Any, np.dtype[np.bool_]]  # shape (n,); True if the cell is empty
    times: FloatArray | None  # shape (n,), seconds; None for a file without times
    return_codes: IntArray  # shape (n,); 0 is success
    lines: IntArray  # shape (n,), line of each row, from 1
    # Other column -> its distinct cells, and the place of each row's cell, shape (n,), of columns
    # with at most `MAX_WORDS` different ones
    unused: Mapping[str, tuple[Sequence[str], IntArray]] = field(default_factory=dict)
    # Columns and cells that say that a test failed in another way than by a number
    causes: Sequence[tuple[str, str]] = ()
    # Shape (n,), the place of each row's among `causes`; -1 without one
    cause: IntArray | None = None
    # Line -> its cell in ``value``, of those that are no numbers
    words: Mapping[int, str] = field(default_factory=dict)
    code_column: str = "return_code"  # the name of the file's column of return codes

    def failure(self, row: int) -> tuple[str, str] | None:
        """Return column and cell that say that a row's test failed; None if its return code does."""
        place = -1 if self.cause is None else int(self.cause[row])
        return self.causes[place] if place >= 0 else None


def device_name(name: str) -> str:
    """Return the normal form of a device's label: ``CUDA:02`` becomes ``cuda:2``; others do not change."""
    return _DEVICE.sub(lambda found: f"{found[1].lower()}:{int(found[2])}", name)


def summaries(nodes: Collection[str]) -> set[str]:
    """Return the names of nodes that rather name a summary of the others, such as ``Mean``.

    If there are no others, they are nodes.
    """
    found = {name for name in nodes if re.sub(r"[^\w%]|_", "", name.lower()) in _SUMMARIES}
    return found if found != {name for name in nodes if name} else set()


def is_register(columns: Sequence[str]) -> bool:
    """Return whether a table has properties of nodes and no results."""
    results = {"benchmark", "metric", "value"}
    return "node" in columns and results.isdisjoint(columns) and not set(TRAITS).isdisjoint(columns)


def column_name(name: str) -> str:
    """Return the normal form of a column's name."""
    name = name.strip().lower()
    return "return_code" if re.sub(r"[ _.-]", "", name) in _CODES else name


def complaint_about(column: str, name: str) -> tuple[str, str] | None:
    """Return the error in a name, as a message and as a cause; None if it is good."""
    if column in NEEDED and not name:
        more = ", and no metric map knows the metric (--map FILE)" if column in FILLED else ""
        more += "; counts of faults have the unit 'errors'" if column == "unit" else ""
        return f"column {column} is empty{more}", f"{column} is empty"
    if LONE.search(name):
        read = name[:40].encode("utf-8", "surrogateescape")
        return (
            f"column {column}: {read!r} is not UTF-8: save the file as that",
            f"{column} is not UTF-8",
        )
    if not name.isprintable() or len(name) > MAX_NAME_LENGTH:
        cause = f"{column} is unprintable or longer than {MAX_NAME_LENGTH} characters"
        return (
            f"column {column}: {name[:40]!r} is unprintable or longer than {MAX_NAME_LENGTH} characters",
            cause,
        )
    if column == "better" and name not in DIRECTIONS:
        known = ", ".join(DIRECTIONS)
        return f"column better: {name[:40]!r} is none of {known}", f"better is none of {known}"
    return None
