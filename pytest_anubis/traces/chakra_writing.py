"""Write a trace in MLCommons Chakra's form: length-delimited messages of protobuf (`anubis trace export`).

The messages are those of ``et_def.proto``, of which only the fields that a trace of PyTorch has are written:
it holds no times, so a simulator has to bring its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pytest_anubis.traces.execution_trace import Argument, ExecutionTrace, Operation, tensors_of
from pytest_anubis.traces.operation_kinds import Kind, kind_of, operation_name
from pytest_anubis.traces.step_plan import Key, key_of, place_of, written_arguments
from pytest_anubis.traces.trace_writing import side_data

VERSION = "0.0.4"
METADATA, COMPUTATION, COLLECTIVE = 1, 4, 7
"""Numbers of ``NodeType``."""

_WHOLE, _STRING = 9, 29  # the fields of `AttributeProto` that hold a number and a text

_COLLECTIVES = {
    "allreduce": 0, "reduce_scatter": 7, "reduce": 1, "allgather": 2, "gather": 3, "scatter": 4,
    "broadcast": 5, "alltoall": 6, "barrier": 9,
}  # fmt: skip
"""Begin of a collective's name -> number of ``CollectiveCommType``; the first that fits is right."""


def chakra_messages(trace: ExecutionTrace) -> Iterator[bytes]:
    """Yield the file's metadata and then every node, each with its length before it."""
    about = _attribute(2, "schema", trace.schema) + _attribute(2, "digest", trace.digest)
    yield _with_length(_text(1, VERSION) + about)
    dependencies = data_dependencies(trace)
    for node in trace.nodes:
        yield _with_length(_node(node, dependencies.get(node.id, [])))


def data_dependencies(trace: ExecutionTrace) -> dict[int, list[int]]:
    """Return which operations last wrote what each operation reads, by numbers of nodes.

    An operation that another one called is not among them: it runs when its caller does. A view is waited
    for by those that use it, and does not count as written.
    """
    made: dict[Key, int] = {}
    wrote: dict[tuple[str, int], int] = {}
    found = {}
    for one in trace.operations:
        used = list(tensors_of(one.inputs))
        before = [made.get(key_of(use)) for use in used]
        before += [wrote.get(place_of(use)[:2]) for use in used]
        found[one.id] = sorted({number for number in before if number is not None})
        changed = [one.inputs[at] for at in written_arguments(one.schema) if at < len(one.inputs)]
        if kind_of(one.schema) is not Kind.BETWEEN:
            changed += one.outputs
        made |= dict.fromkeys(map(key_of, tensors_of(one.outputs)), one.id)
        wrote |= {place_of(use)[:2]: one.id for use in tensors_of(tuple(changed))}
    return found


def _node(node: Operation, data: list[int]) -> bytes:
    sort = METADATA
    if node.schema:
        sort = COLLECTIVE if kind_of(node.schema) is Kind.COLLECTIVE else COMPUTATION
    parts = [_number(1, node.id), _text(2, node.name), _number(3, sort)]
    parts += [_numbers(4, [node.parent] if node.parent != node.id else []), _numbers(5, data)]
    parts += [_bytes(8, _side(node.inputs)), _bytes(9, _side(node.outputs))]
    parts.append(_attribute(10, "op_schema", node.schema))
    if sort == COLLECTIVE:
        name = operation_name(node.schema)[1].lstrip("_")
        sorts = [number for begin, number in _COLLECTIVES.items() if name.startswith(begin)]
        size = sum(use.count * use.element_bytes for use in tensors_of(node.inputs))
        stated = [("comm_type", sorts[0])] if sorts else []  # sending and receiving have none
        for key, number in (*stated, ("comm_size", size)):
            parts.append(_bytes(10, _text(1, key) + _number(_WHOLE, number)))
    return b"".join(parts)


def _side(arguments: tuple[Argument, ...]) -> bytes:
    side = side_data(arguments, strided=False)
    return b"".join(
        _text(field, json.dumps(side[key]))
        for field, key in enumerate(("values", "shapes", "types"), 1)
    )


def _attribute(field: int, name: str, text: str) -> bytes:
    return _bytes(field, _text(1, name) + _text(_STRING, text))


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _numbers(field: int, numbers: list[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, numbers))) if numbers else b""


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _with_length(content)


def _with_length(content: bytes) -> bytes:
    return _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Return a whole number from 0 on in pieces of seven bits, the lowest first."""
    pieces = bytearray()
    while number > 127:
        pieces.append(number & 127 | 128)
        number >>= 7
    return bytes([*pieces, number])
