"""Replace a replay's masks by our own with as many elements set as the job's, so that results keep sizes.

A trace holds no values. Where a mask decides how large a result is, the recorded result says how many of its
elements were set; a mask of our own takes its place, and the operation does the work that it did in the job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_anubis.traces.execution_trace import Argument, Operation, TensorUse, tensors_of
from pytest_anubis.traces.operation_kinds import operation_name, plain_name

Mask = tuple[int, TensorUse, int]
"""The number of an input, the mask in it, and how many of its elements are not zero."""

_BY_MASK = {
    "masked_select": (1, None),
    "masked_select_backward": (2, 0),
    "masked_scatter": (1, 2),
    "masked_scatter_backward": (1, 2),
}
"""Which input is the mask, and which has the elements for it; those of `masked_select` are its result."""

_INDEXING = frozenset(("index", "_unsafe_index"))
_PUTTING = frozenset(("index_put", "_index_put_impl", "_unsafe_index_put"))


def mask_of(operation: Operation) -> Mask | None:
    """Return the mask of an operation that decides a size; None if it has none, or the sizes do not fit."""
    _, name, overload = operation_name(operation.schema)
    name, inputs = plain_name(name), operation.inputs
    found = None
    if overload.endswith("out"):  # it writes into memory of any size
        return None
    if name == "nonzero" or (name == "where" and len(inputs) == 1):
        found = _of_places(operation, one_result=name == "nonzero")
    elif name in _BY_MASK and len(inputs) > 1:
        found = _of_elements(operation, *_BY_MASK[name])
    elif name in _INDEXING or name in _PUTTING:
        found = _of_rows(operation, putting=name in _PUTTING)
    return found if found is not None and 0 <= found[2] <= found[1].count else None


def with_chosen_masks(operations: Sequence[Operation]) -> list[Operation]:
    """Return operations whose masks exist before the step, one for each shape and number of set elements."""
    chosen: dict[tuple[str, tuple[int, ...], int], TensorUse] = {}
    found = []
    for operation in operations:
        if (mask := mask_of(operation)) is not None:
            at, use, count = mask
            # No recorded tensor has a number below 0.
            ours = replace(use, tensor=-1 - len(chosen), storage=0, offset=0, strides=None)
            ours = chosen.setdefault((use.element, use.shape, count), ours)
            inputs = list(operation.inputs)
            old = inputs[at]
            inputs[at] = tuple(one and ours for one in old) if isinstance(old, tuple) else ours
            operation = replace(operation, inputs=tuple(inputs))
        found.append(operation)
    return found


def _of_places(operation: Operation, *, one_result: bool) -> Mask | None:
    """Return the mask whose places are the results: a row for each, or a number in each dimension."""
    (use,) = operation.inputs[:1] or (None,)
    made = list(tensors_of(operation.outputs))
    if not isinstance(use, TensorUse) or not made or not made[0].shape:
        return None
    count, depth = made[0].shape[0], len(use.shape)
    shapes = [(count, depth)] if one_result else [(count,)] * max(1, depth)
    fits = [one.shape for one in made] == shapes and {one.element for one in made} == {"long int"}
    return (0, use, count) if fits else None


def _of_elements(operation: Operation, at: int, source: int | None) -> Mask | None:
    """Return the mask of the elements that are taken or put, which may be seen several times."""
    inputs, made = operation.inputs, next(tensors_of(operation.outputs), None)
    if len(inputs) <= max(at, source or 0):
        return None
    use, first = inputs[at], inputs[1 if source == 0 else 0]
    if not isinstance(use, TensorUse) or not isinstance(first, TensorUse) or made is None:
        return None
    given = made if source is None else inputs[source]
    if not isinstance(given, TensorUse):  # the sizes of the result
        if made.shape != given or made.element != first.element:
            return None
        given = made
    small, large = sorted((use.shape, first.shape), key=lambda one: (len(one), math.prod(one)))
    pairs = zip(reversed(small), reversed(large), strict=False)
    if any(one not in (1, other) for one, other in pairs):
        return None
    times = math.prod(large) // max(1, use.count)
    count = given.count // max(1, times)
    if source is not None:  # there may be more than enough
        return at, use, min(count, use.count)
    taken = made.element == first.element and made.shape == (count * times,)
    return (at, use, count) if taken else None


def _of_rows(operation: Operation, *, putting: bool) -> Mask | None:
    """Return the one mask that picks rows; other indices make the number of rows unknown."""
    padded: tuple[Argument, ...] = (*operation.inputs, None, None, None)
    first, indices, values = padded[:3]
    if not isinstance(first, TensorUse) or not isinstance(indices, tuple):
        return None
    uses = [*tensors_of(indices)]
    if len(uses) != 1 or uses[0] not in indices or len(indices) - indices.count(None) > 1:
        return None
    (use,) = uses
    before, depth = indices.index(use), len(use.shape)
    if use.element not in ("bool", "unsigned char") or not depth:
        return None
    if first.shape[before : before + depth] != use.shape:
        return None
    after = first.shape[before + depth :]
    given = values if putting else next(tensors_of(operation.outputs), None)
    if not isinstance(given, TensorUse) or given.element != first.element:
        return None
    at = len(given.shape) - 1 - len(after)
    count = given.shape[at] if at >= 0 else 1
    if putting:  # one row may be for all: then any mask is right
        return None if count == 1 else (1, use, count)
    return (1, use, count) if given.shape == (*first.shape[:before], count, *after) else None
