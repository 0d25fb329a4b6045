"""A recorded step runs again: all of its operations, with the shapes of the trace and the same bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking.replay import operation_calls, replayed_step
from pytest_anubis.benchmarking.replay.operation_calls import CannotReplayError, OperationCall
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.benchmarking.replay.step_memory import peak_bytes, tensors_in
from pytest_anubis.benchmarking.verification import flip_bit
from pytest_anubis.traces.execution_trace import ExecutionTrace, tensors_of
from pytest_anubis.traces.operation_kinds import Kind
from pytest_anubis.traces.step_plan import planned
from pytest_anubis.traces.trace_reading import read_trace
from tests.benchmarking.replay.replaying import CPU, look_at_calls, prepared, prepared_file
from tests.traces.made_traces import MM, node, recorded_step, tensor, two_products, write


@pytest.fixture
def trace(tmp_path: Path) -> ExecutionTrace:
    path = tmp_path / "step.trace.json"
    path.write_text(recorded_step(), encoding="utf-8")
    return read_trace(path)


def test_every_operation_gives_the_shapes_of_the_trace(
    trace: ExecutionTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(call: OperationCall, tensors: Any, result: Any) -> None:
        results = result if isinstance(result, list | tuple) else [result]
        made = [tuple(one.shape) for one in results if isinstance(one, torch.Tensor)]
        recorded = [use.shape for use in tensors_of(call.operation.outputs)]
        assert made[: len(recorded)] == recorded
        seen.append(call.operation.id)

    step = prepared(trace)
    look_at_calls(monkeypatch, look)
    step.run()
    assert seen == [one.id for one in trace.operations]
    assert step.count == len(seen)


def test_a_step_repeats_bit_for_bit_and_restores_what_it_changes(trace: ExecutionTrace) -> None:
    step = prepared(trace)
    once = step.bits()
    step.run()  # changes weights
    assert step.bits() == once
    assert prepared(trace).bits() == once


def test_numbers_stay_finite_from_step_to_step(
    trace: ExecutionTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = prepared(trace)
    for _ in range(20):
        step.run()
        step.ready()
    finite: list[bool] = []

    def look(call: OperationCall, tensors: Any, result: Any) -> None:
        finite.extend(bool(torch.isfinite(one).all()) for one in tensors_in(result))

    look_at_calls(monkeypatch, look)
    step.run()
    assert all(finite)
    assert len(finite) >= step.count / 2
    step.bits()
    assert step.blind == 0


def _mean_of_a_quotient(divisor: Any) -> dict[str, Any]:
    data = two_products()
    schema = "aten::div.Tensor(Tensor self, Tensor other) -> Tensor"
    data["nodes"].append(
        node(5, "aten::div", schema, (tensor(30, 4, 4), divisor), (tensor(32, 4, 4),), 2)
    )
    return data


@pytest.mark.parametrize(
    "divisor",
    [
        ([31, 131, 0, 1, 8, "cpu"], [], "Tensor(long int)"),
        ([31, 131, 0, 1, 8, "cpu"], [], "Tensor(double)"),
        ([31, 131, 0, 16, 4, "cpu"], [4, 4], "Tensor(float)"),
    ],
)
def test_nothing_is_divided_by_nearly_zero(tmp_path: Path, divisor: Any) -> None:
    step = prepared_file(tmp_path, _mean_of_a_quotient(divisor))
    step.bits()
    assert step.blind == 0


def test_an_operation_without_finite_results_is_counted(tmp_path: Path) -> None:
    data = two_products()
    schema = "aten::log(Tensor self) -> Tensor"
    data["nodes"].append(node(5, "aten::log", schema, (tensor(14, 8, 8),), (tensor(32, 8, 8),), 2))
    step = prepared_file(tmp_path, data)
    step.bits()
    assert step.blind == 1


def test_one_flipped_bit_of_one_result_changes_the_fingerprint(
    trace: ExecutionTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = prepared(trace)
    once = step.bits()
    ruined = next(one.id for one in trace.operations if one.name == "aten::threshold_backward")

    def look(call: OperationCall, tensors: Any, result: Any) -> None:
        if call.operation.id == ruined:
            flip_bit(result, element=3)

    look_at_calls(monkeypatch, look)
    assert step.bits() != once


def test_seconds_by_kind_cover_the_kinds_of_the_step(trace: ExecutionTrace) -> None:
    step = prepared(trace)
    found = step.seconds_by_kind(lambda: None)
    assert set(found) == {*step.kinds, Kind.BETWEEN}
    assert all(seconds > 0 for seconds in found.values())


def test_results_are_freed_after_their_last_use(tmp_path: Path) -> None:
    plan = planned(read_trace(write(tmp_path, two_products())).operations)
    assert {place[1] for place in plan.memory} == {111, 112}
    assert [[key[0] for key in freed] for freed in plan.freed] == [[], [13, 14]]


def _renamed(data: dict[str, Any]) -> None:
    data["nodes"][2]["attrs"][0]["value"] = MM.replace("mm", "mmm")


def _opening(data: dict[str, Any]) -> None:
    data["nodes"][2]["attrs"][0]["value"] = "aten::from_file(str filename) -> Tensor"


def _ten_terabytes(data: dict[str, Any]) -> None:
    schema = "aten::zeros(SymInt[] size, *, ScalarType? dtype=None) -> Tensor"
    size: tuple[Any, ...] = ([1_600_000, 1_600_000], [[], []], "GenericList[Int,Int]")
    data["nodes"].append(
        node(5, "aten::zeros", schema, (size,), (tensor(20, 1_600_000, 1_600_000),), parent=2)
    )


def _more_than_it_says(data: dict[str, Any]) -> None:
    schema = "aten::zeros(SymInt[] size, *, ScalarType? dtype=None) -> Tensor"
    size: tuple[Any, ...] = ([1_600_000, 1_600_000], [[], []], "GenericList[Int,Int]")
    data["nodes"].append(node(5, "aten::zeros", schema, (size,), (tensor(20, 2),), parent=2))


def _more_than_nothing(data: dict[str, Any]) -> None:
    _more_than_it_says(data)
    data["nodes"][-1]["outputs"] = {"values": [], "shapes": [], "types": []}


def _elements_without_bytes(data: dict[str, Any]) -> None:
    data["nodes"][2]["inputs"]["values"][0][4] = 0


def _no_tensor(data: dict[str, Any]) -> None:
    schema = "aten::mul.left_t(t[] l, int n) -> t[]"
    given: tuple[Any, ...] = (([1], [[]], "GenericList[Int]"), (2, [], "Int"))
    data["nodes"].append(node(5, "aten::mul", schema, given, parent=2))


def _shapes_that_do_not_fit(data: dict[str, Any]) -> None:
    inputs = data["nodes"][2]["inputs"]
    inputs["values"][0], inputs["shapes"][0], inputs["types"][0] = tensor(11, 8, 9)


def _compiled(data: dict[str, Any]) -> None:
    data["nodes"].append(node(5, "triton_poi_fused_add_0", parent=2))
    data["nodes"][-1]["attrs"].append(
        {"name": "kernel_backend", "type": "string", "value": "triton"}
    )


def _compiled_for_a_cpu(data: dict[str, Any]) -> None:
    data["nodes"].append(node(5, "Torch-Compiled Region: 0/0", parent=2))


INT, FLAG = "Int", "Bool"
NONE: Any = (None, [], "None")


def _added(*operation: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change that adds an operation: name, arguments and results."""
    name, given, made = operation
    overload = getattr(torch.ops.aten, name).default
    return lambda data: data["nodes"].append(
        node(5, f"aten::{name}", str(overload._schema), given, made, parent=2)
    )


