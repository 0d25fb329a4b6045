"""Write and read columnar run files (``.npz``): imported samples of a whole fleet as compressed arrays.

The file is numpy's zip of arrays without pickles. A JSON header has each name once, rows refer to names by
number, and the rows of a population are contiguous, so reading is slicing. A history keeps
imports in the same form.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np

from pytest_anubis.codec import CodecError, from_plain, parse_json, to_plain
from pytest_anubis.codec.input_limits import LARGEST_DATA, ROW_BYTES, most_bytes, too_large
from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.core.field_types import Rare
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import REFUSED, IntArray, Population, SampleProblem
from pytest_anubis.store.atomic import write_atomically

FORMAT = "anubis-columns"
SCHEMA = 1
SUFFIX = ".npz"

_ARRAYS = {
    "header": np.uint8,
    "population": np.int64,
    "node": np.int32,
    "device": np.int32,
    "run": np.int32,
    "offsets": np.int64,
    "values": np.float64,
    "problem_row": np.int64,
    "problem": np.int32,
}


_MAX_HEADER_BYTES = 128 << 20
"""Bytes of the JSON header: about as many as the names of half a million nodes take."""

_FORMAT_WITHIN = 512
"""Bytes of the header's array that contain the format: it is the first entry, after numpy's own 128 bytes."""


class ColumnsError(ValueError):
    """A columnar run file cannot be used; the message is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The file that an import came from."""

    digest: str  # SHA-256 of its content, runs, nodes and dates, which identifies copies
    path: str  # its absolute path at the import
    sha256: Annotated[str, Rare] = ""  # SHA-256 of its content alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The content of one columnar file."""

    # All samples, one population per hardware class, benchmark, metric and group
    populations: tuple[Population, ...]
    runs: tuple[RunRecord, ...]  # the runs that they come from, without their measurements
    origin: Origin | None = None  # the file that they were imported from; None if there is none

    def without_marks(self) -> tuple[Columns, dict[tuple[str, str], str]]:
        """Return exported samples as judging takes them, and (run, node) -> why nothing may be learned from.

        `parquet_files` marks the samples of such a run, which judging takes as they are.
        """
        refused: dict[tuple[str, str], str] = {}
        populations = []
        for one in self.populations:
            marked = {row for row, problem in one.problems.items() if problem.kind == REFUSED}
            for row in marked:
                refused.setdefault((one.runs[row], one.nodes[row]), one.problems[row].text)
            rest = {row: problem for row, problem in one.problems.items() if row not in marked}
            populations.append(replace(one, problems=rest) if marked else one)
        return replace(self, populations=tuple(populations)) if refused else self, refused

    def without_units(self, units: Collection[tuple[str, str]]) -> Columns:
        """Return the content without some runs, each of one node, and their samples."""
        populations = []
        for one in self.populations:
            named = enumerate(zip(one.runs, one.nodes, strict=True))
            populations.append(one.only([row for row, unit in named if unit not in units]))
        runs = tuple(run for run in self.runs if (run.run, run.node) not in units)
        return replace(self, populations=tuple(populations), runs=runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """The properties that all samples of a population share."""

    hardware_class: str
    benchmark: str
    metric: Metric
    component: str
    group: str


_KEY = tuple(_Key.__dataclass_fields__)

# The header has a run as its journal's first event of schema 1.
_FIRST_EVENT = {"event": "run_started", "format": "anubis-journal", "schema": 1}
_RUN = (
    "run", "node", "started", "hardware_class", "attributes", "profile", "purpose", "inventory",
    "settings",
)  # fmt: skip
_RUN_IF_SET = ("traits", "took", "file_dated", "unread", "samples_only")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """The JSON next to the arrays."""

    populations: tuple[_Key, ...]
    nodes: tuple[str, ...]
    devices: tuple[str, ...]
    runs: tuple[str, ...]
    problems: tuple[SampleProblem, ...]
    records: tuple[RunRecord, ...] = ()


def save_columns(columns: Columns, path: Path) -> Path:
    """Write a columnar file atomically; `path` should end in ``.npz``.

    Raises:
        ColumnsError: The disk refuses.
    """
    data = columns_bytes(columns)
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ColumnsError(f"{path}: cannot be written ({error.strerror})") from error
    return path


def columns_bytes(columns: Columns, *, compress: bool = True) -> bytes:
    """Return a columnar file's bytes; uncompressed ones are the same on every machine."""
    populations = columns.populations
    nodes: dict[str, int] = {}
    devices: dict[str, int] = {}
    runs: dict[str, int] = {}
    kinds: dict[SampleProblem, int] = {}
    rows = np.concatenate([[0], np.cumsum([len(p) for p in populations])]).astype(np.int64)
    sizes = _join([np.diff(p.offsets) for p in populations], np.int64)
    marked = [(rows[i] + r, q) for i, p in enumerate(populations) for r, q in p.problems.items()]
    arrays: dict[str, Any] = {
        "population": rows,
        "node": _join([_numbered(p.nodes, nodes) for p in populations], np.int32),
        "device": _join([_numbered(p.devices, devices) for p in populations], np.int32),
        "run": _join([_numbered(p.runs, runs) for p in populations], np.int32),
        "offsets": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        "values": _join([p.values for p in populations], np.float64),
        "problem_row": np.array([row for row, _ in marked], dtype=np.int64),
        "problem": np.array([kinds.setdefault(q, len(kinds)) for _, q in marked], dtype=np.int32),
    }
    header = {
        "format": FORMAT,
        "schema": SCHEMA,
        "populations": [{name: getattr(p, name) for name in _KEY} for p in populations],
        "nodes": list(nodes),
        "devices": list(devices),
        "runs": list(runs),
        "problems": list(kinds),
        "records": [
            _FIRST_EVENT
            | {name: getattr(r, name) for name in _RUN}
            | ({"ended": r.ended} if r.ended > r.started else {})
            | {name: value for name in _RUN_IF_SET if (value := getattr(r, name))}
            for r in columns.runs
        ],
    }
    text = json.dumps(to_plain(header), allow_nan=False, separators=(",", ":")).encode("ascii")
    arrays["header"] = np.frombuffer(text, dtype=np.uint8)
    out = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(out, **arrays)
    if columns.origin is not None:  # as the zip's comment, which is found without reading arrays
        with zipfile.ZipFile(out, "a") as archive:
            archive.comment = json.dumps(to_plain(columns.origin)).encode("ascii")
    return out.getvalue()


def load_columns(path: Path) -> Columns:
    """Read a columnar file back, checked.

    Raises:
        ColumnsError: The file cannot be read, is damaged, or has another schema; one line.
    """
    try:
        with open_regular(path) as file:
            return replace(read_columns(file, str(path)), origin=origin_of(path))
    except OSError as error:
        raise ColumnsError(f"{path}: cannot be read ({error.strerror})") from error


def read_columns(file: IO[bytes], name: str) -> Columns:
    """Read an open, seekable columnar file, checked and without its origin; `name` is for messages.

    Raises:
        ColumnsError: It is damaged or has another schema; one line.
        OSError: It cannot be read.
    """
    try:
        arrays = _load_arrays(file)
        header = _header(arrays["header"].tobytes())
        _check(arrays, header)
        return Columns(populations=_populations(arrays, header), runs=header.records)
    except ColumnsError as error:
        raise ColumnsError(f"{name}: {error}") from None
    except OSError:
        raise
    except Exception as error:  # zip, zlib, numpy and json raise a dozen kinds for damaged bytes
        said = " ".join(str(error).split())[:60]
        raise ColumnsError(
            f"{name}: damaged or no columnar run file ({said}); import the results again"
        ) from None


def origin_of(path: Path) -> Origin | None:
    """Return the file that a columnar file was imported from; None if it is unknown."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            plain = parse_json(archive.comment or b"null")
        return from_plain(Origin, plain, where="comment") if plain is not None else None
    except (OSError, ValueError, zipfile.BadZipFile):
        return None  # reading the samples reports the error


def runs_in(path: Path) -> tuple[RunRecord, ...]:
    """Return the runs of a columnar file from its header alone; none if it cannot be read."""
    try:
        with open_regular(path) as file:
            _check_size(file)
            with zipfile.ZipFile(file) as archive, archive.open("header.npy") as header:
                text: bytes = np.lib.format.read_array(header, allow_pickle=False).tobytes()
        return _header(text).records
    except (OSError, KeyError, ValueError, NotImplementedError, zlib.error, zipfile.BadZipFile):
        return ()  # reading its samples reports the error


def is_columns(path: Path) -> bool:
    """Return whether an ``.npz`` file, which other tools write too, has the format of columnar run files."""
    try:
        with (
            open_regular(path) as file,
            zipfile.ZipFile(file) as archive,
            archive.open("header.npy") as header,
        ):
            return f'"{FORMAT}"'.encode() in header.read(_FORMAT_WITHIN)
    except (OSError, KeyError, ValueError, NotImplementedError, zlib.error, zipfile.BadZipFile):
        return False


def _numbered(names: Sequence[str], known: dict[str, int]) -> IntArray:
    """Return one number per name, shape (n,); new names get the next numbers among those that are known."""
    for name in dict.fromkeys(names):
        known.setdefault(name, len(known))
    return np.fromiter(map(known.__getitem__, names), dtype=np.int64, count=len(names))


def _join(parts: Iterable[Any], kind: Any) -> Any:
    found = list(parts)
    return np.concatenate(found).astype(kind, copy=False) if found else np.empty(0, dtype=kind)


def _load_arrays(file: IO[bytes]) -> dict[str, Any]:
    if not zipfile.is_zipfile(file):
        raise ColumnsError("damaged or no columnar run file; import the results again")
    file.seek(0)
    _check_size(file)
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in _ARRAYS}
    for name, kind in _ARRAYS.items():
        if arrays[name].dtype != kind or arrays[name].ndim != 1:
            raise ColumnsError(f"array {name}: expected one row of {np.dtype(kind).name}")
    return arrays


def _check_size(file: IO[bytes]) -> None:
    """Refuse a file whose arrays would fill the memory: a zip of 2 MiB can hold gigabytes.

    The sizes in the zip's directory are reliable, since no more is ever unpacked.
    """
    most = most_bytes(LARGEST_DATA)
    with zipfile.ZipFile(file) as archive:
        sizes = {name: archive.getinfo(f"{name}.npy").file_size for name in _ARRAYS}
    rows = sizes["node"] // np.dtype(_ARRAYS["node"]).itemsize
    if sum(sizes.values()) > most:
        raise ColumnsError(too_large(f"its arrays take {sum(sizes.values()) >> 20:,} MiB", most))
    if rows * ROW_BYTES > most:
        raise ColumnsError(too_large(f"it has {rows:,} rows of at least {ROW_BYTES} bytes", most))


def _header(text: bytes) -> _Header:
    data = parse_json(text, largest=_MAX_HEADER_BYTES)
    if not isinstance(data, dict) or (data.get("format"), data.get("schema")) != (FORMAT, SCHEMA):
        raise ColumnsError(f"not a columnar run file of schema {SCHEMA}; import the results again")
    try:
        return from_plain(_Header, data, where="header", unknown="ignore")
    except CodecError as error:
        raise ColumnsError(f"{error}; import the results again") from None


def _check(arrays: dict[str, Any], header: _Header) -> None:
    units = len(arrays["node"])
    for name, total, count in (
        ("population", units, len(header.populations) + 1),
        ("offsets", len(arrays["values"]), units + 1),
    ):
        bounds = arrays[name]
        fits = len(bounds) == count and bounds[0] == 0 and bounds[-1] == total
        if not fits or np.any(np.diff(bounds) < 0):
            raise ColumnsError(f"array {name}: the bounds do not fit; import the results again")
    for name, words, length in (
        ("node", header.nodes, units),
        ("device", header.devices, units),
        ("run", header.runs, units),
        ("problem", header.problems, len(arrays["problem_row"])),
    ):
        codes = arrays[name]
        count = len(words)
        inside = not len(codes) or (codes.min() >= 0 and codes.max() < count)
        if len(codes) != length or not inside:
            raise ColumnsError(f"array {name}: refers to names that are not there")
    rows = arrays["problem_row"]
    if len(rows) and (rows.min() < 0 or rows.max() >= units):
        raise ColumnsError("array problem_row: refers to rows that are not there")


def _populations(arrays: dict[str, Any], header: _Header) -> tuple[Population, ...]:
    # Most populations have the same units as the one before, and share its tuples of names.
    known = {"node": header.nodes, "device": header.devices, "run": header.runs}
    shared: dict[tuple[str, bytes], tuple[str, ...]] = {}

    def names(kind: str, part: slice) -> tuple[str, ...]:
        codes = arrays[kind][part]
        key = (kind, codes.tobytes())
        if key not in shared:
            shared[key] = tuple(map(known[kind].__getitem__, codes.tolist()))
        return shared[key]

    order = np.argsort(arrays["problem_row"], kind="stable")
    marked = arrays["problem_row"][order]
    which = arrays["problem"][order]
    bounds = arrays["population"].tolist()
    offsets = arrays["offsets"]
    found = []
    for i, key in enumerate(header.populations):
        first = bounds[i]
        last = bounds[i + 1]
        lo, hi = np.searchsorted(marked, (first, last))
        start = offsets[first] if first < len(offsets) else 0
        found.append(
            Population(
                **{name: getattr(key, name) for name in _KEY},
                nodes=names("node", slice(first, last)),
                devices=names("device", slice(first, last)),
                runs=names("run", slice(first, last)),
                values=arrays["values"][start : offsets[last]],
                offsets=offsets[first : last + 1] - start,
                problems={
                    int(row) - first: header.problems[code]
                    for row, code in zip(marked[lo:hi], which[lo:hi], strict=True)
                },
            )
        )
    return tuple(found)
