"""Check a recorded step before and in its first run: sizes of results, and indices that no kernel checks.

A trace is a file from elsewhere, so no operation may make more than the trace says, and none may reach into
memory by an index that nothing checks. `check_sizes` allocates nothing: sizes come from torch's device
``meta``. `step_memory` counts what the whole step takes. `replayed_step` uses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_anubis.benchmarking.replay.operation_calls import (
    ELEMENTS,
    CannotReplayError,
    OperationCall,
)
from pytest_anubis.benchmarking.replay.step_memory import tensors_in, with_bytes
from pytest_anubis.codec.codec_error import shown
from pytest_anubis.traces.chosen_masks import mask_of
from pytest_anubis.traces.execution_trace import Argument, Operation, TensorUse, tensors_of
from pytest_anubis.traces.operation_kinds import (
    INDEX_MAKERS,
    UNCHECKED,
    operation_name,
    plain_name,
)
from pytest_anubis.traces.step_plan import Key, Place, key_of, place_of

if TYPE_CHECKING:
    import torch

_UNKNOWN_SIZE = frozenset(
    ("item", "_local_scalar_dense", "is_nonzero", "equal", "unique", "unique_dim", "_unique2")
)
"""Operations whose results' sizes depend on values that no trace says: `check_made` looks at them."""


_BY_CHANNEL = ("weight", "bias", "running_mean", "running_var")
_SAVED = ("save_mean", "save_invstd", "save_var")
"""Arguments of batch normalisation that have a number for each channel; outside of training none is saved."""


def written_places(calls: Sequence[OperationCall]) -> list[Place]:
    """Return the memory that the operations change in place."""
    written = (
        place_of(use)
        for call in calls
        for number in call.writes
        for use in tensors_of((call.operation.inputs[number],))
    )
    return list(dict.fromkeys(written))


def check_indices(calls: Sequence[OperationCall]) -> None:
    """Refuse indices that nothing checks unless they are ours, or those of the forward operation.

    Raises:
        CannotReplayError: Names the operation.
    """
    written = set(written_places(calls))
    makers: dict[Key, str] = {}
    for call in calls:
        operation = call.operation
        name = plain_name(operation_name(operation.schema)[1])
        for word, use in zip(call.names, operation.inputs, strict=False):
            if name not in UNCHECKED or word not in UNCHECKED[name]:
                continue
            ours = all(
                place_of(one) not in written
                and makers.get(key_of(one), INDEX_MAKERS[0]) in INDEX_MAKERS
                for one in tensors_of((use,))
            )
            if not ours:
                raise CannotReplayError(
                    f"{shown(operation.name)} (node {operation.id}): {word} is not that of its forward "
                    "operation"
                )
        makers.update((key_of(one), name) for one in tensors_of(operation.outputs))


def check_index_values(
    call: OperationCall, tensor_of: Callable[[TensorUse], torch.Tensor | None]
) -> None:
    """Refuse indices that reach beyond what an operation without checks of its own takes them for.

    Raises:
        CannotReplayError: Names the operation.
    """
    operation = call.operation
    name = plain_name(operation_name(operation.schema)[1])
    named = dict(zip(call.names, operation.inputs, strict=False))
    for word, limit in index_limits(name, named).items():
        use = named.get(word)
        values = tensor_of(use) if isinstance(use, TensorUse) else None
        if values is None or not values.numel():
            continue
        ignored = named.get("ignore_index")
        wrong = (values < 0) | (values >= limit)
        if isinstance(ignored, int):
            wrong &= values != ignored
        if bool(wrong.any()):
            raise CannotReplayError(
                f"{shown(operation.name)} (node {operation.id}): {word} from outside of 0 to {limit - 1}"
            )


def check_made(operation: Operation, result: Any) -> None:
    """Refuse results of other sizes than recorded, of operations whose results' sizes depend on values.

    Raises:
        CannotReplayError: Names the operation.
    """
    if plain_name(operation_name(operation.schema)[1]) not in _UNKNOWN_SIZE:
        return
    for use, tensor in zip(tensors_of(operation.outputs), tensors_in(result), strict=False):
        if use.shape != tuple(tensor.shape):
            raise CannotReplayError(
                f"{shown(operation.name)} (node {operation.id}): the sizes of its results depend on values, "
                "which a trace does not hold"
            )