UNFIT: dict[str, Any] = {
    "memory that grows": (
        "resize_",
        (tensor(11, 8, 8), ([999], [[]], "GenericList[Int]"), NONE),
        (tensor(11, 999),),
    ),
    "more parts than results": (
        "unsafe_chunk",
        (tensor(11, 8, 8), (8, [], INT), (0, [], INT)),
        (tensor(41, 1, 8),),
    ),
    "one number for all channels": (
        "native_batch_norm",
        (
            *(tensor(40, 2, 64, 3), tensor(42, 1), tensor(44, 64), NONE, NONE),
            *((True, [], FLAG), (0.1, [], "Double"), (1e-5, [], "Double")),
        ),
        (tensor(46, 2, 64, 3), tensor(47, 64), tensor(48, 64)),
    ),
    "keys of heads that do not divide": (
        "_scaled_dot_product_flash_attention_for_cpu",
        (tensor(50, 2, 4, 8, 16), tensor(51, 2, 3, 8, 16), tensor(52, 2, 3, 8, 16)),
        (tensor(53, 2, 4, 8, 16), tensor(54, 2, 4, 8)),
    ),
    "keys of one head for all": (
        "_scaled_dot_product_flash_attention_for_cpu",
        (tensor(50, 2, 4, 8, 16), tensor(51, 1, 1, 8, 16), tensor(52, 1, 1, 8, 16)),
        (tensor(53, 2, 4, 8, 16), tensor(54, 2, 4, 8)),
    ),
}


