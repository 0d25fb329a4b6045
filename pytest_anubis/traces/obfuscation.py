"""Obfuscate a trace: keep what a replay needs, and leave out what says whose job it was.

`anubis trace obfuscate` uses it. Kept are operations, shapes, strides, element types, ids of tensors, and
whole numbers, which are mostly sizes. Labels, inner operations, texts, threads and device indices go; other
numbers become the nearest power of two, except where they decide a size.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from pytest_anubis.traces.execution_trace import (
    Argument,
    ExecutionTrace,
    Opaque,
    Operation,
    TensorUse,
)
from pytest_anubis.traces.operation_kinds import operation_name
from pytest_anubis.traces.step_plan import argument_names

ROOT = "[process]"
UNKNOWN = "unknown"

_ELEMENT = re.compile(r"[\w:<> ]{1,60}")
_DEVICES = frozenset(("cpu", "cuda", "hip", "xpu", "mps", "hpu", "npu", "xla", "meta"))
# What torch's own operations take as a text.
_WORDS = frozenset((
    "none", "tanh", "trunc", "floor", "sum", "prod", "mean", "amax", "amin", "add", "multiply", "constant",
    "reflect", "replicate", "circular", "same", "valid", "left", "right", "fro", "nuc", "ij", "xy",
))  # fmt: skip
_SIZING = frozenset(("scale_factors", "scales", "scales_d", "scales_h", "scales_w"))
_EQUATION = re.compile(r"[A-Za-z,.> -]{1,200}")


def obfuscated(trace: ExecutionTrace) -> ExecutionTrace:
    """Return the operations of a trace below one root, without what a replay does not need."""
    hidden = [_operation(one) for one in trace.operations]
    taken = {one.id for one in hidden}
    root = next(number for number in range(1, len(taken) + 2) if number not in taken)
    nodes = [
        Operation(root, root, ROOT, "", (), ()),
        *(replace(one, parent=root) for one in hidden),
    ]
    return ExecutionTrace(
        schema=trace.schema, digest="", nodes=tuple(sorted(nodes, key=lambda node: node.id))
    )


def _operation(given: Operation) -> Operation:
    space, name, _ = operation_name(given.schema)
    words = argument_names(given.schema)
    sized = name.rstrip("_") == "arange"
    return Operation(
        id=given.id,
        parent=0,
        name=f"{space}::{name}" if name else UNKNOWN,
        schema=given.schema if name else UNKNOWN,
        inputs=tuple(
            _argument(one, words[place] if place < len(words) else "", sized)
            for place, one in enumerate(given.inputs)
        ),
        outputs=tuple(_argument(one, "", False) for one in given.outputs),
        # The smallest index is of no use to a replay.
        ranges=tuple((place, 0.0, high) for place, _, high in given.ranges),
    )


def _argument(given: Argument, word: str, sized: bool) -> Argument:
    if isinstance(given, TensorUse):
        element = given.element if _ELEMENT.fullmatch(given.element) else UNKNOWN
        return replace(given, device=_device(given.device), element=element)
    if isinstance(given, tuple):
        return tuple(_argument(one, word, sized) for one in given)
    if isinstance(given, Opaque):
        return Opaque(UNKNOWN)
    if isinstance(given, float):
        return given if sized or word in _SIZING else power_of_two(given)
    if isinstance(given, str):
        if word == "equation" and _EQUATION.fullmatch(given):
            return _renamed(given)
        return given if given in _WORDS else _device(given)
    return given


def _device(name: str) -> str:
    """Return the first device of the same sort; empty for any other text."""
    sort, colon, _ = name.partition(":")
    return (f"{sort}:0" if colon else sort) if sort in _DEVICES else ""


def _renamed(equation: str) -> str:
    """Return an equation of `einsum` in the first letters; their order, which may decide, stays."""
    letters = sorted({one for one in equation if one.isalpha()})
    names = [chr(code) for code in (*range(65, 91), *range(97, 123))]
    new = dict(zip(letters, names, strict=False))
    return "".join(new.get(one, one) for one in equation)


def power_of_two(number: float) -> float:
    """Return the nearest power of two with the number's sign; 0, the infinities and NaN stay."""
    if not number or not math.isfinite(number):
        return number
    part, exponent = math.frexp(number)
    exponent -= abs(part) < 0.75
    return math.copysign(math.ldexp(1, min(exponent, 1023)), number)