def index_limits(name: str, named: Mapping[str, Argument]) -> dict[str, int]:
    """Return below which number the indices must be that an operation does not check, by argument.

    Args:
        name: Of the operation.
        named: Its arguments by name.
    """

    def shape(word: str) -> tuple[int, ...]:
        use = named.get(word)
        return use.shape if isinstance(use, TensorUse) else ()

    rows = shape("grad")[:1]
    if name.endswith("pool3d_with_indices_backward"):
        return {"indices": math.prod(shape("self")[-3:])}
    if "pool" in name and name.endswith("backward"):
        return {"indices": math.prod(shape("self")[-2:])}
    if name in ("nll_loss_backward", "nll_loss2d_backward"):
        scores = shape("self")
        return {"target": scores[1] if len(scores) > 1 else scores[0] if scores else 0}
    count = named.get("num_weights")
    table = count if isinstance(count, int) else (*shape("weight"), 0)[0]
    if name == "embedding_dense_backward":
        return {"indices": table}
    if name.startswith("_embedding_bag") and name.endswith("backward"):
        return {"indices": table, "maximum_indices": table, "offset2bag": (*rows, 0)[0]}
    return {}


def check_sizes(calls: Sequence[OperationCall]) -> None:
    """Refuse a trace whose operations would make other tensors than it says; nothing is allocated.

    Raises:
        CannotReplayError: Names the operation.
    """
    import torch

    meta = torch.device("meta")
    checked: dict[tuple[Any, ...], int] = {}
    with torch.no_grad():
        for call in calls:
            operation = call.operation
            where = f"{shown(operation.name)} (node {operation.id})"
            for use in tensors_of(operation.inputs):
                if use.element_bytes != (size := dtype_of(use.element).itemsize):
                    raise CannotReplayError(
                        f"{where}: elements of {use.element_bytes} bytes, {use.element} has {size}"
                    )
            form = (operation.schema, _form(operation.inputs), _form(operation.outputs))
            name = plain_name(operation_name(operation.schema)[1])
            call.inside = checked.get(form, 0)
            if form in checked or name in _UNKNOWN_SIZE:
                continue
            checked[form] = 0
            if _parts(name, operation) > len(list(tensors_of(operation.outputs))):
                raise CannotReplayError(f"{where}: it has more results than the trace says")
            if name.startswith("_fused_"):
                _check_alike(operation, where)
            _check_shapes(call, where)
            try:
                uses = list(tensors_of(operation.inputs))
                given = [_empty(use, meta) for use in uses]
                one = OperationCall(operation, meta, uses.index)
                made, inside = with_bytes(lambda: one.run(given), given)  # noqa: B023 - called here
                if name != "scaled_dot_product_attention":  # which takes another way than on meta
                    call.inside = checked[form] = inside
            except CannotReplayError:
                raise
            except NotImplementedError:
                if name.startswith("_fused_") and call.writes and not operation.outputs:
                    continue  # it makes nothing, and what it writes is checked above
                if mask_of(operation) is not None:
                    continue  # it has this number of elements for results that fit
                raise CannotReplayError(f"{where}: the sizes of its results are unknown") from None
            except Exception as error:  # whatever torch's own check of the arguments raises
                text = shown(str(error).partition("\n")[0])
                raise CannotReplayError(f"{where}: {text}") from None
            outputs, results = list(tensors_of(operation.outputs)), list(tensors_in(made))
            if name in ("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"):
                # Of a bag's other results meta makes more than a CPU.
                outputs, results = outputs[:1], results[:1]
            if len(outputs) > len(results):
                raise CannotReplayError(
                    f"{where}: it has {len(results)} results, the trace says {len(outputs)}"
                )
            pairs = [
                (use.count * use.element_bytes, tensor.numel() * tensor.itemsize)
                for use, tensor in zip(outputs, results, strict=False)
            ]
            # Of what is not recorded there may be as much as the operation is given.
            size = sum(use.count * use.element_bytes for use in tensors_of(operation.inputs))
            rest = results[len(outputs) :]
            pairs.append((size, sum(tensor.numel() * tensor.itemsize for tensor in rest)))
            for said, makes in pairs:
                if makes > said:
                    raise CannotReplayError(
                        f"{where}: it makes {makes:,} bytes, the trace says {said:,}"
                    )