@pytest.mark.parametrize(
    "change",
    [
        *(pytest.param(_added(*one), id=name) for name, one in UNFIT.items()),
        _compiled,
        _compiled_for_a_cpu,
        _renamed,
        _opening,
        _ten_terabytes,
        _more_than_it_says,
        _more_than_nothing,
        _elements_without_bytes,
        _no_tensor,
        _shapes_that_do_not_fit,
    ],
)
def test_what_cannot_be_replayed_is_named_before_anything_is_allocated(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = two_products()
    change(data)
    monkeypatch.setattr(replayed_step, "_filled", None)  # so that no memory is made
    with pytest.raises(CannotReplayError) as raised:
        ReplayedStep(read_trace(write(tmp_path, data)), CPU).prepare()
    assert "\n" not in str(raised.value)


def test_no_size_of_a_trace_makes_memory_while_it_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = two_products()
    _more_than_nothing(data)
    devices = []

    def look(call: OperationCall, tensors: Any, result: Any) -> None:
        devices.append(result.device.type)

    look_at_calls(monkeypatch, look)
    with pytest.raises(CannotReplayError, match="the trace says 0"):
        ReplayedStep(read_trace(write(tmp_path, data)), CPU)
    assert set(devices) == {"meta"}


def test_collectives_are_counted_and_not_replayed(tmp_path: Path) -> None:
    data = two_products()
    schema = "c10d::allreduce_(Tensor[] tensors) -> Tensor[]"
    data["nodes"].append(node(5, "c10d::allreduce_", schema, (), (), parent=2))
    step = ReplayedStep(read_trace(write(tmp_path, data)), CPU)
    assert (step.count, dict(step.collectives)) == (2, {"c10d::allreduce_": 1})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cudnn_convolution", [(1, 1), (2, 2), (1, 1), 1, False, False, True]),
        ("miopen_convolution", [None, (1, 1), (2, 2), (1, 1), 1, False, False]),
        ("mkldnn_convolution", [None, (1, 1), (2, 2), (1, 1), 1]),
    ],
)
def test_a_devices_own_convolution_is_translated(name: str, arguments: list[Any]) -> None:
    put = operation_calls._TRANSLATED[name][1]
    pictures, weights = torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3)
    given = [list(one) if isinstance(one, tuple) else one for one in arguments]
    result = torch.ops.aten.convolution(*put([pictures, weights, *given]))
    expected = torch.nn.functional.conv2d(pictures, weights, stride=2, padding=1)
    assert torch.equal(result, expected)


