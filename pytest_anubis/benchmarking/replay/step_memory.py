"""Count the memory that a recorded step takes at most, from its shapes alone: nothing is allocated for it.

Temporary tensors of an operation that consists of others are seen on the device ``meta``; those within
kernels are known for the kernels of a CPU that take the most.

`replayed_step` and `step_checks` use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_anubis.benchmarking.replay.operation_calls import OperationCall
from pytest_anubis.traces.chosen_masks import mask_of
from pytest_anubis.traces.execution_trace import Argument, Operation, TensorUse, tensors_of
from pytest_anubis.traces.operation_kinds import Kind, kind_of, operation_name, plain_name
from pytest_anubis.traces.step_plan import Key, StepPlan, argument_names, key_of

if TYPE_CHECKING:
    import torch

_REDUCTIONS = frozenset(("sum", "mean", "std", "var", "amax", "amin", "argmax", "argmin"))
"""Reductions: they make nothing as large as their inputs, unless these are short types."""

_RECURRENT = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))


def peak_bytes(calls: Sequence[OperationCall], plan: StepPlan, *, on_cpu: bool = True) -> int:
    """Return the most bytes that results and temporary tensors of operations take at any moment."""
    live: dict[Key, int] = {}
    now = most = 0
    for call, freed in zip(calls, plan.freed, strict=True):
        views = call.kind is Kind.BETWEEN or bool(call.writes)
        owners = {use.storage for use in tensors_of(call.operation.inputs)} - {0}
        most = max(most, now + call.inside, now + _scratch_bytes(call.operation, on_cpu=on_cpu))
        for use in tensors_of(call.operation.outputs):
            if views and use.storage in owners:
                continue
            size = use.count * use.element_bytes
            now += size - live.get(key_of(use), 0)
            live[key_of(use)] = size
        most = max(most, now)
        for key in freed:
            now -= live.pop(key, 0)
    return most


def with_bytes(run: Callable[[], Any], given: Sequence[torch.Tensor]) -> tuple[Any, int]:
    """Return what a function returns, and the most bytes of the tensors that it makes at any moment."""
    import weakref

    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    known = {one.untyped_storage()._cdata for one in given}
    now = most = 0

    def gone(key: int, size: int) -> None:
        nonlocal now
        now -= size
        known.discard(key)

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            nonlocal now, most
            result = func(*args, **(kwargs or {}))
            for one in (one for one in tensors_in(result) if one.layout is torch.strided):
                memory = one.untyped_storage()
                if (key := memory._cdata) not in known:
                    known.add(key)
                    now, most = now + memory.nbytes(), max(most, now + memory.nbytes())
                    weakref.finalize(memory, gone, key, memory.nbytes()).atexit = False
            return result

    with Watch():  # type: ignore[no-untyped-call]
        return run(), most


def _scratch_bytes(operation: Operation, *, on_cpu: bool) -> int:
    """Return the bytes of an operation's temporary memory, such as for its inputs, broadcast.

    A loss of (n, 1) and (1, n) has n x n differences before it sums them. An operation on lists takes one
    tensor of each at a time, and makes no more than it returns.
    """
    uses = [one for one in operation.inputs if isinstance(one, TensorUse)]
    name = plain_name(operation_name(operation.schema)[1])
    if name == "scaled_dot_product_attention" and len(uses) > 1 and operation.inputs[4:5] != (0.0,):
        # With dropout every query's weight for every key is kept, in three tensors.
        query, key = uses[:2]
        return 3 * query.element_bytes * math.prod((*query.shape[:-1], *key.shape[-2:-1]))
    kind = kind_of(operation.schema)
    if kind is Kind.CONVOLUTION:
        return _columns(operation, uses) if on_cpu else 0
    if name in _RECURRENT and uses and on_cpu:
        # What all steps put into all gates, and the weights in another order; both twice.
        gates = max(
            (use.shape[0] for use in tensors_of(operation.inputs[1:]) if use.shape), default=0
        )
        steps = math.prod(uses[0].shape[:-1]) * uses[0].element_bytes
        return 2 * (steps * gates + _bytes(operation.inputs[1:])) + _bytes(operation.outputs)
    wide: list[int] = []
    for use in uses:
        for place, size in enumerate(reversed(use.shape)):
            if place == len(wide):
                wide.append(size)
            wide[place] = max(wide[place], size)
    if name == "masked_select" and on_cpu:
        return 17 * math.prod(wide)  # the mask, its numbers and their sums
    if name == "index" and (mask := mask_of(operation)) is not None:
        return 8 * mask[2] * len(mask[1].shape) + _bytes(operation.outputs)
    if "backward" in name and any(use.span < use.count for use in uses):
        # What is expanded it copies first, as the gradient of a sum.
        return _bytes((*operation.outputs, *(use for use in uses if use.span < use.count)))
    if kind is not Kind.POINTWISE or not uses:
        return 0
    each = max((use.element_bytes for use in uses if use.shape), default=8)
    if name in _REDUCTIONS:
        each = 0 if each > 2 else 4  # of 16 bits it makes 32 first
    if name == "binary_cross_entropy_with_logits":
        each *= 2
    return math.prod(wide) * each


def _bytes(arguments: tuple[Argument, ...]) -> int:
    return sum(use.count * use.element_bytes for use in tensors_of(arguments))


def _columns(operation: Operation, uses: Sequence[TensorUse]) -> int:
    """Return the bytes that a CPU takes for a convolution: copies, and in most types windows as columns."""
    copies = 2 * _bytes(operation.outputs)
    if "backward" in operation.name:
        copies += _bytes((*uses, *uses[:1]))
    named = dict(zip(argument_names(operation.schema), operation.inputs, strict=False))
    weight, dilation = named.get("weight"), named.get("dilation")
    wide = [use for use in (*uses[:2], *tensors_of(operation.outputs[:1])) if use is not weight]
    if (
        not isinstance(weight, TensorUse)
        or weight.element == "float"
        or not all(one.shape for one in wide)
    ):
        return copies
    # A window for each element of the smaller of what it takes and makes, of one group at a time.
    windows = min((math.prod((use.shape[0], *use.shape[2:])) for use in wide), default=0)
    if isinstance(dilation, tuple) and any(one != 1 for one in dilation) and wide:
        windows //= max(1, wide[0].shape[0])  # of one picture
    return copies + windows * math.prod(weight.shape[1:]) * weight.element_bytes


def tensors_in(result: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that an operation has returned, those in lists too."""
    import torch

    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, list | tuple):
        for one in result:
            yield from tensors_in(one)
