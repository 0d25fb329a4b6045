"""An obfuscated trace replays like the original, and says nothing of whose job it was."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking.replay.operation_calls import OperationCall
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.traces.execution_trace import ExecutionTrace
from pytest_anubis.traces.obfuscation import ROOT, obfuscated, power_of_two
from pytest_anubis.traces.operation_kinds import kind_of
from pytest_anubis.traces.step_plan import planned
from pytest_anubis.traces.trace_reading import read_trace
from pytest_anubis.traces.trace_writing import STRIDED, WITHOUT_STRIDES, trace_data
from tests.traces.made_traces import MM, node, recorded_step, tensor, two_products, write

FORM = {STRIDED, WITHOUT_STRIDES, ROOT, "tid", "op_schema", "tensor_range", "string", "uint64"}
FORM |= {"cpu", "cuda:0", "<None>", "None", "", "unknown"}
"""What the form itself says, and sorts of devices."""

DIV = "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"


def _full_of_secrets() -> dict[str, Any]:
    """Return a trace with a secret wherever a text or a number may be one."""
    data = two_products() | {"pid": 987654, "time": "2026-01-01 secret"}
    group: tuple[Any, ...] = ("secret group", [], "String")
    more: tuple[Any, ...] = (
        ("cuda:3", [], "Device"), (0.3, [], "Double"), ("-inf", [], "Double"), (7, [], "Int"),
        (["secret", True], [[], []], "GenericList[String,Bool]"), ("<Secret>", [], "SecretClass"),
    )  # fmt: skip
    three = tensor(15, 8)
    three[0][5] = "cuda:3"
    schema = "c10d::allreduce_(Tensor[] tensors, str group) -> Tensor[]"
    data["nodes"] += [
        node(5, "c10d::allreduce_", schema, (three, group, *more), (three,)),
        node(6, "aten::div", DIV, (tensor(13, 8), tensor(14, 8), ("floor", [], "String"))),
        node(7, "mine::secret_inner", MM.replace("aten", "secret"), parent=5),
        node(8, "secret kernel", "a secret kernel"),
    ]
    hidden = {"kernel_file": "secret.py", "tid": 4711, "tensor_range": '{"0": [4711, 7]}'}
    data["nodes"][2]["attrs"] += [{"name": name, "value": hidden[name]} for name in hidden]
    return data


def _secrets() -> str:
    return json.dumps(_full_of_secrets())


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    for one in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _texts(one)


def _both(folder: Path, text: str) -> tuple[ExecutionTrace, dict[str, Any]]:
    path = folder / "original.trace.json"
    path.write_text(text, encoding="utf-8")
    trace = read_trace(path)
    return trace, trace_data(obfuscated(trace))


@pytest.mark.parametrize("made", [_secrets, recorded_step])
def test_no_text_of_the_original_is_left_but_of_operations(
    tmp_path: Path, made: Callable[[], str]
) -> None:
    trace, data = _both(tmp_path, made())
    texts = set(_texts(data))
    operations = {one.name for one in trace.operations} | {one.schema for one in trace.operations}
    elements = {one for one in texts if one.startswith(("Tensor(", "GenericList["))}
    simple = {"Int", "Double", "Bool", "String", "floor", "-inf", '{"0": [0.0, 7.0]}'}
    assert texts <= FORM | operations | elements | simple
    written = json.dumps(data).lower()
    assert not [word for word in ("secret", "cuda:3", "987654", "4711", "0.3") if word in written]


@pytest.mark.parametrize("made", [_secrets, recorded_step])
def test_plan_and_kinds_are_those_of_the_original(tmp_path: Path, made: Callable[[], str]) -> None:
    trace, data = _both(tmp_path, made())
    read = read_trace(write(tmp_path, data))
    assert planned(read.operations) == planned(trace.operations)
    assert [kind_of(one.schema) for one in read.operations] == [
        kind_of(one.schema) for one in trace.operations
    ]
    assert {one.parent for one in read.nodes} == {read.nodes[0].id}
    assert read.nodes == obfuscated(trace).nodes


def test_it_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, data = _both(tmp_path, recorded_step())
    shapes: list[list[tuple[int, ...]]] = []
    own = OperationCall.run

    def run(call: OperationCall, tensors: Any) -> Any:
        result = own(call, tensors)
        results = result if isinstance(result, list | tuple) else [result]
        shapes[-1] += [tuple(one.shape) for one in results if isinstance(one, torch.Tensor)]
        return result

    steps = [
        ReplayedStep(one, torch.device("cpu")) for one in (trace, read_trace(write(tmp_path, data)))
    ]
    monkeypatch.setattr(OperationCall, "run", run)
    for step in steps:
        shapes.append([])
        step.prepare()
        step.run()
    assert steps[0].count == steps[1].count
    assert shapes[0] == shapes[1]


def test_nearest_power_of_two() -> None:
    nearest = {0.1: 0.125, -3.0: -4.0, 1e-5: 2.0**-17, 2.9: 2.0, 1.7e308: 2.0**1023, 5e-324: 5e-324}
    nearest |= {0.0: 0.0, math.inf: math.inf, -math.inf: -math.inf}
    assert {number: power_of_two(number) for number in nearest} == nearest
    assert math.isnan(power_of_two(math.nan))


def test_what_decides_a_size_stays(tmp_path: Path) -> None:
    data = two_products()
    arange = "aten::arange.start_step(Scalar start, Scalar end, Scalar step=1) -> Tensor"
    upsample = "aten::upsample_nearest2d.vec(Tensor input, SymInt[]? size, float[]? scale_factors) -> Tensor"
    einsum = "aten::einsum(str equation, Tensor[] tensors) -> Tensor"
    scales: tuple[Any, ...] = ([1.5, 1.5], [[], []], "GenericList[Double,Double]")
    given: list[tuple[Any, ...]] = [(0.3, [], "Double"), (10.3, [], "Double"), (0.7, [], "Double")]
    data["nodes"] += [
        node(5, "aten::arange", arange, tuple(given)),
        node(6, "aten::upsample_nearest2d", upsample, (tensor(15, 8), ("", [], "None"), scales)),
        node(7, "aten::einsum", einsum, (("nbd,ncd->nbc", [], "String"),)),
    ]
    operations = obfuscated(read_trace(write(tmp_path, data))).nodes[-3:]
    assert operations[0].inputs == (0.3, 10.3, 0.7)
    assert operations[1].inputs[2] == (1.5, 1.5)
    assert operations[2].inputs == ("DAC,DBC->DAB",)
