"""Predict a step's time from a profile of operations, without running it (`anubis trace predict`).

A profile has the time of every operation that was measured on one machine, by operation, shapes and types.
A prediction adds up the operations in their order on one stream, and collectives by their volume on another:
only the part of a collective that its users wait for counts. Idea: simulation from offline profiling.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pytest_anubis.core.field_types import Range
from pytest_anubis.traces.execution_trace import (
    Argument,
    ExecutionTrace,
    Operation,
    TensorUse,
    tensors_of,
)
from pytest_anubis.traces.operation_kinds import (
    FREE_OF_WORK,
    Kind,
    kind_of,
    operation_name,
    plain_name,
)

FORMAT = "anubis-operations"

_BACKWARD = 2.0  # products of a backward convolution: for its input and for its weights


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledOperation:
    """The time of one operation on tensors of one form."""

    schema: str  # the operation
    form: str  # its arguments: element types, shapes and strides of tensors, and all other values
    seconds: Annotated[float, Range(least=0)]  # median time of one call
    # FLOP of a product or convolution, bytes of anything else
    work: Annotated[float, Range(least=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationProfile:
    """Times of operations on one device."""

    device: str  # such as ``cpu``
    machine: str  # the node
    # Time of a step over the sum of its operations' times, each of which was waited for
    ratio: Annotated[float, Range(least=0)]
    operations: tuple[ProfiledOperation, ...]  # what was measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a step is predicted to take."""

    seconds: float  # of the step
    exposed: float  # seconds of it in which operations wait for collectives
    known: int  # operations whose form the profile has
    scaled: int  # those whose time was scaled from others, by work
    scaled_share: float  # share of the operations' time that was scaled
    # Names of operations of which the profile has nothing alike; they count as no time
    unknown: Mapping[str, int]


def form_of(arguments: tuple[Argument, ...]) -> str:
    """Return the key of calls that take the same time: element types, shapes, strides and other values."""
    return ", ".join(_form(one) for one in arguments)


def _form(one: Argument) -> str:
    if isinstance(one, TensorUse):
        return f"{one.element}{list(one.shape)}{'' if one.strides is None else list(one.strides)}"
    return f"({form_of(one)})" if isinstance(one, tuple) else str(one)


def work_of(operation: Operation) -> float:
    """Return the FLOP of a product or convolution, and the bytes that any other operation moves."""
    kind = kind_of(operation.schema)
    inputs, outputs = list(tensors_of(operation.inputs)), list(tensors_of(operation.outputs))
    if kind is Kind.MATRIX and outputs:
        inner = next((one.shape[-1] for one in inputs if len(one.shape) > 1), 1)
        return 2.0 * outputs[0].count * inner
    if kind is Kind.CONVOLUTION and len(inputs) > 1 and outputs:
        if "backward" in operation.name:
            weights = inputs[2] if len(inputs) > 2 else inputs[1]
            return 2.0 * _BACKWARD * inputs[0].count * weights.count / max(1, weights.shape[0])
        return 2.0 * outputs[0].count * inputs[1].count / max(1, inputs[1].shape[0])
    return float(sum(one.count * one.element_bytes for one in (*inputs, *outputs)))


def predict(
    trace: ExecutionTrace, profile: OperationProfile, *, ranks: int = 1, link: float = 0.0
) -> Prediction:
    """Return what a step takes on the machine of a profile.

    Args:
        trace: The step.
        profile: Of one machine and device.
        ranks: Processes that take part in the collectives; 1: they take no time.
        link: Bytes a second between two ranks.
    """
    times = _Times(profile.operations)
    now = channel = exposed = scaled_seconds = total = 0.0
    known = scaled = 0
    ready: dict[int, float] = {}  # storage -> when the collective that writes it ends
    unknown: dict[str, int] = {}
    for operation in trace.operations:
        kind = kind_of(operation.schema)
        used = [use.storage or use.tensor for use in tensors_of(operation.inputs)]
        if kind is Kind.COLLECTIVE:
            begin = max(now, channel)
            channel = begin + _collective(operation, ranks, link)
            written = (use.storage or use.tensor for use in tensors_of(operation.outputs))
            ready.update(dict.fromkeys((*used, *written), channel))
            continue
        if operation_name(operation.schema)[1] in FREE_OF_WORK:
            continue
        waits = max((ready.pop(one) for one in used if one in ready), default=now)
        exposed += max(0.0, waits - now)
        now = max(now, waits)
        seconds, exact = times.of(operation)
        if seconds is None:
            unknown[operation.name] = unknown.get(operation.name, 0) + 1
            continue
        known, scaled = known + exact, scaled + (not exact)
        seconds *= profile.ratio
        total += seconds
        scaled_seconds += 0.0 if exact else seconds
        now += seconds
    end = max(now, channel)
    return Prediction(
        seconds=end,
        exposed=exposed + end - now,
        known=known,
        scaled=scaled,
        scaled_share=scaled_seconds / total if total else 0.0,
        unknown=unknown,
    )


def _collective(operation: Operation, ranks: int, link: float) -> float:
    """Return the seconds of a collective: its volume as a ring sends it, over the link's rate."""
    if ranks < 2 or link <= 0:
        return 0.0
    volume = sum(use.count * use.element_bytes for use in tensors_of(operation.inputs))
    share = (ranks - 1) / ranks
    return volume * (2 * share if "allreduce" in operation.name else share) / link


class _Times:
    """Times of operations by form; scaled by work where the form is new."""

    def __init__(self, operations: Iterable[ProfiledOperation]) -> None:
        self._exact: dict[tuple[str, str], float] = {}
        self._rates: dict[str, list[tuple[float, float]]] = {}
        for one in operations:
            self._exact[one.schema, one.form] = one.seconds
            kind = kind_of(one.schema)
            for name in (_plain(one.schema), kind.value if kind else ""):
                self._rates.setdefault(name, []).append((one.work, one.seconds))

    def of(self, operation: Operation) -> tuple[float | None, bool]:
        """Return the seconds of an operation, None if unknown; and whether they are those of its own form."""
        exact = self._exact.get((operation.schema, form_of(operation.inputs)))
        if exact is not None:
            return exact, True
        kind = kind_of(operation.schema)
        for name in (_plain(operation.schema), kind.value if kind else ""):
            if alike := self._rates.get(name):
                return _scaled(alike, work_of(operation)), False
        return None, False


def _plain(schema: str) -> str:
    return f"aten::{plain_name(operation_name(schema)[1])}"


def _scaled(alike: list[tuple[float, float]], work: float) -> float:
    """Return the time of other work at the rate of the operation nearest in work, at least the shortest time.

    A small operation takes its call's time however small it is.
    """
    done, seconds = min(alike, key=lambda pair: abs(math.log((pair[0] + 1) / (work + 1))))
    return max(min(time for _, time in alike), seconds * work / done if done else seconds)
