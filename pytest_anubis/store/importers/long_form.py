"""Check and encode rows of a table in long form, one row a value, as arrays that `grouping` takes.

Millions of rows pass through here, so a row is never an object: every column is an array of numbers, and only
distinct names are checked one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pytest_anubis.codec.encodable_text import LONE
from pytest_anubis.codec.input_limits import LARGEST_DATA, ROW_BYTES, most_bytes, too_large
from pytest_anubis.core.metric import EXACT
from pytest_anubis.core.sample import FloatArray
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
    failed_remarks,
    outcomes,
    return_code,
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
    EncodedRows,
    column_name,
    complaint_about,
    device_name,
    is_register,
    summaries,
)
from pytest_anubis.store.namesakes import kept_names
from pytest_anubis.tool_outputs.table_heads import melted, missing

_DOUBTFUL = (
    "value has a point where others have a decimal comma: it may part thousands; write points alone"
)
_TOO_LONG = (
    "value of an exact metric is 2**53 or more and loses its last digits; record its low 32 bits"
)


_MAX_QUOTED = 10_000
"""Values that are no numbers and are kept to be quoted."""


class _Numbers(dict[Any, int]):
    """A table that gives every new name the next number, at the speed of a dictionary look-up."""

    def __missing__(self, name: Any) -> int:
        self[name] = number = len(self)
        return number

    def of(self, names: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Return the numbers of names."""
        return np.fromiter(map(self.__getitem__, names), dtype=np.int32, count=len(names))


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
        kept: Name of a node -> the name that is used instead, after `rows`: one host has several.

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
        self._spelled = {column_name(str(name)): _shown(name) for name in columns}
        self.kept: dict[str, str] = {}
        self._odd_values: dict[int, str] = {}  # line -> its cell
        self._codes = _Numbers()  # cells of return codes
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
                chunk[name] = numbers.of(by_name[name])
            else:
                chunk[name] = np.full(count, numbers[self._defaults.get(name, "")], dtype=np.int32)
        good = np.ones(count, dtype=bool)
        nodes = by_name.get("node") or [self._defaults["node"]] * count
        where = list(zip(lines, nodes, strict=True))
        values, missing = self._numbers(by_name["value"], "value", where, good)
        chunk["value"] = values
        chunk["missing"] = missing
        if "return_code" in by_name:
            chunk["return_code"] = self._codes.of(by_name["return_code"])
        for name, words in list(self._words.items()):
            size = "i4" if name in STATES else "i2"
            chunk[f"word of {name}"] = words.of(by_name[name]).astype(size)
            if len(words) > MAX_WORDS and name not in STATES:
                del self._words[name]
        if self._separator not in ("", ","):
            points = ("." in cell for cell in by_name["value"])
            chunk["point"] = np.fromiter(points, dtype=bool, count=count)
        if self._has_times:
            chunk["time"], _ = self._numbers(by_name["time"], "time", where, good)
        for i, text in enumerate(by_name[PROBLEM] if self.exported else ()):
            if text and good[i]:  # nothing may be learned from it
                said = f"column {PROBLEM}: {str(text)[:40]!r}"
                self._list(*where[i], said, "exported with a problem")
                good[i] = False
        chunk["good"] = good
        self._chunks.append(chunk)

    def rows(self) -> EncodedRows:
        """Return all good rows; every line with an unusable name is listed as wrong."""
        joined = self._joined()
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
        if "point" in joined and self._wrong.causes[f"value {DECIMAL_COMMA}"]:
            doubtful = joined["point"] & good & ~np.isnan(joined["value"])
            for row in np.flatnonzero(doubtful).tolist():
                self._say(joined, row, _DOUBTFUL, _DOUBTFUL)
            good &= ~doubtful
        causes: list[tuple[str, str]] = []
        cause = self._read_codes(joined, causes)
        for name, words in self._words.items():
            cells = list(words)
            places = joined[f"word of {name}"]
            found = outcomes(name, cells, np.bincount(places, minlength=len(cells)).tolist())
            if found is None:
                bad, said = failed_remarks(name, cells), "reports a failure"
            else:
                self.unused.remove(name)
                failed = np.isin(places, found.failed)
                failed &= joined["return_code"] == 0
                joined["return_code"][failed] = -1
                cause[failed] = len(causes) + np.searchsorted(found.failed, places[failed])
                causes += [(self._spelled[name], _shown(cells[place])) for place in found.failed]
                bad, said = found.unknown, "is neither PASS nor FAIL"
            for row in np.flatnonzero(np.isin(places, bad)).tolist():
                text = f"column {self._spelled[name]}: {str(cells[places[row]])[:40]!r} {said}"
                self._say(joined, row, text, f"{name} {said}")
        if self._known is not None:
            self._fill(joined, self._known)
        exact = np.array([str(name or "").strip() == "equal" for name in self._names["better"]])
        value = joined["value"]
        long = good & exact[joined["better"]] & (value >= EXACT) & (value < math.inf)
        for row in np.flatnonzero(long).tolist():
            self._say(joined, row, _TOO_LONG, _TOO_LONG)
        good &= ~long
        names: dict[str, list[str]] = {}
        for name in TEXTS:
            names[name] = self._check_names(name, joined, good)
        # Else each name would lack the other's devices.
        self.kept = kept_names({*names["node"], *self._wrong.nodes} - {""})
        names["node"] = [self.kept.get(name, name) for name in names["node"]]
        self._wrong.rename(self.kept)
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
            unused={
                name: (list(map(_shown, words)), joined[f"word of {name}"][good])
                for name, words in self._words.items()
                if name in self.unused
            },
            causes=causes,
            cause=cause[good] if causes else None,
            words=self._odd_values,
            code_column=self._spelled.get("return_code", "return_code"),
        )

    def _joined(self) -> dict[str, Any]:
        """Return column -> all of its cells, without the rows that summarise others, which are listed."""
        kinds = tuple(self._chunks[-1]) if self._chunks else ()
        joined = {key: np.concatenate([c.pop(key) for c in self._chunks]) for key in kinds}
        self._chunks.clear()
        self._nodes = list(self._names["node"])
        nodes = ["" if name is None else str(name).strip() for name in self._nodes]
        if joined and (found := summaries({*nodes})):
            of_summary = np.array([name in found for name in nodes])[joined["node"]]
            for row in np.flatnonzero(of_summary & joined["good"]).tolist():
                named = nodes[int(joined["node"][row])][:40]
                text = f"{named!r} summarises the rows of nodes and is none: leave it out"
                self._wrong.add(int(joined["line"][row]), text, "a summary, not a node")
            self._wrong.rename(dict.fromkeys(found, ""))
            joined = {key: column[~of_summary] for key, column in joined.items()}
        return joined if joined and len(joined["line"]) else {}

    def _read_codes(self, joined: dict[str, Any], causes: list[tuple[str, str]]) -> Any:
        """Replace the cells of return codes by these, and list rows without one.

        Returns:
            Each row's place among the causes, to which codes in words are added; -1 without one.
        """
        if "return_code" not in joined:
            joined["return_code"] = np.zeros(len(joined["line"]), dtype=np.int64)
            return np.full(len(joined["line"]), -1, dtype=np.int32)
        column = self._spelled["return_code"]
        cells = list(map(_shown, self._codes))
        read = list(map(return_code, self._codes))
        codes = np.array([code for code, _ in read])
        cause = np.full(len(cells), -1, dtype=np.int32)
        for place, (code, in_words) in enumerate(read):
            if in_words and code and not math.isnan(code):
                cause[place] = len(causes)
                causes.append((column, cells[place]))
        rows = joined["return_code"]
        joined["return_code"] = np.nan_to_num(codes)[rows].astype(np.int64)
        unknown = np.isnan(codes)[rows]
        if not (joined["return_code"][~unknown] == 0).any():  # only failures have a code
            unknown &= np.array([cell != "" for cell in cells])[rows]
        for row in np.flatnonzero(unknown).tolist():
            self._say(joined, row, f"column {column} says no code", "return_code is unknown")
        return cause[rows]

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
        node = self._nodes[int(joined["node"][row])] or self._defaults["node"]
        self._list(int(joined["line"][row]), node, text, cause)

    def _list(self, line: int, node: Any, text: str, cause: str) -> None:
        """List a line as wrong, with the name of its node if it can be shown."""
        name = str(node or "").strip()
        shown = name[:40]
        about = f"node {shown}, " if shown.isprintable() and shown else ""
        self._wrong.add(line, f"{about}{text}", cause, name)

    def _numbers(
        self, column: Sequence[Any], name: str, where: Sequence[tuple[int, Any]], good: Any
    ) -> tuple[FloatArray, Any]:
        """Return the numbers in a column and which cells are empty; `where` has line and node of each."""
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
                if name == "value" and len(self._odd_values) < _MAX_QUOTED:
                    self._odd_values[where[i][0]] = _shown(item)
                if good[i]:  # a row is listed once
                    said = no_number(item, self._separator) if name != "time" else no_moment(item)
                    text = f"column {name}: {str(item)[:40]!r} {said}"
                    self._list(*where[i], text, f"{name} {said}")
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


def _shown(cell: Any) -> str:
    """Return a cell as it may be quoted."""
    text = "" if cell is None else str(cell).strip()
    return text[:40] if text[:40].isprintable() else repr(text[:40])
