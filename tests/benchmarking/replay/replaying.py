"""Steps ready to be replayed on a CPU, and a look at each operation that they run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking.replay.operation_calls import OperationCall
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.traces.execution_trace import ExecutionTrace
from pytest_anubis.traces.trace_reading import read_trace
from tests.traces.made_traces import write

CPU = torch.device("cpu")


def prepared(trace: ExecutionTrace) -> ReplayedStep:
    """Return a step that can run."""
    step = ReplayedStep(trace, CPU)
    step.prepare()
    return step


def prepared_file(folder: Path, data: dict[str, Any]) -> ReplayedStep:
    """Return the step of a trace that is written and read first."""
    return prepared(read_trace(write(folder, data)))


def look_at_calls(
    monkeypatch: pytest.MonkeyPatch, look: Callable[[OperationCall, Any, Any], object]
) -> None:
    """Have each call shown after it has run, with its tensors and its result."""
    own = OperationCall.run

    def run(call: OperationCall, tensors: Any) -> Any:
        result = own(call, tensors)
        look(call, tensors, result)
        return result

    monkeypatch.setattr(OperationCall, "run", run)
