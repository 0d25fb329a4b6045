"""Networks of the catalogue with a recorded step, for the figures about traces."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks.suites.faults.slowdowns import memory_neighbour
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.benchmarking.replay.trace_recording import recording
from pytest_anubis.benchmarking.shaped_link import NotPossible
from pytest_anubis.traces.execution_trace import ExecutionTrace
from pytest_anubis.traces.trace_reading import read_trace
from suites.workload.catalogue import BY_NAME, Sizes
from suites.workload.running import training_step

CPU = torch.device("cpu")
NETWORKS = {
    "resnet50": Sizes(batch=12, length=64),
    "lstm": Sizes(batch=16, length=32),
    "llama-small": Sizes(batch=4, length=128),
    "experts-small": Sizes(batch=4, length=128),
}
"""A convolutional, a recurrent and an attention network, and one with experts, in sizes for a CPU."""

SMALLER = {"lstm": {"width": 256, "layers": 2}}
"""Shapes that a CPU takes a step of in a tenth of a second."""

WARM_UP = 3
SEED = 41
ALLOWED = os.sched_getaffinity(0)
"""CPUs that this process may use."""


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
    return recorded_step(name, step)


def recorded_step(name: str, step: Callable[[], object]) -> RecordedNetwork:
    """Return a step with its recording, both warmed up."""
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
        replay.ready()
        replay.run()
    return RecordedNetwork(name, step, trace, replay)


def table_lookups() -> Callable[[], object]:
    """Return a training step most of which looks rows of a table up, and adds to them."""
    generator = torch.Generator().manual_seed(SEED)
    table = torch.nn.Embedding(20_000, 64)
    scores = torch.nn.Linear(64, 32)
    rows = torch.randint(0, 20_000, (2048, 32), generator=generator)
    wanted = torch.randint(0, 32, (2048,), generator=generator)
    parameters = [*table.parameters(), *scores.parameters()]
    return _trained(
        lambda: functional.cross_entropy(scores(table(rows).sum(1)), wanted), parameters
    )


def data_moves() -> Callable[[], object]:
    """Return a training step most of which joins, turns and reorders tensors."""
    generator = torch.Generator().manual_seed(SEED)
    weight = torch.nn.Parameter(torch.ones(256))
    pictures = torch.randn(48, 256, 256, generator=generator)

    def loss() -> torch.Tensor:
        moved = pictures * weight
        for _ in range(4):
            turned = moved.transpose(1, 2).contiguous()
            moved = torch.cat([turned[..., :128], moved.flip(2)[..., :128]], dim=2)
        return moved.mean()

    return _trained(loss, [weight])


def normalised_layers() -> Callable[[], object]:
    """Return a training step most of which brings tensors to mean 0 and spread 1."""
    generator = torch.Generator().manual_seed(SEED)
    layers = torch.nn.Sequential(*(torch.nn.LayerNorm(256) for _ in range(4)))
    texts = torch.randn(32, 512, 256, generator=generator)
    return _trained(lambda: layers(texts).mean(), list(layers.parameters()))


def _trained(
    loss: Callable[[], torch.Tensor], parameters: list[torch.nn.Parameter]
) -> Callable[[], object]:
    optimizer = torch.optim.SGD(parameters, lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_core() -> Iterator[None]:
    """Let torch compute with one thread on the first CPU, so that a neighbour may have the last."""
    with one_thread():
        os.sched_setaffinity(0, {min(ALLOWED)})
        try:
            yield
        finally:
            os.sched_setaffinity(0, ALLOWED)


@contextmanager
def neighbour_on_another_core() -> Iterator[None]:
    """Let another process stream memory: inside `one_core` it takes memory's time and no core's."""
    if len(ALLOWED) < 2:
        raise NotPossible("a neighbour needs a CPU of its own")
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ALLOWED)
    with memory_neighbour():
        os.sched_setaffinity(0, own)
        yield
