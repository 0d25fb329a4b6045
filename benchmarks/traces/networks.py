"""Networks of the catalogue with a recorded step, for the figures about traces."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.benchmarking.replay.trace_recording import recording
from pytest_anubis.traces.execution_trace import ExecutionTrace
from pytest_anubis.traces.trace_reading import read_trace
from suites.workload.catalogue import BY_NAME, Sizes
from suites.workload.running import training_step

CPU = torch.device("cpu")
NETWORKS = {
    "resnet50": Sizes(batch=4, length=64),
    "lstm": Sizes(batch=16, length=32),
    "llama-small": Sizes(batch=2, length=128),
    "experts-small": Sizes(batch=2, length=128),
}
"""A convolutional, a recurrent and an attention network, and one with experts, in sizes for a CPU."""

SMALLER = {"lstm": {"width": 256, "layers": 2}}
"""Shapes that a CPU takes a step of in a tenth of a second."""

WARM_UP = 3


@dataclass(frozen=True)
class RecordedNetwork:
    """A network's training step beside its replay.

    Attributes:
        name: Of the network.
        step: The original step.
        trace: One recorded step.
        replay: Prepared.
    """

    name: str
    step: Callable[[], object]
    trace: ExecutionTrace
    replay: ReplayedStep


def recorded(name: str, times: int = 1) -> RecordedNetwork:
    """Return a network with one recorded step.

    Args:
        name: One of `NETWORKS`.
        times: By how much its batch is larger.
    """
    sizes = NETWORKS[name]
    row = BY_NAME[name]
    row = replace(row, shape={**row.shape, **SMALLER.get(name, {})})
    step = training_step(row, replace(sizes, batch=times * sizes.batch), CPU, "float32").run
    for _ in range(WARM_UP):
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.trace.json"
        with recording(path):
            step()
        trace = read_trace(path)
    replay = ReplayedStep(trace, CPU)
    replay.prepare()
    for _ in range(WARM_UP):
        replay.restore()
        replay.run()
    return RecordedNetwork(name, step, trace, replay)
