"""A job's default type is that of its replay, whatever it is in the replay's process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pytest_anubis.benchmarking.replay.operation_calls import ELEMENTS, OperationCall
from pytest_anubis.benchmarking.replay.step_memory import tensors_in
from pytest_anubis.benchmarking.replay.trace_recording import recording
from pytest_anubis.traces.execution_trace import ExecutionTrace, tensors_of
from pytest_anubis.traces.trace_reading import read_trace
from tests.benchmarking.replay.replaying import look_at_calls, prepared

DTYPES = (torch.float64, torch.float32, torch.bfloat16)


@pytest.fixture(autouse=True)
def own_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


def recorded(tmp_path: Path, dtype: torch.dtype) -> ExecutionTrace:
    """Return a training step in a default type, with what torch makes in it from nothing or whole numbers."""
    torch.set_default_dtype(dtype)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    given, kinds, whole = torch.randn(4, 8), torch.randint(0, 10, (4,)), torch.arange(4)[:, None]

    def step() -> None:
        optimizer.zero_grad()
        made = torch.zeros(10) + torch.ones(1) + torch.full((1,), 2.0) + torch.rand(10)
        made = made + torch.eye(4, 10) + torch.linspace(0, 1, 10) + torch.where(whole > 1, 1.0, 0.0)
        scores = model(given) * 0.5 + made + whole / 2 + whole.sqrt() + whole * 0.5
        nn.functional.cross_entropy(scores, kinds).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    step()
    with recording(tmp_path / "job.trace.json"):
        step()
    return read_trace(tmp_path / "job.trace.json")


@pytest.mark.parametrize("of_job", DTYPES)
@pytest.mark.parametrize("of_replay", DTYPES[:2])
def test_every_result_has_its_recorded_type(
    tmp_path: Path,
    of_job: torch.dtype,
    of_replay: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = recorded(tmp_path, of_job)
    torch.set_default_dtype(of_replay)
    step = prepared(trace)
    seen = []

    def look(call: OperationCall, tensors: Any, result: Any) -> None:
        for use, made in zip(tensors_of(call.operation.outputs), tensors_in(result), strict=False):
            assert made.dtype is getattr(torch, ELEMENTS[use.element]), call.operation.name
            seen.append(made.dtype)

    look_at_calls(monkeypatch, look)
    step.run()
    assert of_job in seen
    assert torch.get_default_dtype() is of_replay
