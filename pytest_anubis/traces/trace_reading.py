"""Read the files of PyTorch's `ExecutionTraceObserver`: schemas 1.0.1 to 1.1.1, plain or compressed.

A trace is a file from elsewhere: it is read within limits, and what is wrong is one line with the node.
Schema 1.0.1 is flat (``parent``, ``input_shapes``); later ones nest values, shapes and types, and 1.1.1 adds
strides. A missing field is an error, an additional one is ignored.
"""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_anubis.codec import CodecError
from pytest_anubis.codec.codec_error import found, shown
from pytest_anubis.codec.input_limits import LARGEST_DATA, LARGEST_JSON, most_bytes, too_large
from pytest_anubis.codec.json_files import parse_json, read_bytes
from pytest_anubis.traces.execution_trace import (
    Argument,
    ExecutionTrace,
    Opaque,
    Operation,
    TensorUse,
    outer_parts,
)

if TYPE_CHECKING:
    from pathlib import Path

OPERATION_NAMES = ("aten::", "c10d::")
"""Beginnings of names that only operations have."""

MAX_NODES = 2_000_000
MAX_DIMENSIONS = 64
"""Dimensions of a tensor; torch itself allows as many."""
LARGEST_ID = 2**63 - 1

_SCHEMA = re.compile(r"1\.(0|1)\.\d{1,3}(-chakra\.\d{1,3}\.\d{1,3}\.\d{1,3})?")
_TENSOR = re.compile(r"Tensor\((.{1,60})\)")
_MISSING_TENSOR = "nullptr (uninitialized)"
_LIST = re.compile(r"(?:GenericList|Tuple)\[(.*)\]", re.DOTALL)
_GZIP = b"\x1f\x8b"


class TraceError(ValueError):
    """A trace cannot be used; the message is one line without the file's name."""


def read_trace(path: Path) -> ExecutionTrace:
    """Return the trace of a file.

    Raises:
        OSError: The file cannot be read.
        TraceError: It is no execution trace, is damaged, or is beyond a limit.
    """
    try:
        text = _unpacked(read_bytes(path, largest=LARGEST_DATA))
        data = parse_json(text, strict=False, largest=LARGEST_JSON)
        return _trace(data, hashlib.sha256(text).hexdigest()[:16])
    except CodecError as error:
        raise TraceError(str(error)) from None


def _unpacked(content: bytes) -> bytes:
    """Return the content, decompressed if it is; never more than the limit of one JSON text."""
    if not content.startswith(_GZIP):
        return content
    most = most_bytes(LARGEST_JSON)
    machine = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        text = machine.decompress(content, most + 1)
    except zlib.error as error:
        raise TraceError(f"not valid gzip ({shown(error)})") from None
    if len(text) > most:
        raise TraceError(too_large("too large after decompression", most))
    if not machine.eof:
        raise TraceError("not valid gzip (the file ends too early)")
    if machine.unused_data:
        raise TraceError("not valid gzip (data after the end)")
    return text


def _trace(data: Any, digest: str) -> ExecutionTrace:
    if not isinstance(data, Mapping):
        raise TraceError(f"expected an object with schema and nodes, found {found(data)}")
    if "traceEvents" in data:
        raise TraceError(
            "this is a timeline of the profiler, which has no arguments; record with `anubis trace record` "
            "or torch.profiler.ExecutionTraceObserver"
        )
    schema, nodes = data.get("schema"), data.get("nodes")
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema):
        raise TraceError(f"schema is {found(schema)}; known are 1.0.1 to 1.1.1")
    if not isinstance(nodes, list) or not nodes:
        raise TraceError("nodes: expected a list with at least one node")
    if len(nodes) > MAX_NODES:
        raise TraceError(f"{len(nodes):,} nodes, more than {MAX_NODES:,}")
    read = [_node(node, place) for place, node in enumerate(nodes)]
    _check_parents(read)
    return ExecutionTrace(
        schema=schema, digest=digest, nodes=tuple(sorted(read, key=lambda node: node.id))
    )


