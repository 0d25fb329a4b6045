"""Turn a recorded operation into a call of torch: its registered form, and arguments of the right types.

An operation is looked up by name among torch's registered ones; no text of a trace is ever run. What is bound
to one kind of device (batch norm and convolution of cuDNN, MIOpen and oneDNN) is translated to the form that
every device has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_anubis.traces.execution_trace import Opaque, Operation, TensorUse, tensors_of
from pytest_anubis.traces.operation_kinds import Kind, kind_of, operation_name
from pytest_anubis.traces.step_plan import WHOLE, argument_names

if TYPE_CHECKING:
    import torch

Arguments = list[Any]
_LEFT_OUT = frozenset(("Layout", "Generator", "Stream"))
"""Types of arguments that a replay gives no value: the usual layout, generator and stream are right."""

Translation = tuple[str, Callable[[Arguments], Arguments]]

# Numbers of c10::ScalarType, as traces hold them.
_TYPES = [
    *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32"),
    *("complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"),
]
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
ELEMENTS = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long": "int64",
    "long int": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
}
"""torch's name of an element type by that of a trace."""


class CannotReplayError(RuntimeError):
    """An operation of a trace cannot be run here; the message is one line and names it."""


def _zeros_like(sizes: Sequence[int]) -> list[int]:
    return [0] * len(sizes)


_NORM_BACKWARD: Translation = (
    "native_batch_norm_backward.default",
    lambda a: [a[1], a[0], *a[2:7], True, a[7], [True, True, a[2] is not None]],
)
_CONVOLUTION: Translation = (
    "convolution.default",
    lambda a: [*a[:3], a[4], a[3], a[5], False, _zeros_like(a[3]), a[6]],
)

# Where a device's own form is translated to: the name, and how its arguments are put.
_TRANSLATED: dict[str, Translation] = {
    "cudnn_batch_norm": ("native_batch_norm.default", lambda a: a[:8]),
    "miopen_batch_norm": ("native_batch_norm.default", lambda a: a[:8]),
    "cudnn_batch_norm_backward": _NORM_BACKWARD,
    "miopen_batch_norm_backward": _NORM_BACKWARD,
    "cudnn_convolution": (
        "convolution.default",
        lambda a: [a[0], a[1], None, a[3], a[2], a[4], False, _zeros_like(a[2]), a[5]],
    ),
    "cudnn_convolution_transpose": (
        "convolution.default",
        lambda a: [a[0], a[1], None, a[4], a[2], a[5], True, a[3], a[6]],
    ),
    "miopen_convolution": _CONVOLUTION,
    "miopen_depthwise_convolution": _CONVOLUTION,
    "miopen_convolution_transpose": (
        "convolution.default",
        lambda a: [*a[:3], a[5], a[3], a[6], True, a[4], a[7]],
    ),
    "mkldnn_convolution": _CONVOLUTION,
    "_reshape_alias": ("as_strided.default", lambda a: a[:3]),  # which checks that it stays within
    "pin_memory": ("clone.default", lambda a: a[:1]),
    "_pin_memory": ("clone.default", lambda a: a[:1]),
}


_SHORTER = {"cudnn_batch_norm": (8, 3), "cudnn_batch_norm_backward": (8, 3)}
"""How many arguments and results a translation has, of those that were recorded."""


_EMPTY = ("empty", "new_empty")


