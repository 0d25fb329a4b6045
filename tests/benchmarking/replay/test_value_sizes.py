"""Results whose sizes depend on values have the recorded sizes again, or are named as without replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pytest_anubis.benchmarking.replay.operation_calls import CannotReplayError, OperationCall
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.benchmarking.replay.step_memory import tensors_in
from pytest_anubis.benchmarking.replay.trace_recording import recording
from pytest_anubis.traces.execution_trace import ExecutionTrace, Operation, TensorUse, tensors_of
from pytest_anubis.traces.trace_reading import read_trace
from tests.benchmarking.replay.replaying import CPU, look_at_calls, prepared

Job = Callable[[torch.Tensor, torch.Tensor], Any]


def recorded(tmp_path: Path, job: Job) -> ExecutionTrace:
    """Return the trace of a job on numbers that have gradients, and on a mask with 10 of 24 elements."""
    generator = torch.Generator().manual_seed(1)
    numbers = torch.randn(4, 6, 5, generator=generator, requires_grad=True)
    mask = torch.zeros(24, dtype=torch.bool)
    mask[torch.randperm(24, generator=generator)[:10]] = True
    with recording(tmp_path / "job.trace.json"):
        made = job(numbers, mask.reshape(4, 6))
        if isinstance(made, torch.Tensor) and made.requires_grad:
            made.sum().backward()  # type: ignore[no-untyped-call]
    return read_trace(tmp_path / "job.trace.json")


def shapes(trace: ExecutionTrace, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Return the shapes of a replay's results, each with the one that was recorded."""
    found = []

    def look(call: OperationCall, tensors: Any, result: Any) -> None:
        made = [tuple(one.shape) for one in tensors_in(result)]
        uses = [use.shape for use in tensors_of(call.operation.outputs)]
        found.append((made[: len(uses)], uses))

    step = prepared(trace)
    look_at_calls(monkeypatch, look)
    step.run()
    assert step.bits() == step.bits_at_first
    return found


def _put(numbers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    copy = numbers.clone()
    copy[mask] = numbers[mask] * 2
    copy[~mask] = torch.zeros(5)
    return copy


def _chosen_tokens(numbers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    rows = mask.flatten().nonzero().squeeze(1)
    return numbers.reshape(24, 5).index_select(0, rows)


JOBS: dict[str, Job] = {
    "rows": lambda numbers, mask: numbers[mask],
    "rows of a mask that the step makes": lambda numbers, mask: numbers[numbers[..., 0] > 0.3],
    "whole numbers": lambda numbers, mask: mask.to(torch.int32)[mask],
    "behind a dimension": lambda numbers, mask: numbers[:, mask[1]],
    "no row": lambda numbers, mask: numbers[mask & ~mask],
    "every row": lambda numbers, mask: numbers[mask | ~mask],
    "rows are put": _put,
    "elements": lambda numbers, mask: numbers.masked_select(numbers > 0),
    "elements of an expanded mask": lambda numbers, mask: numbers.masked_select(mask[..., None]),
    "elements are put": lambda numbers, mask: numbers.masked_scatter(
        mask[..., None].expand(4, 6, 5), numbers[mask].exp()
    ),
    "places": _chosen_tokens,
    "places of numbers": lambda numbers, mask: (numbers * mask[..., None]).nonzero(),
    "places by dimension": lambda numbers, mask: numbers[torch.where(mask)],
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_results_are_as_large_as_in_the_job(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    for made, wanted in shapes(recorded(tmp_path, job), monkeypatch):
        assert made == wanted


def test_labels_that_a_mask_picks_are_within_the_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = torch.randint(0, 5, (4, 6)).masked_fill_(torch.rand(4, 6) < 0.5, -100)

    def job(numbers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kept = labels != -100
        return nn.functional.cross_entropy(numbers[kept], labels[kept])

    trace = recorded(tmp_path, job)
    for made, wanted in shapes(trace, monkeypatch):
        assert made == wanted


def _packed(numbers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    lengths = torch.tensor([6, 5, 3, 1])
    packed = nn.utils.rnn.pack_padded_sequence(numbers, lengths, batch_first=True)
    layer = nn.GRU(5, 3)
    made: torch.Tensor = layer(packed)[0].data
    return made


REFUSED: dict[str, tuple[Job, str]] = {
    "packed": (_packed, "_pack_padded_sequence"),
    "different numbers": (lambda numbers, mask: torch.unique(numbers.detach().round()), "_unique2"),
    "a mask with an index": (
        lambda numbers, mask: numbers[mask, torch.arange(10) % 5],
        "aten::index ",
    ),
    "numbers counted": (lambda numbers, mask: mask.long().flatten().bincount(), "bincount"),
    "rows repeated": (
        lambda numbers, mask: numbers.repeat_interleave(torch.arange(4), dim=0),
        "repeat_interleave",
    ),
}


@pytest.mark.parametrize(("job", "name"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_size_of_its_own_is_named(tmp_path: Path, job: Job, name: str) -> None:
    trace = recorded(tmp_path, job)
    with pytest.raises(CannotReplayError, match=name):
        ReplayedStep(trace, CPU).prepare()


def _with(use: TensorUse, *shape: int) -> TensorUse:
    count = int(torch.Size(shape).numel())
    return replace(use, shape=shape, strides=None, count=count)


def _larger_rows(operation: Operation) -> Operation:
    numbers, mask = operation.inputs
    assert isinstance(numbers, TensorUse)
    return replace(operation, inputs=(_with(numbers, 4, 6, 1 << 40), mask))


def _more_rows_than_the_mask(operation: Operation) -> Operation:
    (made,) = operation.outputs
    assert isinstance(made, TensorUse)
    return replace(operation, outputs=(_with(made, 25, 5),))


def _smaller_elements(operation: Operation) -> Operation:
    (made,) = operation.outputs
    assert isinstance(made, TensorUse)
    return replace(operation, outputs=(replace(made, element="bool", element_bytes=1),))


@pytest.mark.parametrize("change", [_larger_rows, _more_rows_than_the_mask, _smaller_elements])
def test_a_mask_lets_no_operation_make_more_than_the_trace_says(
    tmp_path: Path, change: Callable[[Operation], Operation]
) -> None:
    trace = recorded(tmp_path, lambda numbers, mask: numbers.detach()[mask])
    nodes = tuple(
        change(one) if one.name == "aten::index" and one.outputs else one for one in trace.nodes
    )
    with pytest.raises(CannotReplayError, match="aten::index"):
        ReplayedStep(replace(trace, nodes=nodes), CPU)