def _check_parents(nodes: list[Operation]) -> None:
    """Refuse an id that occurs twice and a node that is its own ancestor."""
    parents = {node.id: node.parent for node in nodes}
    if len(parents) < len(nodes):
        seen: set[int] = set()
        for node in nodes:
            if node.id in seen:
                raise TraceError(f"node {node.id} ({shown(node.name)}): its id occurs twice")
            seen.add(node.id)
    fine: set[int] = set()
    for node in nodes:
        chain: dict[int, None] = {}
        at = node.id
        # The process is its own parent in what torch writes.
        while at in parents and at not in fine and parents[at] != at:
            if at in chain:
                raise TraceError(f"node {at}: it is its own ancestor")
            chain[at] = None
            at = parents[at]
        fine.update(chain)


def _node(node: Any, place: int) -> Operation:
    if not isinstance(node, Mapping):
        raise TraceError(f"nodes[{place}]: expected an object, found {found(node)}")
    number, name = node.get("id"), node.get("name")
    where = f"node {number if type(number) is int else f'number {place + 1}'} ({shown(name)})"
    try:
        if not isinstance(name, str):
            raise TraceError(f"name is {found(name)}")
        flat = "parent" in node
        more = node if flat else _attributes(node.get("attrs"))
        schema = more.get("op_schema", "")
        if not isinstance(schema, str):
            raise TraceError(f"op_schema is {found(schema)}")
        if not schema and name.startswith(OPERATION_NAMES):
            raise TraceError("an operation without op_schema")
        # A compiled kernel is code outside of the trace, which nothing here runs: it has no replay.
        backend = more.get("kernel_backend", "")
        return Operation(
            id=_number(number, "id"),
            parent=_number(node.get("parent" if flat else "ctrl_deps"), "parent"),
            name=name,
            schema=schema or (f"{backend}::{name}" if backend else ""),
            # Labels and compiled kernels have arguments in forms of their own, which nothing needs.
            inputs=_side(node, flat, "input") if schema else (),
            outputs=_side(node, flat, "output") if schema else (),
            thread=_number(more.get("tid", 0), "tid"),
            ranges=_ranges(more.get("tensor_range", "")),
        )
    except TraceError as error:
        raise TraceError(f"{where}: {error}") from None


def _attributes(given: Any) -> dict[str, Any]:
    if not isinstance(given, list):
        raise TraceError(f"attrs: expected a list, found {found(given)}")
    read: dict[str, Any] = {}
    for one in given:
        if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
            raise TraceError("attrs: expected objects with name and value")
        read[one["name"]] = one.get("value")
    return read


