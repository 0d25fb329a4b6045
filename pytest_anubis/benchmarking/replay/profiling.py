"""Time every operation of some traces on this machine, for `anubis trace profile`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from pytest_anubis.benchmarking.placement import synchronize
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.traces.step_prediction import (
    OperationProfile,
    ProfiledOperation,
    form_of,
    work_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_anubis.benchmarking.replay.operation_calls import OperationCall
    from pytest_anubis.traces.execution_trace import ExecutionTrace

ROUNDS = 9
"""How often each step is run with its operations timed, and as often without."""

_WARM_UP = 3


def profiled(traces: Iterable[ExecutionTrace], device: str, machine: str) -> OperationProfile:
    """Return the median time of every operation of some traces.

    Args:
        traces: What is replayed.
        device: As torch names it.
        machine: Name of the node.

    Raises:
        CannotReplayError: An operation cannot be run here.
        RuntimeError: There is no such device.
    """
    import torch

    target = torch.device(device)
    wait = partial(synchronize, target)
    times: dict[tuple[str, str], list[float]] = {}
    work: dict[tuple[str, str], float] = {}
    whole = parts = 0.0
    for trace in traces:
        step = ReplayedStep(trace, target)
        step.prepare()
        for _ in range(_WARM_UP):
            _once(step, wait)
        plain, sums = [], []
        for _ in range(ROUNDS):
            plain.append(_once(step, wait))
            timed: list[tuple[OperationCall, float]] = []
            step.ready()
            step.time_operations(wait, lambda *one: timed.append(one))  # noqa: B023 - called here
            for call, seconds in timed:
                key = call.operation.schema, form_of(call.operation.inputs)
                times.setdefault(key, []).append(seconds)
                work[key] = work_of(call.operation)
            sums.append(sum(seconds for _, seconds in timed))
        whole += statistics.median(plain)
        parts += statistics.median(sums)
    return OperationProfile(
        device=device,
        machine=machine,
        ratio=whole / parts if parts else 1.0,
        operations=tuple(
            ProfiledOperation(
                schema=key[0], form=key[1], seconds=statistics.median(values), work=work[key]
            )
            for key, values in times.items()
        ),
    )


def _once(step: ReplayedStep, wait: Callable[[], object]) -> float:
    step.ready()
    wait()
    begin = time.perf_counter()
    step.run()
    wait()
    return time.perf_counter() - begin
