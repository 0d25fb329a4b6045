"""Group the rows of an imported table into populations, with arrays: a table may have millions of rows.

Marks units that failed, are invalid or are missing, counts lost cells, finds the dates, durations and traits
of runs, and splits a run of weeks by days. `table` and `superbench` call it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from pytest_anubis.codec.input_limits import LARGEST_DATA, POPULATION_BYTES, most_bytes, too_large
from pytest_anubis.core.gather import invalid_rows, other_variant
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, IntArray, Population, SampleProblem
from pytest_anubis.durations import seconds
from pytest_anubis.store.importers.import_result import ImportFileError
from pytest_anubis.store.importers.lost_cells import (
    MISSING,
    LostCells,
    UnitName,
    lost_of_rows,
)
from pytest_anubis.store.importers.table_columns import DURATION, TEXTS, TRAITS, EncodedRows

_KEY = ("class", "benchmark", "metric", "group")
_UNIT = ("node", "device", "run")
SAMPLE = (*_KEY, *_UNIT)
"""Columns whose names tell samples apart."""
_MOST_NUMBERED = 2**62
"""Possible combinations of names; with more those that occur are numbered anew."""

_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
"""Seconds since 1970. Earlier times count from another origin (30 years are longer than any measurement), or
are of a clock that was never set."""
_LATEST = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
"""Seconds since 1970. Later times are in milliseconds or finer, in which any day since March 1970 is."""

_DAY = 86400.0
"""Seconds that one run lasts at most."""
_MIN_PAUSE = 4 * 3600.0
"""Seconds without a row after which another run may have begun."""

MAX_EMPTY_SHARE = 0.02
"""Share of a node's values that may be empty, counted in units that have other values."""
HALF_EMPTY = SampleProblem(kind="missing", text="at least half of its values are empty")
EMPTY = SampleProblem(kind="missing", text="named in the results, but without a value")


@dataclass(frozen=True, slots=True)
class _Units:
    """The units under test, sorted by key and unit; all arrays have the shape (units,)."""

    key: IntArray
    node: IntArray
    device: IntArray
    run: IntArray
    count: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """The populations of a file's rows."""

    # Sorted by hardware class, benchmark, metric and group
    populations: tuple[Population, ...] = ()
    values: int = 0  # number of usable values
    lost: tuple[LostCells, ...] = ()  # the cells that no verdict can be based on, by cause
    # Node -> number of empty values in units that have others, if these are more than
    # `MAX_EMPTY_SHARE` of all
    empty: Mapping[str, int] = field(default_factory=dict)


