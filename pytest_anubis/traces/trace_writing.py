"""Write a trace in the nested form of PyTorch's `ExecutionTraceObserver`, as data of JSON.

`anubis trace obfuscate` writes it; `chakra_writing` uses the form of arguments.
"""

from __future__ import annotations

import math
from typing import Any

from pytest_anubis.traces.execution_trace import (
    Argument,
    ExecutionTrace,
    Opaque,
    Operation,
    TensorUse,
    tensors_of,
)

STRIDED, WITHOUT_STRIDES = "1.1.1-chakra.0.0.4", "1.1.0-chakra.0.0.4"
"""Versions of the form with and without strides."""


def trace_data(trace: ExecutionTrace) -> dict[str, Any]:
    """Return a trace as data of JSON, which `read_trace` reads back."""
    strided = all(
        use.strides is not None
        for node in trace.nodes
        for use in tensors_of((*node.inputs, *node.outputs))
    )
    schema = STRIDED if strided else WITHOUT_STRIDES
    return {"schema": schema, "nodes": [_node(node, strided) for node in trace.nodes]}


def side_data(arguments: tuple[Argument, ...], *, strided: bool) -> dict[str, Any]:
    """Return arguments as the lists values, shapes, strides and types."""
    written = [_argument(one) for one in arguments]
    keys = ("values", "shapes", "strides", "types")
    sides: dict[str, Any] = {key: [one[place] for one in written] for place, key in enumerate(keys)}
    if not strided:
        del sides["strides"]
    return sides


def _node(node: Operation, strided: bool) -> dict[str, Any]:
    ranges = ", ".join(f'"{place}": [{low!r}, {high!r}]' for place, low, high in node.ranges)
    attributes = {"tid": node.thread, "op_schema": node.schema}
    if ranges:
        attributes["tensor_range"] = f"{{{ranges}}}"
    return {
        "id": node.id,
        "name": node.name,
        "ctrl_deps": node.parent,
        "inputs": side_data(node.inputs, strided=strided),
        "outputs": side_data(node.outputs, strided=strided),
        "attrs": [
            {"name": name, "type": "string" if isinstance(value, str) else "uint64", "value": value}
            for name, value in attributes.items()
        ],
    }


def _argument(given: Argument) -> tuple[Any, Any, Any, str]:
    """Return value, shape, strides and type of an argument."""
    if isinstance(given, TensorUse):
        place = (given.tensor, given.storage, given.offset)
        value = [*place, given.count, given.element_bytes, given.device]
        return value, list(given.shape), list(given.strides or ()), f"Tensor({given.element})"
    if isinstance(given, tuple):
        parts = [_argument(one) for one in given]
        values, shapes, strides = ([part[at] for part in parts] for at in range(3))
        return values, shapes, strides, f"GenericList[{','.join(part[3] for part in parts)}]"
    if given is None:
        return "<None>", [], [], "None"
    if isinstance(given, Opaque):
        return "", [], [], given.type
    if isinstance(given, bool):
        return given, [], [], "Bool"
    if isinstance(given, int):
        return given, [], [], "Int"
    if isinstance(given, float):
        return given if math.isfinite(given) else str(given), [], [], "Double"
    return given, [], [], "String"