def _parts(name: str, operation: Operation) -> int:
    """Return how many tensors an operation makes of one, where their number is known."""
    first, *rest = operation.inputs or (None,)
    name = name.removeprefix("unsafe_")
    if name not in ("unbind", "split", "chunk", "tensor_split") or not isinstance(first, TensorUse):
        return 0
    *sizes, dim = rest if len(rest) == (1 if name == "unbind" else 2) else (*rest, 0)
    size = sizes[0] if sizes else 1
    if type(size) is not int or type(dim) is not int or size < 1:
        return 0
    length = first.shape[dim] if -len(first.shape) <= dim < len(first.shape) else 0
    if name == "tensor_split":
        return size
    if name == "chunk":
        size = max(1, -(-length // size))
    return -(-length // size)


def _check_shapes(call: OperationCall, where: str) -> None:
    """Refuse tensors whose sizes an operation's kernel takes for granted, and meta's form does not check.

    Raises:
        CannotReplayError: Names the operation.
    """
    name = plain_name(operation_name(call.operation.schema)[1])
    values = dict(zip(call.names, call.operation.inputs, strict=False))
    named = {word: use.shape for word, use in values.items() if isinstance(use, TensorUse)}
    given = named.get("input", named.get("self", ()))
    wrong = False
    if "batch_norm" in name:
        words = _BY_CHANNEL if values.get("train") is False else (*_BY_CHANNEL, *_SAVED)
        wrong = any(named.get(word, given[1:2]) != given[1:2] for word in words)
    elif name in ("native_layer_norm_backward", "native_group_norm_backward"):
        inner, batch, groups = (values.get(word) for word in ("normalized_shape", "N", "group"))
        if isinstance(inner, tuple):
            count = math.prod(given[: len(given) - len(inner)])
        else:
            count = batch * groups if isinstance(batch, int) and isinstance(groups, int) else 0
        wrong = any(math.prod(named.get(word, (count,))) != count for word in ("mean", "rstd"))
    elif name.startswith("_scaled_dot_product_flash_attention_for_cpu"):
        query, key, value = (named.get(word, ())[:2] for word in ("query", "key", "value"))
        wrong = key != value or query != key
        if wrong and key == value and len(query) == len(key) == 2 and _shares_heads():
            wrong = query[0] != key[0] or key[1] < 1 or query[1] % key[1] != 0
    elif name.startswith("mkldnn_rnn_layer"):
        size = values.get("hidden_size")
        layer = [*given[:-1], size]
        wrong = not isinstance(size, int) or any(
            list(shape) != layer if "output" in word else shape[-1:] != (size,)
            for word, shape in named.items()
            if word in ("hx_", "cx_", "cx_tmp", "output", "grad_output")
        )
        weights = [shape for word, shape in named.items() if word.startswith("weight")]
        gates = 4 * size if isinstance(size, int) else 0  # of an LSTM, the one that it serves
        wrong |= weights != [(gates, *given[-1:]), (gates, size), (gates,), (gates,)]
    elif name == "resize":
        wrong = any(use.span > math.prod(given) for use in tensors_of(call.operation.outputs))
    if wrong:
        raise CannotReplayError(f"{where}: tensors of sizes that do not fit each other")


def _shares_heads() -> bool:
    """Return whether torch's attention on a CPU knows queries that share the heads of keys and values."""
    import torch

    return tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13)


def _check_alike(operation: Operation, where: str) -> None:
    """Refuse a fused optimizer's lists of unlike tensors: it writes as far as the sizes of the first.

    Raises:
        CannotReplayError: Names the operation.
    """
    import torch

    names = (one.name for one in torch._C.parse_schema(operation.schema).arguments)
    lists = {
        name: [one for one in given if isinstance(one, TensorUse)]
        for name, given in zip(names, operation.inputs, strict=False)
        if isinstance(given, tuple) and given
    }
    if len({len(one) for one in lists.values()}) > 1:
        raise CannotReplayError(f"{where}: lists of different lengths")
    lists.pop("state_steps", None)  # numbers
    shapes = [[use.shape for use in one] for one in lists.values()]
    if any(one != shapes[0] for one in shapes):
        raise CannotReplayError(f"{where}: tensors of different shapes")
    if any(use.span != use.count for one in lists.values() for use in one):
        raise CannotReplayError(f"{where}: tensors with overlaps or gaps")


def _form(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments without what distinguishes tensors of one form."""
    return tuple(
        (one.element, one.element_bytes, one.shape, one.strides)
        if isinstance(one, TensorUse)
        else _form(one)
        if isinstance(one, tuple)
        else one
        for one in arguments
    )


def dtype_of(element: str) -> torch.dtype:
    """Return torch's type of elements that a trace names; raise `CannotReplayError` if there is none."""
    import torch

    name = ELEMENTS.get(element)
    if name is None or not hasattr(torch, name):
        raise CannotReplayError(f"a tensor of {element[:40]}")
    found: torch.dtype = getattr(torch, name)
    return found


def _empty(use: TensorUse, device: torch.device) -> torch.Tensor:
    import torch

    steps = use.strides if use.strides is not None else contiguous(use.shape)
    return torch.empty_strided(use.shape, steps, dtype=dtype_of(use.element), device=device)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a tensor without gaps."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= max(1, size)
    return tuple(reversed(steps))
