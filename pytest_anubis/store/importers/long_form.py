"""Check and encode rows of a table in long form, one row a value, as arrays that `grouping` takes.

Millions of rows pass through here, so a row is never an object: every column is an array of numbers, and only
distinct names are checked one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_anubis.codec.encodable_text import LONE
from pytest_anubis.codec.input_limits import LARGEST_DATA, ROW_BYTES, most_bytes, too_large
from pytest_anubis.core.metric import EXACT
from pytest_anubis.core.sample import FloatArray, IntArray
from pytest_anubis.store.importers.import_result import ImportFileError, WrongLines
from pytest_anubis.store.importers.metric_map import MetricMap
from pytest_anubis.store.importers.number_cells import (
    DECIMAL_COMMA,
    all_plain,
    is_marked,
    is_nothing,
    moment_of,
    no_moment,
    no_number,
    number_of,
)
from pytest_anubis.store.importers.outcome_columns import (
    MAX_WORDS,
    STATES,
    code_said,
    failed_remarks,
    outcomes,
)
from pytest_anubis.store.importers.table_columns import (
    DURATION,
    FILLED,
    MAX_NAME_LENGTH,
    NEEDED,
    NUMBERS,
    OPTIONAL,
    PLACE,
    PROBLEM,
    TEXTS,
    TRAITS,
    column_name,
    complaint_about,
    device_name,
    is_register,
)
from pytest_anubis.store.namesakes import kept_names
from pytest_anubis.tool_outputs.table_heads import melted, missing

_DOUBTFUL = (
    "value has a point where others have a decimal comma: it may part thousands; write points alone"
)
_TOO_LONG = (
    "value of an exact metric is 2**53 or more and loses its last digits; record its low 32 bits"
)


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
    """

    names: Mapping[str, Sequence[str]]
    codes: Mapping[str, IntArray]
    values: FloatArray
    missing: np.ndarray[Any, np.dtype[np.bool_]]
    times: FloatArray | None
    return_codes: IntArray
    lines: IntArray


class _Numbers(dict[Any, int]):
    """A table that gives every new name the next number, at the speed of a dictionary look-up."""

    def __missing__(self, name: Any) -> int:
        self[name] = number = len(self)
        return number