def _number(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST_ID:
        raise TraceError(f"{what} is {found(value)}, expected a whole number from 0 on")
    return value


def _side(node: Mapping[str, Any], flat: bool, side: str) -> tuple[Argument, ...]:
    given = node.get(f"{side}s")
    if flat:
        shapes, types = node.get(f"{side}_shapes"), node.get(f"{side}_types")
        given = {"values": given, "shapes": shapes, "types": types}
    if not isinstance(given, Mapping):
        raise TraceError(f"{side}s: expected an object, found {found(given)}")
    values, shapes, types = (given.get(key) for key in ("values", "shapes", "types"))
    if not (isinstance(values, list) and isinstance(shapes, list) and isinstance(types, list)):
        raise TraceError(f"{side}s: expected the lists values, shapes and types")
    strides = given.get("strides")
    strides = [None] * len(values) if strides is None else strides
    sizes = {len(one) for one in (values, shapes, types, strides) if isinstance(one, list)}
    if len(sizes) > 1 or not isinstance(strides, list):
        raise TraceError(f"{side}s: values, shapes, types and strides differ in number")
    return tuple(
        _argument(*one, f"{side}s[{place}]")
        for place, one in enumerate(zip(values, types, shapes, strides, strict=True))
    )


def _argument(value: Any, kind: Any, shape: Any, strides: Any, where: str) -> Argument:
    if not isinstance(kind, str):
        raise TraceError(f"{where}: its type is {found(kind)}")
    if tensor := _TENSOR.fullmatch(kind):
        return _tensor(value, tensor.group(1), shape, strides, where)
    if inner := _LIST.fullmatch(kind):
        kinds = outer_parts(inner.group(1), "[", "]") if inner.group(1) else []
        return _list(value, kinds, shape, strides, where)
    if kind == "None":
        return None
    if kind == "Bool" and isinstance(value, bool):
        return value
    if kind == "Int" and type(value) is int and -LARGEST_ID - 1 <= value <= LARGEST_ID:
        return value
    if kind == "Double" and (number := _double(value)) is not None:
        return number
    if kind in ("String", "Device") and isinstance(value, str):
        return value
    if kind in ("Bool", "Int", "Double", "String", "Device"):
        raise TraceError(f"{where}: {found(value)} is no {kind}")
    return Opaque(kind[:60])


def _double(value: Any) -> float | None:
    """Return a number; torch writes what is not finite as text."""
    if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, float) or (type(value) is int and abs(value) <= LARGEST_ID):
        return float(value)
    return None


def _list(value: Any, kinds: list[str], shape: Any, strides: Any, where: str) -> Argument:
    if not isinstance(value, list) or len(value) != len(kinds):
        return Opaque("list")  # torch cuts long lists short
    count = len(value)
    shapes = shape if isinstance(shape, list) and len(shape) == count else [[]] * count
    steps = strides if isinstance(strides, list) and len(strides) == count else [None] * count
    return tuple(
        _argument(*one, f"{where}[{place}]")
        for place, one in enumerate(zip(value, kinds, shapes, steps, strict=True))
    )


def _tensor(value: Any, element: str, shape: Any, strides: Any, where: str) -> Argument:
    if element == _MISSING_TENSOR:
        return None
    if not isinstance(value, list) or len(value) != 6 or not isinstance(value[5], str):
        raise TraceError(f"{where}: expected a tensor's six fields, found {found(value)}")
    tensor_id, storage, offset, count, size = (_number(one, where) for one in value[:5])
    sizes = _sizes(shape, f"{where}: shape")
    steps = None if strides is None else _sizes(strides, f"{where}: strides")
    tensor = TensorUse(tensor_id, storage, offset, count, size, value[5], element, sizes, steps)
    if not tensor.count and 0 not in sizes:
        return Opaque("wrapped tensor")  # sparse, nested or of a transform
    if math.prod(sizes) != tensor.count:
        raise TraceError(f"{where}: shape {list(sizes)} has not its {tensor.count} elements")
    if steps is not None and len(steps) != len(sizes):
        raise TraceError(f"{where}: shape and strides differ in number")
    return tensor


def _sizes(given: Any, where: str) -> tuple[int, ...]:
    if not isinstance(given, list) or len(given) > MAX_DIMENSIONS:
        raise TraceError(f"{where}: expected a list of at most {MAX_DIMENSIONS} numbers")
    return tuple(_number(one, where) for one in given)


def _ranges(given: Any) -> tuple[tuple[int, float, float], ...]:
    """Return the recorded ranges of whole-number inputs; torch writes them as JSON in a text."""
    if not isinstance(given, str) or not given.startswith("{"):
        return ()
    try:
        data = parse_json(given, strict=False, largest=1 << 16)
    except CodecError:
        return ()
    read = []
    for place, pair in data.items() if isinstance(data, dict) else ():
        if not isinstance(pair, list) or len(pair) != 2:
            continue
        numbers = all(type(one) in (int, float) and abs(one) < 2**62 for one in pair)
        if numbers and place.isdecimal() and len(place) < 4:
            read.append((int(place), float(pair[0]), float(pair[1])))
    return tuple(read)