def group_rows(
    rows: EncodedRows, *, keyed: bool = False, counted: Collection[UnitName] = ()
) -> Grouped:
    """Group rows into populations, sorted by hardware class, benchmark, metric and group.

    The values of one unit are in the order of their times, or of their lines without times. A failed return
    code gives the unit the problem ``failed``, never a value. A unit with at least half of its values empty
    has the problem ``missing``. Rows whose unit of measure or direction differs from most rows of their
    metric give the problem ``invalid``. If a node lacks a device that most nodes of its class report, it gets
    a row with the problem ``missing`` for that device.

    Args:
        rows: All good rows of a file.
        keyed: The file is one run of a suite, with a column for each metric: a node without any usual device
            lacks them all. For the rest as of `lost_of_rows`.
        counted: As of `lost_of_rows`.

    Raises:
        ImportFileError: There are more metrics than the limit of the memory allows.
    """
    if not len(rows.values):
        return Grouped()
    names, codes = sorted_names(rows)
    key, key_parts = combined(names, codes, _KEY)
    unit, unit_parts = combined(names, codes, _UNIT)
    most = most_bytes(LARGEST_DATA)
    if len(key_parts) * POPULATION_BYTES > most:
        raise ImportFileError(too_large(f"{len(key_parts):,} different metrics", most))
    whole = key * unit_parts.shape[0] + unit
    order = np.argsort(whole, kind="stable")
    if rows.times is not None:
        order = np.lexsort((rows.times, whole))
    whole = whole[order]
    starts = np.flatnonzero(np.concatenate([[True], whole[1:] != whole[:-1]]))
    key_of_row = key
    key, unit = key[order][starts], unit[order][starts]

    variant = codes["unit"] * len(names["better"]) + codes["better"]
    chosen = _majority(whole // unit_parts.shape[0], variant[order], key_parts.shape[0])
    others = variant != chosen[key_of_row]
    failures = rows.return_codes != 0
    other = others[order]
    failed = failures[order]
    keep = ~(other | failed | rows.missing[order])
    count = np.add.reduceat(keep.astype(np.int64), starts)
    node, device, run = unit_parts[unit].T
    units = _Units(key, node, device, run, count)

    marked: dict[int, SampleProblem] = {}
    where = np.cumsum(np.bincount(starts, minlength=len(whole))) - 1
    for row in np.flatnonzero(other).tolist():
        own, usual = variant[order[row]], chosen[units.key[where[row]]]
        marked[int(where[row])] = other_variant(
            (*_named_variant(names, own), 1), (*_named_variant(names, usual), 1)
        )
    for row in np.flatnonzero(failed).tolist():
        said = rows.failure(int(order[row]))
        code = int(rows.return_codes[order[row]])
        text = f"{said[0]} is {said[1]!r}" if said else f"return code {code}"
        marked[int(where[row])] = SampleProblem(kind="failed", text=text)
    empty = np.add.reduceat(rows.missing[order].astype(np.int64), starts)
    for row in np.flatnonzero((count > 0) & (empty >= count)).tolist():
        marked.setdefault(row, HALF_EMPTY)
    component = codes["component"][order][starts]
    populations = _cut(
        names, key_parts, units, rows.values[order][keep], marked, chosen, component, whole=keyed
    )
    metrics = [population.metric for population in populations]
    durations = np.array([metric.is_duration for metric in metrics], dtype=np.bool_)[key_of_row]
    values = rows.values
    impossible = ~np.isfinite(values) | (values < 0) | ((values == 0) & durations)
    left = ~(failures | rows.missing)
    lost = {
        "unit": left & others,
        "invalid": left & ~others & impossible,
        "failed": failures,
        "missing": rows.missing & ~failures,
    }
    return Grouped(
        populations=populations,
        values=int(keep.sum() - lost["invalid"].sum()),
        lost=lost_of_rows(
            rows, lost, metrics, key_of_row, populations, keyed=keyed, counted=counted
        ),
        empty=_empty_values(names["node"], node, count, empty),
    )


def _empty_values(
    names: Sequence[str], node: IntArray, count: IntArray, empty: IntArray
) -> dict[str, int]:
    """Return node -> empty values in units that have others, for nodes with too many of them.

    The arrays have the shape (units,): each unit's node by its place, its values, and its empty ones.
    """
    among_others = np.where(empty < count, empty, 0)  # with more the unit is missing as a whole
    lost = np.bincount(node, weights=among_others, minlength=len(names))
    every = np.bincount(node, weights=count + empty, minlength=len(names))
    too_many = np.flatnonzero(lost > MAX_EMPTY_SHARE * every)
    return {names[i]: int(lost[i]) for i in too_many.tolist()}


def sorted_names(
    rows: EncodedRows, columns: Sequence[str] = TEXTS
) -> tuple[dict[str, list[str]], dict[str, IntArray]]:
    """Number the names in columns in alphabetical order, so that numbers sort like names."""
    names: dict[str, list[str]] = {}
    codes: dict[str, IntArray] = {}
    for column in columns:
        distinct = sorted(set(rows.names[column]))
        place = {name: i for i, name in enumerate(distinct)}
        table = np.array([place[name] for name in rows.names[column]], dtype=np.int32)
        names[column] = distinct
        codes[column] = np.asarray(table[rows.codes[column]])
    return names, codes


def combined(
    names: Mapping[str, Sequence[str]], codes: Mapping[str, IntArray], columns: Sequence[str]
) -> tuple[IntArray, IntArray]:
    """Number the distinct combinations of names in columns, in order.

    Returns:
        The number of each row's combination, shape (n,), and the combinations, shape (k, columns).
    """
    number = np.zeros(len(codes[columns[0]]), dtype=np.int64)
    possible = 1
    for column in columns:
        size = len(names[column])
        if possible * size >= _MOST_NUMBERED:  # number those that occur
            distinct, number = np.unique(number, return_inverse=True)
            possible, number = len(distinct), number.astype(np.int64)
        number = number * size + codes[column]
        possible *= size
    _, first, dense = np.unique(number, return_index=True, return_inverse=True)
    return dense.astype(np.int64), np.stack([codes[column][first] for column in columns], axis=1)


def _majority(group: IntArray, variant: IntArray, groups: int) -> IntArray:
    """Return the most frequent variant of every group, shape (groups,); ties: the smaller number."""
    variants = int(variant.max()) + 1
    pairs, counts = np.unique(group * variants + variant, return_counts=True)
    of, which = np.divmod(pairs, variants)
    order = np.lexsort((-which, counts))
    chosen = np.zeros(groups, dtype=np.int64)
    chosen[of[order]] = which[order]  # the last one written wins
    return chosen


def _named_variant(names: Mapping[str, Sequence[str]], number: int) -> tuple[str, Any]:
    """Return the unit and the direction of a numbered pair of them."""
    unit, better = divmod(int(number), len(names["better"]))
    return names["unit"][unit], names["better"][better]


def _cut(
    names: Mapping[str, Sequence[str]],
    key_parts: IntArray,
    units: _Units,
    values: FloatArray,
    marked: dict[int, SampleProblem],
    chosen: IntArray,
    component: IntArray,
    *,
    whole: bool,
) -> tuple[Population, ...]:
    """Cut the sorted units into one population for each key, with rows for what units lack."""
    text = {column: np.array(names[column], dtype=object) for column in _UNIT}
    offsets = np.concatenate([[0], np.cumsum(units.count)]).astype(np.int64)
    marked = marked | invalid_rows(values, offsets, marked)
    marked |= {row: EMPTY for row in np.flatnonzero(units.count == 0).tolist() if row not in marked}
    by_row = sorted(marked)
    bounds = np.searchsorted(units.key, np.arange(len(key_parts) + 1))
    gaps = _gaps(key_parts, units, bounds, whole=whole)
    found = []
    for number, part in enumerate(key_parts.tolist()):
        first, last = bounds[number : number + 2].tolist()
        lacking = dict(zip(_UNIT, gaps[number], strict=True))
        of_unit = {
            column: tuple(
                text[column][np.concatenate([codes[first:last], lacking[column]])].tolist()
            )
            for column, codes in (
                ("node", units.node),
                ("device", units.device),
                ("run", units.run),
            )
        }
        more = len(lacking["node"])
        lo, hi = np.searchsorted(by_row, (first, last))
        problems = {row - first: marked[row] for row in by_row[lo:hi]}
        problems.update((last - first + i, MISSING) for i in range(more))
        unit, better = _named_variant(names, chosen[number])
        own = offsets[first : last + 1]
        found.append(
            Population(
                hardware_class=names["class"][part[0]],
                benchmark=names["benchmark"][part[1]],
                metric=Metric(name=names["metric"][part[2]], unit=unit, better=better),
                component=names["component"][int(component[first])],
                group=names["group"][part[3]],
                nodes=of_unit["node"],
                devices=of_unit["device"],
                runs=of_unit["run"],
                values=values[own[0] : own[-1]],
                offsets=np.asarray(np.concatenate([own, np.full(more, own[-1])]) - own[0]),
                problems=problems,
            )
        )
    return tuple(found)


def _gaps(
    key_parts: IntArray, units: _Units, bounds: IntArray, *, whole: bool
) -> list[tuple[IntArray, IntArray, IntArray]]:
    """Return nodes, devices and runs of the rows that each population lacks, since most nodes have them.

    A device that is not in one group of a metric is in another. A node that reports none of the usual devices
    was measured again for something else and lacks nothing, unless the file is `whole`, one run of a suite.
    """
    classes = key_parts[:, 0].tolist()
    nodes: dict[int, IntArray] = {}
    runs: dict[int, IntArray] = {}
    numbers, begin = np.unique(key_parts[units.key, 0], return_index=True)  # in order
    for number, lo, hi in zip(
        numbers.tolist(), begin.tolist(), [*begin[1:].tolist(), len(units.key)], strict=True
    ):
        nodes[number], first = np.unique(units.node[lo:hi], return_index=True)
        runs[number] = units.run[lo:hi][first]
    _, which, count = np.unique(key_parts[:, :3], axis=0, return_inverse=True, return_counts=True)
    grouped = count[which.ravel()] > 1
    usual = [
        _usual(units, slice(*bounds[number : number + 2].tolist()), nodes[of])
        for number, of in enumerate(classes)
    ]
    alike = {number: np.full(len(own), whole) for number, own in nodes.items()}
    for of, (_, there) in zip(classes, usual, strict=True):
        alike[of] |= there.any(axis=1)
    found = []
    for number, (of, (devices, there)) in enumerate(zip(classes, usual, strict=True)):
        lost = ~there & alike[of][:, None]
        if grouped[number] or len(nodes[of]) < 3:
            lost = lost[:0]
        node, column = np.nonzero(lost)
        found.append((nodes[of][node], devices[column], runs[of][node]))
    return found


def _usual(units: _Units, rows: slice, nodes: IntArray) -> tuple[IntArray, Any]:
    """Return the devices that most nodes have in a population, and which node has which of them."""
    devices, device = np.unique(units.device[rows], return_inverse=True)
    place = np.searchsorted(nodes, units.node[rows])
    pairs = np.stack(np.divmod(np.unique(device * len(nodes) + place), len(nodes)))
    # Few devices are on most nodes, whatever a file names: nodes times devices stays small.
    usual = np.flatnonzero(2 * np.bincount(pairs[0], minlength=len(devices)) > len(nodes))
    place = np.full(len(devices), -1)
    place[usual] = np.arange(len(usual))
    there = np.zeros((len(nodes), len(usual)), dtype=bool)
    kept = pairs[:, place[pairs[0]] >= 0]
    there[kept[1], place[kept[0]]] = True
    return devices[usual], there


def run_of_each_day(rows: EncodedRows) -> EncodedRows:
    """Split the one run of a table with times into a run for each day on which a node was measured.

    Only nodes with a unit whose times are more than a day apart are split: in a run of weeks, yesterday's
    loss would be invisible. A run that continues after midnight stays one, up to the length of a day.
    """
    if not _has_moments(rows) or len(set(rows.names["run"])) > 1:
        return rows
    names, codes = sorted_names(rows)
    unit, _ = combined(names, codes, SAMPLE)
    times = np.asarray(rows.times)
    node = codes["node"]
    timed = ~np.isnan(times)
    first, last = _spans(unit, times)
    apart = np.isin(node, node[(last - first > _DAY)[unit]])
    where = np.flatnonzero(timed & apart)
    if not len(where):
        return rows
    where = where[np.lexsort((times[where], node[where]))]
    times, node = times[where], node[where]
    begins = np.concatenate([[True], (np.diff(node) != 0) | (np.diff(times) > _MIN_PAUSE)])
    begun = times[begins][np.cumsum(begins) - 1]
    begun = np.where(times - begun < _DAY, begun, times)
    days, day = np.unique(begun // _DAY, return_inverse=True)
    known = rows.names["run"]
    run = rows.codes["run"].copy()
    run[where] = len(known) + day.ravel()
    dated = [f"{known[0]}.{_shown(one * _DAY)[:10]}" for one in days.tolist()]
    return replace(
        rows, names={**rows.names, "run": (*known, *dated)}, codes={**rows.codes, "run": run}
    )


def _has_moments(rows: EncodedRows) -> bool:
    """Return whether all times of the rows are moments; if one is not, the column counts something else."""
    if rows.times is None or np.isnan(rows.times).all():
        return False
    return bool(np.nanmin(rows.times) >= _EARLIEST and np.nanmax(rows.times) < _LATEST)


def row_dates(rows: EncodedRows) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (run, node) -> the earliest and the latest moment of its rows, ISO 8601, UTC.

    It is empty unless all times of the column are moments, and lacks runs without times.
    """
    if rows.times is None or not _has_moments(rows):
        return {}
    names, codes = sorted_names(rows, ("run", "node"))
    timed = ~np.isnan(rows.times)
    codes = {column: numbers[timed] for column, numbers in codes.items()}
    unit, pairs = combined(names, codes, ("run", "node"))
    first, last = _spans(unit, rows.times[timed])
    return {
        (names["run"][run], names["node"][node]): (_shown(begin), _shown(end))
        for (run, node), begin, end in zip(
            pairs.tolist(), first.tolist(), last.tolist(), strict=True
        )
    }


def _spans(group: IntArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the earliest and the latest time of each group, which are infinite without any."""
    timed = ~np.isnan(times)
    first = np.full(int(group.max()) + 1, np.inf)
    last = -first
    np.minimum.at(first, group[timed], times[timed])
    np.maximum.at(last, group[timed], times[timed])
    return first, last


def row_traits(rows: EncodedRows) -> dict[tuple[str, str], dict[str, str]]:
    """Return (run, node) -> name of a trait -> its value in the rows."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for name in (one for one in TRAITS if one in rows.codes):
        codes = np.stack([rows.codes["run"], rows.codes["node"], rows.codes[name]])
        for run, node, code in np.unique(codes, axis=1).T.tolist():
            if text := rows.names[name][code]:
                key = rows.names["run"][run], rows.names["node"][node]
                found.setdefault(key, {})[name] = text
    return found


def row_durations(rows: EncodedRows) -> tuple[dict[tuple[str, str], dict[str, float]], list[str]]:
    """Return (run, node) -> benchmark -> the longest duration of its rows in seconds, and invalid cells."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    if DURATION not in rows.codes:
        return found, []
    took = []
    wrong = []
    for text in rows.names[DURATION]:
        try:
            took.append(seconds(text) if text else 0.0)
        except ValueError:
            took.append(0.0)
            wrong.append(text)
    columns = ("run", "node", "benchmark", DURATION)
    codes = np.stack([rows.codes[name] for name in columns])
    for run, node, benchmark, code in np.unique(codes, axis=1).T.tolist():
        if took[code] > 0:
            own = found.setdefault((rows.names["run"][run], rows.names["node"][node]), {})
            name = rows.names["benchmark"][benchmark]
            own[name] = max(took[code], own.get(name, 0.0))
    return found, wrong


def _shown(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