class LongForm:
    """An encoder that takes chunks of rows and returns the good ones.

    Args:
        columns: The names of the file's columns, in any order.
        wrong: Gets wrong lines.
        hardware_class: The class of rows that name none.
        run: The run of rows that name none.
        node: The node of rows that name none; empty: rows must name one.
        known: Units, directions and components for rows without them.
        separator: Character between the file's columns; empty for a file without one.

    Attributes:
        exported: The file came from ``anubis export``, and something else has changed it since.

    Raises:
        ImportFileError: A needed column is missing, or one occurs twice.
    """

    def __init__(
        self,
        columns: Sequence[str],
        wrong: WrongLines,
        *,
        hardware_class: str,
        run: str,
        node: str = "",
        known: MetricMap | None = None,
        separator: str = "",
    ) -> None:
        self._separator = separator
        self.columns = [column_name(str(name)) for name in columns]
        self._wrong = wrong
        self._defaults = OPTIONAL | {"class": hardware_class, "run": run, "node": node}
        self._known = known
        for name in (*NEEDED, "value"):
            filled = (known is not None and name in FILLED) or (node and name == "node")
            if name not in self.columns and not filled:
                if is_register(self.columns):
                    raise ImportFileError(
                        "a table of nodes without results: it goes with 'anubis judge --nodes-file FILE'"
                    )
                raise ImportFileError(
                    f"{missing(self.columns, separator, name)}; needed are "
                    f"{', '.join((*NEEDED, 'value'))}: one row a value, not one column a metric "
                    f"({melted(self.columns)})"
                )
        for name in (*TEXTS, *NUMBERS, *STATES):
            if self.columns.count(name) > 1:
                raise ImportFileError(f"column {name!r} occurs twice; keep one")
        self._traits = [name for name in (*TRAITS, DURATION) if name in self.columns]
        self.exported = {PLACE, PROBLEM, "version"} <= {*self.columns}
        own = (PLACE, PROBLEM) if self.exported else ()
        used = (*TEXTS, *NUMBERS, *self._traits, *own)  # `rows` adds columns of outcomes
        self.unused = [name for name in self.columns if name not in used]
        self._words = {name: _Numbers() for name in self.unused}  # possible words of outcomes
        self._names = {name: _Numbers() for name in (*TEXTS, *self._traits)}
        self._nodes: list[Any] = []  # all names, after reading
        self._chunks: list[dict[str, Any]] = []
        self._rows = 0
        self._has_times = "time" in self.columns

    def add(self, lines: Sequence[int], columns: Sequence[Sequence[Any]]) -> None:
        """Add one chunk.

        Args:
            lines: Length n, the number of each row's line.
            columns: One sequence of length n per column, in the order given to the constructor.

        Raises:
            ImportFileError: There are more rows than may be read.
        """
        by_name = dict(zip(self.columns, columns, strict=True))
        count = len(lines)
        if not count:
            return
        self._rows += count
        check_rows(self._rows)
        chunk: dict[str, Any] = {"line": np.asarray(lines, dtype=np.int64)}
        for name in (*TEXTS, *self._traits):
            numbers = self._names[name]
            if name in by_name:
                codes = map(numbers.__getitem__, by_name[name])
                chunk[name] = np.fromiter(codes, dtype=np.int32, count=count)
            else:
                chunk[name] = np.full(count, numbers[self._defaults.get(name, "")], dtype=np.int32)
        good = np.ones(count, dtype=bool)
        nodes = by_name.get("node") or [self._defaults["node"]] * count
        where = _Where(lines, nodes)
        values, missing = self._numbers(by_name["value"], "value", where, good)
        chunk["value"] = values
        chunk["missing"] = missing
        chunk["return_code"] = np.zeros(count, dtype=np.int64)
        if "return_code" in by_name:
            found, empty = self._numbers(by_name["return_code"], "return_code", where, good)
            chunk["no code"] = np.isnan(found)
            chunk["empty code"] = empty
            found = np.nan_to_num(found, posinf=-1.0, neginf=-1.0)
            found = np.where((found == 0) | (np.abs(found) >= 1), found, -1.0)  # a fraction
            chunk["return_code"] = np.clip(np.rint(found), -(2**31), 2**31).astype(np.int64)
        for name, words in list(self._words.items()):
            codes = map(words.__getitem__, by_name[name])
            size = "i4" if name in STATES else "i2"
            chunk[f"word of {name}"] = np.fromiter(codes, dtype=size, count=count)
            if len(words) > MAX_WORDS and name not in STATES:
                del self._words[name]
        if self._separator not in ("", ","):
            points = ("." in cell for cell in by_name["value"])
            chunk["point"] = np.fromiter(points, dtype=bool, count=count)
        if self._has_times:
            chunk["time"], _ = self._numbers(by_name["time"], "time", where, good)
        if self.exported:
            self._leave_out_problems(by_name[PROBLEM], where, good)
        chunk["good"] = good
        self._chunks.append(chunk)

    def _leave_out_problems(self, column: Sequence[Any], where: _Where, good: Any) -> None:
        """List the rows of an exported table that nothing may be learned from."""
        for i, text in enumerate(column):
            if text and good[i]:
                said = f"{where.node(i)}column {PROBLEM}: {str(text)[:40]!r}"
                cause = "exported with a problem"
                self._wrong.add(where.lines[i], said, cause, str(where.nodes[i] or "").strip())
                good[i] = False

    def rows(self) -> EncodedRows:
        """Return all good rows; every line with an unusable name is listed as wrong."""
        kinds = tuple(self._chunks[-1]) if self._chunks else ()
        joined = {key: np.concatenate([c.pop(key) for c in self._chunks]) for key in kinds}
        self._chunks.clear()
        if not joined:
            empty = np.empty(0, dtype=np.int64)
            return EncodedRows(
                names=dict.fromkeys(TEXTS, ()),
                codes=dict.fromkeys(TEXTS, empty),
                values=np.empty(0),
                missing=np.empty(0, dtype=bool),
                times=None,
                return_codes=empty,
                lines=empty,
            )
        good = joined["good"]
        self._nodes = list(self._names["node"])
        if "point" in joined and self._wrong.causes[f"value {DECIMAL_COMMA}"]:
            doubtful = joined["point"] & good & ~np.isnan(joined["value"])
            for row in np.flatnonzero(doubtful).tolist():
                self._say(joined, row, _DOUBTFUL, _DOUBTFUL)
            good &= ~doubtful
        if "no code" in joined:
            unknown = joined["no code"]
            if not (joined["return_code"][~unknown] == 0).any():  # only failures have a code
                unknown = unknown & ~joined["empty code"]
            for row in np.flatnonzero(unknown).tolist():
                self._say(joined, row, "column return_code says no code", "return_code is unknown")
        for name, words in self._words.items():
            cells = list(words)
            places = joined[f"word of {name}"]
            found = outcomes(name, cells, np.bincount(places, minlength=len(cells)).tolist())
            if found is None:
                bad, said = failed_remarks(name, cells), "reports a failure"
            else:
                self.unused.remove(name)
                joined["return_code"][np.isin(places, found.failed)] = -1
                bad, said = found.unknown, "is neither PASS nor FAIL"
            for row in np.flatnonzero(np.isin(places, bad)).tolist():
                text = f"column {name}: {str(cells[places[row]])[:40]!r} {said}"
                self._say(joined, row, text, f"{name} {said}")
        if self._known is not None:
            self._fill(joined, self._known)
        exact = np.array([str(name or "").strip() == "equal" for name in self._names["better"]])
        long = (
            exact[joined["better"]]
            & (joined["value"] >= EXACT)
            & (joined["value"] < math.inf)
            & good
        )
        for row in np.flatnonzero(long).tolist():
            self._say(joined, row, _TOO_LONG, _TOO_LONG)
        good &= ~long
        names: dict[str, list[str]] = {}
        for name in TEXTS:
            names[name] = self._check_names(name, joined, good)
        kept = kept_names(names["node"])  # else each name would lack the other's devices
        names["node"] = [kept.get(name, name) for name in names["node"]]
        for name in self._traits:
            texts = ("" if raw is None else str(raw).strip() for raw in self._names[name])
            names[name] = ["" if LONE.search(text) else text[:MAX_NAME_LENGTH] for text in texts]
        return EncodedRows(
            names=names,
            codes={name: joined[name][good] for name in names},
            values=joined["value"][good],
            missing=joined["missing"][good],
            times=joined["time"][good] if self._has_times else None,
            return_codes=joined["return_code"][good],
            lines=joined["line"][good],
        )

    def _fill(self, joined: dict[str, Any], known: MetricMap) -> None:
        """Fill empty units, directions and components from a metric map."""
        empty = {
            column: np.array([not str(name or "").strip() for name in self._names[column]])[
                joined[column]
            ]
            for column in FILLED
        }
        rows = np.flatnonzero(np.logical_or.reduce(list(empty.values())))
        if not len(rows):
            return
        benchmarks = list(self._names["benchmark"])
        metrics = list(self._names["metric"])
        pairs = joined["benchmark"][rows].astype(np.int64) * len(metrics) + joined["metric"][rows]
        distinct, which = np.unique(pairs, return_inverse=True)
        rules = [
            known.find(str(benchmarks[b] or "").strip(), str(metrics[m] or "").strip())
            for b, m in (divmod(pair, len(metrics)) for pair in distinct.tolist())
        ]
        for column in FILLED:
            numbers = self._names[column]
            codes = np.array(
                [-1 if rule is None else numbers[getattr(rule, column)] for rule in rules]
            )[which]
            fill = (codes >= 0) & empty[column][rows]
            joined[column][rows[fill]] = codes[fill]

    def _check_names(self, column: str, joined: Mapping[str, Any], good: Any) -> list[str]:
        names: list[str] = []
        complaints: dict[int, tuple[str, str]] = {}
        for code, raw in enumerate(self._names[column]):
            name = "" if raw is None else str(raw).strip()
            if column == "device":
                name = device_name(name)
            if not name and column in self._defaults:
                name = self._defaults[column]
            complaint = complaint_about(column, name)
            if complaint is not None:
                complaints[code] = complaint
            names.append(name)
        if complaints:
            bad = np.zeros(len(names), dtype=bool)
            bad[list(complaints)] = True
            wrong = bad[joined[column]]
            for row in np.flatnonzero(wrong & good).tolist():
                self._say(joined, row, *complaints[int(joined[column][row])])
            good[wrong] = False
        return names

    def _say(self, joined: Mapping[str, Any], row: int, text: str, cause: str) -> None:
        """List a row as wrong after reading."""
        node = str(self._nodes[int(joined["node"][row])] or self._defaults["node"]).strip()
        self._wrong.add(int(joined["line"][row]), f"{_node_words(node)}{text}", cause, node)

    def _numbers(
        self, column: Sequence[Any], name: str, where: _Where, good: Any
    ) -> tuple[FloatArray, Any]:
        missing = np.zeros(len(column), dtype=bool)
        try:
            if all_plain(column):
                return np.array(list(map(float, column)), dtype=np.float64), missing
        except (TypeError, ValueError, OverflowError):
            pass  # the slow way finds the cell
        found = np.full(len(column), math.nan)
        for i, item in enumerate(column):
            if item is None or (isinstance(item, str) and is_nothing(item, name)):
                missing[i] = True
                continue
            try:
                found[i] = moment_of(item) if name == "time" else number_of(item)
            except (TypeError, ValueError, OverflowError):
                if name == "return_code":
                    found[i] = code_said(str(item))
                    continue
                if good[i]:  # a row is listed once
                    said = no_number(item, self._separator) if name != "time" else no_moment(item)
                    why = f"{name} {said}"
                    text = f"{where.node(i)}column {name}: {str(item)[:40]!r} {said}"
                    self._wrong.add(where.lines[i], text, why, str(where.nodes[i] or "").strip())
                # A word instead of a value is kept as an invalid result, a number with marks is not.
                good[i] &= name == "value" and not is_marked(item)
        return found, missing


def check_rows(count: int) -> None:
    """Check that a number of rows may be read.

    Raises:
        ImportFileError: There are too many.
    """
    most = most_bytes(LARGEST_DATA)
    if count * ROW_BYTES > most:
        raise ImportFileError(
            too_large(f"{most // ROW_BYTES:,} rows of {ROW_BYTES} bytes and more", most)
        )


@dataclass(frozen=True, slots=True)
class _Where:
    """The lines and nodes of the rows of a chunk."""

    lines: Sequence[int]
    nodes: Sequence[Any]

    def node(self, row: int) -> str:
        return _node_words(self.nodes[row])


def _node_words(node: Any) -> str:
    """Return a node's name as the beginning of a message; empty if it cannot be shown."""
    name = str(node or "").strip()[:40]
    return f"node {name}, " if name.isprintable() and name else ""
