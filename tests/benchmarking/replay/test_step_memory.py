"""What a step takes at most is known before it runs: within a factor of what torch then allocates."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.benchmarking.replay.step_memory import peak_bytes
from pytest_anubis.benchmarking.replay.trace_recording import recording
from pytest_anubis.traces.trace_reading import read_trace
from tests.benchmarking.replay.replaying import prepared

Job = Callable[..., Any]
ONE_D, TWO_D, THREE_D = (
    ((2, 16, 400), (32, 16, 9)),
    ((2, 16, 24, 24), (32, 16, 3, 3)),
    (
        (2, 4, 8, 12, 12),
        (8, 4, 3, 3, 3),
    ),
)
HEADS = ((4, 32, 8, 16), (4, 40, 8, 16))


def allocated(step: ReplayedStep) -> int:
    """Return the most bytes that torch has allocated at any moment of a step."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step.run()
    events = seen.profiler.kineto_results.events()
    memory = sorted(
        (one for one in events if one.name() == "[memory]"), key=lambda one: one.start_ns()
    )
    most: int = max(accumulate(one.nbytes() for one in memory))
    return most


def _marked(numbers: torch.Tensor) -> torch.Tensor:
    return torch.arange(numbers.numel()).reshape(numbers.shape) % 3 == 0


def _lstm(numbers: torch.Tensor) -> Any:
    return nn.LSTM(numbers.shape[-1], 32)(numbers)[0]


JOBS: dict[str, tuple[Job, tuple[tuple[int, ...], ...], torch.dtype]] = {
    "convolution in one dimension": (functional.conv1d, ONE_D, torch.float64),
    "convolution": (functional.conv2d, TWO_D, torch.float64),
    "convolution in single precision": (functional.conv2d, TWO_D, torch.float32),
    "convolution in three dimensions": (functional.conv3d, THREE_D, torch.float64),
    "dilated convolution": (lambda a, b: functional.conv2d(a, b, dilation=2), TWO_D, torch.float64),
    "convolution of groups": (
        lambda a, b: functional.conv2d(a, b, groups=4),
        ((2, 16, 24, 24), (32, 4, 3, 3)),
        torch.float64,
    ),
    "transposed convolution": (
        lambda a, b: functional.conv_transpose2d(a, b, stride=2),
        ((2, 16, 12, 12), (16, 8, 3, 3)),
        torch.float64,
    ),
    "expanded product": (torch.matmul, ((8, 1, 32, 64), (1, 8, 64, 16)), torch.float32),
    "einsum": (lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k), HEADS, torch.float32),
    "einsum of three": (
        lambda a, b, c: torch.einsum("bij,jk,kl->bil", a, b, c),
        ((8, 32, 16), (16, 24), (24, 8)),
        torch.float32,
    ),
    "windows": (lambda a: a.unfold(1, 40, 1) * 2, ((4, 400),), torch.float32),
    "loss of logits": (
        lambda a: functional.binary_cross_entropy_with_logits(a, a.sigmoid()),
        ((400, 16),),
        torch.float32,
    ),
    "divergence": (
        lambda a: functional.kl_div(a, a.abs(), reduction="batchmean"),
        ((400, 16),),
        torch.float32,
    ),
    "standard deviation": (lambda a: (a * 2).std(0), ((400, 16),), torch.float32),
    "mean of 16 bits": (lambda a: a.bfloat16().mean(0), ((400, 16),), torch.float32),
    "elements of a mask": (lambda a: a.masked_select(_marked(a)), ((400, 16),), torch.float32),
    "rows of a mask": (lambda a: a[_marked(a[:, 0])], ((400, 16),), torch.float32),
    "recurrent layer": (_lstm, ((20, 4, 16),), torch.float32),
}


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize(("job", "shapes", "dtype"), JOBS.values(), ids=JOBS)
def test_counted_bytes_are_near_those_that_are_allocated(
    tmp_path: Path,
    job: Job,
    shapes: tuple[tuple[int, ...], ...],
    dtype: torch.dtype,
    backward: bool,
) -> None:
    given = [torch.randn(shape, dtype=dtype, requires_grad=backward) for shape in shapes]
    with recording(tmp_path / "job.trace.json"):
        made = job(*given)
        if backward:
            made.sum().backward()
    step = prepared(read_trace(tmp_path / "job.trace.json"))
    counted, real = peak_bytes(step._calls, step._plan), allocated(step)
    assert 0.9 * real <= counted <= 2.5 * real + 4096
