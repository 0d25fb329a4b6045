"""A trace of a GPU replays on a CPU: cuDNN's operations by those of every device, what is missing by name.

The trace is one of our own: a small convolutional network recorded on a CPU, written anew in the form that
those of GPUs have (ResNet's public ones: devices, cuDNN's batch norm, gradients reduced between ranks). It
shows that this form is read, translated and run, not a GPU's numbers, nor how long ResNet takes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking.replay.operation_calls import CannotReplayError
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.traces.execution_trace import tensors_of
from pytest_anubis.traces.trace_reading import read_trace
from tests.benchmarking.replay.replaying import CPU, prepared
from tests.traces.made_traces import node, recorded_step, tensor, write

PUBLIC = os.environ.get("ANUBIS_PUBLIC_TRACES", "")
"""Folder of public traces, which are not part of this project."""

RESERVE: Any = ([9_001, 9_002, 0, 64, 1, "cuda:0"], [64], [1], "Tensor(unsigned char)")
ALLREDUCE = "c10d::allreduce_(Tensor[] tensors) -> Tensor[]"


def of_a_gpu() -> dict[str, Any]:
    """Return the recorded step as a GPU writes it."""
    data: dict[str, Any] = json.loads(recorded_step().replace('"cpu"', '"cuda:0"'))
    for one in data["nodes"]:
        if one["name"] == "aten::native_batch_norm_backward":
            _to_cudnn(one)
    largest = max(one["id"] for one in data["nodes"])
    root = data["nodes"][0]["id"]
    data["nodes"].append(_strided(node(largest + 1, "c10d::allreduce_", ALLREDUCE, parent=root)))
    return data


def _to_cudnn(one: dict[str, Any]) -> None:
    one["name"] = "aten::cudnn_batch_norm_backward"
    (schema,) = (attr for attr in one["attrs"] if attr["name"] == "op_schema")
    schema["value"] = str(torch.ops.aten.cudnn_batch_norm_backward.default._schema)
    keys = ("values", "shapes", "strides", "types")
    gradient, pictures, *means, _train, epsilon, _mask = zip(
        *(one["inputs"][key] for key in keys), strict=True
    )
    changed = [pictures, gradient, *means, epsilon, RESERVE]
    one["inputs"] = {key: [arg[at] for arg in changed] for at, key in enumerate(keys)}


def _strided(one: dict[str, Any]) -> dict[str, Any]:
    for side in ("inputs", "outputs"):
        shapes = one[side]["shapes"]
        one[side]["strides"] = [[1] * len(shape) for shape in shapes]
    return one


def test_all_operations_of_a_gpus_trace_are_replayed_and_its_collectives_counted(
    tmp_path: Path,
) -> None:
    trace = read_trace(write(tmp_path, of_a_gpu()))
    devices = {use.device for one in trace.operations for use in tensors_of(one.inputs)}
    names = [one.name for one in trace.operations]
    assert devices == {"cuda:0"}
    assert names.count("aten::cudnn_batch_norm_backward") == 2
    step = prepared(trace)
    assert step.count == len(names) - 1
    assert dict(step.collectives) == {"c10d::allreduce_": 1}
    assert step.bits() == step.bits_at_first
    assert step.blind == 0


def test_every_operation_without_replay_is_named_with_its_number(tmp_path: Path) -> None:
    data = of_a_gpu()
    largest = max(one["id"] for one in data["nodes"])
    root = data["nodes"][0]["id"]
    missing = ("fbgemm::lookup", "fbgemm::lookup", "aten::_cudnn_rnn", "mine::fused")
    for number, name in enumerate(missing, largest + 1):
        added = node(number, name, f"{name}(Tensor a) -> Tensor", (tensor(77, 2),), parent=root)
        data["nodes"].append(_strided(added))
    with pytest.raises(CannotReplayError) as raised:
        ReplayedStep(read_trace(write(tmp_path, data)), CPU)
    text = str(raised.value)
    for name in set(missing):
        assert f"{name} ({missing.count(name)} times)" in text
    assert "\n" not in text


@pytest.mark.skipif(not PUBLIC, reason="ANUBIS_PUBLIC_TRACES names no folder of public traces")
def test_all_public_traces_are_read_and_replay_or_name_what_is_missing() -> None:
    files = sorted(Path(PUBLIC).glob("*.trace.json*"))
    assert files
    for file in files:
        trace = read_trace(file)
        known = {one.name[:20] for one in trace.operations}
        text = ""
        try:
            ReplayedStep(trace, CPU)
        except CannotReplayError as error:
            text = str(error)
        named = text.startswith("no replay here of ") and any(name in text for name in known)
        assert not text or named, file.name
