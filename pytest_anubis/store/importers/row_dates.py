"""When the runs of a table were made: what its column of times tells, if it holds moments at all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from pytest_anubis.store.importers.long_form import Rows

_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
"""Seconds since 1970. What lies before is a count of seconds from somewhere else (30 years are longer than
any measurement), or of a clock that was never set."""
_LATEST = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
"""Seconds since 1970. What lies behind is in milliseconds or finer: those of any day since 1975."""

Dates = Mapping[tuple[str, str], tuple[str, str]]


def row_dates(rows: Rows) -> Dates:
    """Return (run, node) -> the earliest and the latest moment of its rows, ISO 8601, UTC.

    One time in the column that is no moment, and none of them is taken for one: the column counts something
    else then. Runs of nodes whose rows have no time are left out.
    """
    if rows.times is None:
        return {}
    told = ~np.isnan(rows.times)
    times = rows.times[told]
    if not len(times) or times.min() < _EARLIEST or times.max() >= _LATEST:
        return {}
    runs, nodes = rows.codes["run"][told], rows.codes["node"][told]
    pairs, unit = np.unique(np.stack([runs, nodes], axis=1), axis=0, return_inverse=True)
    unit = unit.ravel()  # numpy 2.0 gives it a second axis
    first, last = np.full(len(pairs), np.inf), np.full(len(pairs), -np.inf)
    np.minimum.at(first, unit, times)
    np.maximum.at(last, unit, times)
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for (run, node), begin, end in zip(pairs.tolist(), first.tolist(), last.tolist(), strict=True):
        key = rows.names["run"][run], rows.names["node"][node]  # ' n1' and 'n1' are one name
        known = found.get(key, (begin, end))
        found[key] = min(begin, known[0]), max(end, known[1])
    return {key: (_shown(begin), _shown(end)) for key, (begin, end) in found.items()}


def _shown(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