def test_cudnns_batch_norm_backward_is_translated() -> None:
    put = operation_calls._TRANSLATED["cudnn_batch_norm_backward"][1]
    pictures = torch.randn(4, 3, 5, 5, requires_grad=True)
    scale, shift = torch.randn(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    gradient = torch.randn(4, 3, 5, 5)
    result = torch.nn.functional.batch_norm(pictures, None, None, scale, shift, training=True)
    result.backward(gradient)  # type: ignore[no-untyped-call]
    mean = pictures.mean((0, 2, 3))
    inverse = 1 / (pictures.var((0, 2, 3), unbiased=False) + 1e-5).sqrt()
    arguments = put([pictures, gradient, scale, None, None, mean, inverse, 1e-5, torch.empty(0)])
    found = torch.ops.aten.native_batch_norm_backward(*arguments)
    for one, expected in zip(found, (pictures.grad, scale.grad, shift.grad), strict=True):
        assert expected is not None
        assert torch.allclose(one, expected, atol=1e-5)


def test_indices_are_within_the_table_that_they_are_used_for(tmp_path: Path) -> None:
    schema = (
        "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool a=False, bool b=False)"
        " -> Tensor"
    )
    words = ([31, 131, 0, 40, 8, "cpu"], [40], "Tensor(long int)")
    more: tuple[Any, ...] = ((-1, [], "Int"), (False, [], "Bool"), (False, [], "Bool"))
    data = two_products()
    data["nodes"].append(
        node(
            5, "aten::embedding", schema, (tensor(30, 7, 4), words, *more), (tensor(32, 40, 4),), 2
        )
    )
    trace = read_trace(write(tmp_path, data))
    bounds = {place[1]: one.bound for place, one in planned(trace.operations).memory.items()}
    assert bounds[131] == 7
    step = prepared(trace)
    step.run()


def test_json_of_the_recorded_step_is_an_execution_trace() -> None:
    assert json.loads(recorded_step())["schema"].startswith("1.")


LONG = "Tensor(long int)"


def _embedding(ranges: str = "") -> dict[str, Any]:
    schema = "aten::embedding(Tensor weight, Tensor indices) -> Tensor"
    words = ([31, 131, 0, 40, 8, "cpu"], [40], LONG)
    data = two_products()
    data["nodes"].append(
        node(5, "aten::embedding", schema, (tensor(30, 7, 4), words), (tensor(32, 40, 4),), 2)
    )
    data["nodes"][-1]["attrs"].append({"name": "tensor_range", "value": ranges})
    return data


@pytest.mark.parametrize(
    ("ranges", "bound"), [("", 7), ('{"1": [0, 3]}', 4), ('{"1": [0, 1e12]}', 7)]
)
def test_a_file_chooses_no_index_beyond_the_table(tmp_path: Path, ranges: str, bound: int) -> None:
    trace = read_trace(write(tmp_path, _embedding(ranges)))
    (found,) = (
        one.bound for place, one in planned(trace.operations).memory.items() if place[1] == 131
    )
    assert found == bound


def test_indices_that_nothing_checks_are_not_those_of_the_trace(tmp_path: Path) -> None:
    full = "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"
    pool = (
        "aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
        "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor"
    )
    places = ([31, 131, 0, 4, 8, "cpu"], [1, 1, 2, 2], LONG)
    pair: list[Any] = [([value, value], [[], []], "GenericList[Int,Int]") for value in (2, 2, 0, 1)]
    arguments = (tensor(40, 1, 1, 2, 2), tensor(41, 1, 1, 4, 4), *pair, (False, [], "Bool"), places)
    backward = node(
        6, "aten::max_pool2d_with_indices_backward", pool, arguments, (tensor(42, 1, 1, 4, 4),), 2
    )
    data = two_products()
    data["nodes"].append(backward)
    prepared_file(tmp_path, data)
    filling = node(5, "aten::fill_", full, (places, (10**12, [], "Int")), (places,), 2)
    data["nodes"][-1:] = [filling, backward]
    with pytest.raises(CannotReplayError, match="indices"):
        ReplayedStep(read_trace(write(tmp_path, data)), CPU)


def test_running_values_of_batch_norm_are_restored(tmp_path: Path) -> None:
    norm = (
        "aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
        "Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor"
    )
    clone = "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
    none: Any = ("<None>", [], "None")
    flags: Any = (
        (True, [], "Bool"),
        (0.1, [], "Double"),
        (1e-5, [], "Double"),
        (False, [], "Bool"),
    )
    running = (tensor(51, 3), tensor(52, 3))
    data = two_products()
    data["nodes"] += [
        node(5, "aten::batch_norm", norm, (tensor(50, 2, 3, 4), none, none, *running, *flags),
             (tensor(53, 2, 3, 4),), 2),
        node(6, "aten::clone", clone, (tensor(51, 3),), (tensor(54, 3),), 2),
    ]  # fmt: skip
    step = prepared_file(tmp_path, data)
    assert step.bits() == step.bits()


def test_a_loss_that_broadcasts_counts_what_it_takes_besides(tmp_path: Path) -> None:
    schema = "aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"
    data = two_products()
    given = (tensor(60, 300, 1), tensor(61, 1, 300))
    data["nodes"].append(node(5, "aten::mse_loss", schema, given, (tensor(62),), 2))
    step = ReplayedStep(read_trace(write(tmp_path, data)), CPU)
    assert peak_bytes(step._calls, step._plan) >= 300 * 300 * 4


def test_what_only_the_host_asks_is_left_out(tmp_path: Path) -> None:
    schema = "aten::promote_types(ScalarType type1, ScalarType type2) -> ScalarType"
    data = two_products()
    kinds: Any = ((6, [], "Int"), (7, [], "Int"))
    data["nodes"].append(node(5, "aten::promote_types", schema, kinds, ((7, [], "Int"),), 2))
    assert ReplayedStep(read_trace(write(tmp_path, data)), CPU).count == 2