def _one_by(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operation that makes memory for one number, and writes 1 there.

    A trace has no operation for what the host writes into new memory, such as the number of ``tensor(1.0)``.
    """
    return lambda *given, **named: function(*given, **named).fill_(1)


def _default_of(operation: Operation) -> Any:
    """Return the job's default type if an operation's result shows another one than here; else None."""
    import torch

    floating = {"double", "float", "c10::Half", "c10::BFloat16"}
    made = {use.element for use in tensors_of(operation.outputs)} & floating
    words = argument_names(operation.schema)
    stated = dict(zip(words, operation.inputs, strict=False)).get("dtype")
    given = {use.element for use in tensors_of(tuple(_with_numbers(operation)))}
    if len(made) != 1 or stated is not None or given & floating or not given <= WHOLE:
        return None
    dtype = getattr(torch, ELEMENTS[made.pop()])
    return None if dtype is torch.get_default_dtype() else dtype


def _with_default(function: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    """Return an operation that runs with a default type of its own, as the job had set it."""
    import torch

    def run(*given: Any, **named: Any) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            return function(*given, **named)
        finally:
            torch.set_default_dtype(before)

    return run


class OperationCall:
    """One operation of a trace, ready to be run on tensors in numbered slots.

    Its arguments are put together once, so that a run only fills in the tensors.

    Attributes:
        operation: What was recorded.
        kind: Of the operation.
        inside: Bytes that it makes at most, its results included; known after `check_sizes`.
        names: Names of the recorded inputs.
        writes: Numbers of the recorded inputs that it changes in place.

    Args:
        operation: What was recorded.
        device: Where it runs.
        slot_of: Returns the number of a tensor's slot.

    Raises:
        CannotReplayError: It may not be run, or torch has no such operation here.
    """

    __slots__ = (
        "_arguments",
        "_fills",
        "_function",
        "_named",
        "_named_fills",
        "inside",
        "kind",
        "names",
        "operation",
        "writes",
    )

    def __init__(
        self, operation: Operation, device: torch.device, slot_of: Callable[[TensorUse], int]
    ) -> None:
        import torch

        kind = kind_of(operation.schema)
        if kind is None or kind is Kind.COLLECTIVE:
            raise CannotReplayError(operation.name)
        _, name, overload = operation_name(operation.schema)
        if name in _SHORTER:
            inputs, outputs = _SHORTER[name]
            operation = replace(
                operation, inputs=operation.inputs[:inputs], outputs=operation.outputs[:outputs]
            )
        self.operation, self.kind, self.inside = operation, kind, 0
        recorded = _registered(torch, f"{name}.{overload}")
        translation = _TRANSLATED.get(name)
        self._function = _registered(torch, translation[0]) if translation else recorded
        if recorded is None or self._function is None:
            raise CannotReplayError(operation.name)
        if name.startswith(_EMPTY) and [use.count for use in tensors_of(operation.outputs)] == [1]:
            self._function = _one_by(self._function)
        if (dtype := _default_of(operation)) is not None:
            self._function = _with_default(self._function, dtype)
        known = recorded._schema.arguments
        if "Tensor" not in str(recorded._schema):  # torch's scripts multiply lists of any length
            raise CannotReplayError(operation.name)
        if len(operation.inputs) > len(known) or _unknown(operation.inputs, known):
            raise CannotReplayError(operation.name)
        known_inputs = known[: len(operation.inputs)]
        self.names = tuple(one.name for one in known_inputs)
        # Batch norm changes its running values, which its schema does not say.
        self.writes = tuple(
            place
            for place, one in enumerate(known_inputs)
            if (one.alias_info is not None and one.alias_info.is_write)
            or one.name in ("running_mean", "running_var")
        )
        given = [
            _converted(torch, argument, one.name, str(one.real_type), device)
            for argument, one in zip(_with_numbers(operation), known_inputs, strict=True)
        ]
        self._named: dict[str, Any] = {}
        if translation:
            try:
                given = translation[1](given)
            except (LookupError, TypeError):  # too few arguments, or of other types
                raise CannotReplayError(operation.name) from None
        else:
            pairs = list(zip(known_inputs, given, strict=True))
            given = [value for one, value in pairs if not one.kwarg_only]
            self._named = {one.name: value for one, value in pairs if one.kwarg_only}
            # What makes a tensor makes it here, also where the job left the device to torch.
            self._named |= {
                one.name: device
                for one in known
                if one.kwarg_only and _bare(str(one.real_type)) == "Device"
            }
        self._arguments = given
        self._fills = _slots(enumerate(given), slot_of)
        self._named_fills = _slots(self._named.items(), slot_of)

    def run(self, tensors: Sequence[torch.Tensor | None]) -> Any:
        """Run the operation on the tensors of its slots; return what torch returns."""
        given, named = self._arguments.copy(), self._named
        for at, slots in self._fills:
            given[at] = _found(tensors, slots)
        if self._named_fills:
            named = {**named, **{at: _found(tensors, slots) for at, slots in self._named_fills}}
        return self._function(*given, **named)


def _with_numbers(operation: Operation) -> list[Any]:
    """Return the inputs, with tensors that were numbers of Python turned back into numbers.

    A trace has it as a tensor of double precision. As such it would make a result of double precision from
    two tensors without dimensions or from whole numbers; that the recorded result is none shows what it was.
    """
    results = {use.element for use in tensors_of(operation.outputs)}
    tensors = [one for one in operation.inputs if isinstance(one, TensorUse)]
    low = results & {"float", "c10::Half", "c10::BFloat16"}
    if (
        not low
        or len(tensors) < 2
        or any(one.shape and one.element not in WHOLE for one in tensors)
    ):
        return list(operation.inputs)
    return [
        1.0 if isinstance(one, TensorUse) and one.element == "double" else one
        for one in operation.inputs
    ]


Slots = int | list[int | None]
"""Where the tensor of an argument is, or each of a list; None where the list has no tensor."""


def _slots(
    arguments: Iterable[tuple[Any, Any]], slot_of: Callable[[TensorUse], int]
) -> list[tuple[Any, Slots]]:
    """Return the place and slots of the arguments that are tensors or have some."""
    found: list[tuple[Any, Slots]] = []
    for at, one in arguments:
        if isinstance(one, TensorUse):
            found.append((at, slot_of(one)))
        elif isinstance(one, list) and any(isinstance(part, TensorUse) for part in one):
            parts = [slot_of(part) if isinstance(part, TensorUse) else None for part in one]
            found.append((at, parts))
    return found


def _found(tensors: Sequence[torch.Tensor | None], slots: Slots) -> Any:
    if isinstance(slots, int):
        return tensors[slots]
    return [None if slot is None else tensors[slot] for slot in slots]


def _unknown(inputs: Sequence[Any], known: Sequence[Any]) -> bool:
    """Return whether a trace holds no value for an argument that the operation needs."""
    for one, argument in zip(inputs, known, strict=False):
        parts = one if isinstance(one, tuple) else (one,)
        if (
            any(isinstance(part, Opaque) for part in parts)
            and _bare(str(argument.real_type)) not in _LEFT_OUT
        ):
            return True
    return False


def _registered(torch: Any, name: str) -> Any:
    """Return a registered operation of ``aten``; None if there is none of this name."""
    name, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, name, None)
    found = getattr(packet, overload, None) if hasattr(packet, "overloads") else None
    return found if isinstance(found, torch._ops.OpOverload) else None


def _bare(kind: str) -> str:
    return (
        kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind
    )


def _converted(torch: Any, argument: Any, name: str, kind: str, device: Any) -> Any:
    """Return a recorded argument as the type that the operation wants; tensors stay what they are."""
    bare = _bare(kind)
    if bare == "ScalarType":
        return _of(torch, _TYPES, argument)
    if bare == "MemoryFormat":
        return _of(torch, _FORMATS, argument)
    if bare == "Device":
        return None if argument in (None, "") else device
    if bare in _LEFT_OUT or name == "pin_memory":
        return None
    if name == "unsafe":  # it would leave out the check of indices
        return False
    return list(argument) if isinstance(argument, tuple) else argument


def _of(torch: Any, names: Sequence[str], value: Any) -> Any:
    if type(value) is not int:
        return None
    if not 0 <= value < len(names):
        raise CannotReplayError(f"a type or layout of number {value}")
    return getattr(torch, names[value])
