"""Steps of real jobs: mixed precision, clipped gradients, optimizers on lists, copies to a device."""

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
from pytest_anubis.benchmarking.replay.trace_recording import recording
from pytest_anubis.benchmarking.verification import flip_bit
from pytest_anubis.traces.execution_trace import ExecutionTrace, TensorUse, tensors_of
from pytest_anubis.traces.trace_reading import read_trace
from tests.benchmarking.replay.replaying import CPU, look_at_calls, prepared, prepared_file
from tests.traces.made_traces import node, tensor, two_products, write


def recorded(
    tmp_path: Path,
    *,
    clip: bool = False,
    half: bool = False,
    kind: type[torch.optim.Optimizer] = torch.optim.AdamW,
    **options: Any,
) -> ExecutionTrace:
    """Return the trace of a training step of a small network.

    Args:
        tmp_path: Where the file is.
        clip: Gradients are clipped.
        half: Products are computed in bfloat16.
        kind: The optimizer.
        **options: Of the optimizer.
    """
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 4))
    optimizer: Any = kind(model.parameters(), **options)
    texts, kinds = torch.randn(8, 16), torch.randint(0, 4, (8,))

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = nn.functional.cross_entropy(model(texts), kinds)
        loss.backward()  # type: ignore[no-untyped-call]
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    path = tmp_path / "job.trace.json"
    with recording(path):
        step()
    return read_trace(path)


def replayed_alike(trace: ExecutionTrace) -> ReplayedStep:
    """Return a trace's replay, whose bits are the same in two steps, and of all its operations."""
    step = prepared(trace)
    once = step.bits()
    step.ready()
    step.run()
    assert step.bits() == once
    assert step.blind == 0
    return step


@pytest.mark.parametrize(
    "options",
    [
        {"clip": True},
        {"half": True},
        {"half": True, "clip": True},
        {"foreach": True},
        {"clip": True, "foreach": True},
        {"fused": True},
        {"kind": torch.optim.SGD, "lr": 0.1, "momentum": 0.9, "fused": True},
    ],
)
def test_it_replays_with_the_shapes_and_types_of_the_job(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = replayed_alike(recorded(tmp_path, **options))
    types = {"float": torch.float32, "c10::BFloat16": torch.bfloat16}
    seen = []

    def look(call: OperationCall, tensors: Any, result: Any) -> None:
        if isinstance(result, torch.Tensor):
            for use in tensors_of(call.operation.outputs[:1]):
                assert (tuple(result.shape), result.dtype) == (
                    use.shape,
                    types.get(use.element, result.dtype),
                )
                seen.append(result.dtype)

    look_at_calls(monkeypatch, look)
    step.run()
    assert (torch.bfloat16 in seen) == options.get("half", False)


def test_a_saved_result_is_the_one_of_the_forward_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = prepared(recorded(tmp_path))
    made: dict[str, Any] = {}

    def look(call: OperationCall, tensors: Any, result: Any) -> None:
        if call.operation.name == "aten::relu":
            made["relu"] = result
        if call.operation.name == "aten::threshold_backward":
            made["saved"] = tensors[call._fills[1][1]]

    look_at_calls(monkeypatch, look)
    step.run()
    assert made["saved"] is made["relu"]


@pytest.mark.parametrize("name", ["aten::_foreach_add_", "aten::_foreach_addcdiv_"])
def test_a_bit_that_an_operation_without_result_wrote_is_seen(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = recorded(tmp_path, foreach=True)
    last = max(one.id for one in trace.operations if one.name == name)
    step = prepared(trace)
    once = step.bits()

    def look(call: OperationCall, tensors: Any, result: Any) -> None:
        if call.operation.id == last:
            flip_bit(tensors[call._fills[0][1][0]], element=3)  # type: ignore[index]

    look_at_calls(monkeypatch, look)
    assert step.bits() != once


MUL = "aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
TO = (
    "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
    "MemoryFormat? memory_format=None) -> Tensor(a)"
)


def test_what_a_copy_to_the_device_shares_here_is_restored(tmp_path: Path) -> None:
    data = two_products()
    to: Any = (
        tensor(30, 8, 8),
        (6, [], "Int"),
        (False, [], "Bool"),
        (False, [], "Bool"),
        (None, [], "None"),
    )
    data["nodes"] += [
        node(5, "aten::to", TO, to, (tensor(31, 8, 8),), parent=2),
        node(
            6,
            "aten::mul_",
            MUL,
            (tensor(31, 8, 8), tensor(11, 8, 8)),
            (tensor(31, 8, 8),),
            parent=2,
        ),
    ]
    step = prepared_file(tmp_path, data)
    once = step.bits()
    step.ready()
    step.run()
    assert step.bits() == once


def test_a_tensor_turned_in_place_is_as_before_in_the_next_step(tmp_path: Path) -> None:
    data = two_products()
    turned = node(
        2_000,
        "aten::t_",
        "aten::t_(Tensor(a!) self) -> Tensor(a!)",
        (tensor(12, 8, 8),),
        (tensor(12, 8, 8),),
        2,
    )
    data["nodes"].append(turned)
    step = prepared_file(tmp_path, data)
    assert step.bits() == step.bits() == step.bits()


def _beyond_a_storage(data: dict[str, Any]) -> None:
    schema = "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)"
    size: Any = ([400_000_000], [[]], "GenericList[Int]")
    step: Any = ([1], [[]], "GenericList[Int]")
    far = tensor(31, 400_000_000)
    data["nodes"].append(
        node(5, "aten::_reshape_alias", schema, (tensor(30, 4), size, step), (far,), 2)
    )


def _beyond_the_scores(data: dict[str, Any]) -> None:
    fill = "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"
    loss = (
        "aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int "
        "reduction, SymInt ignore_index, Tensor total_weight) -> Tensor"
    )
    target: Any = ([31, 131, 0, 8, 8, "cpu"], [8], "Tensor(long int)")
    rest: Any = ((None, [], "None"), (0, [], "Int"), (-100, [], "Int"))
    given: Any = (tensor(40, 8), tensor(41, 8, 4), target, *rest, tensor(42))
    data["nodes"] += [
        node(5, "aten::fill_", fill, (target, (10**9, [], "Int")), (target,), 2),
        node(6, "aten::nll_loss_backward", loss, given, (tensor(43, 8, 4),), 2),
    ]


def _many_parts(data: dict[str, Any]) -> None:
    schema = "aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"
    parts: Any = ([], [], "GenericList[]")
    given: Any = (tensor(30, 3_000_000), (0, [], "Int"))
    data["nodes"].append(node(5, "aten::unbind", schema, given, (parts,), 2))


@pytest.mark.parametrize("size", [(4, [], "Int"), ([3, 5], [[], []], "GenericList[Int,Int]")])
def test_parts_of_a_tensor_are_counted_by_their_size(tmp_path: Path, size: Any) -> None:
    whole = type(size[0]) is int
    overload, kind = ("Tensor", "SymInt") if whole else ("sizes", "SymInt[]")
    schema = (
        f"aten::split.{overload}(Tensor(a -> *) self, {kind} split_size, int dim=0) -> Tensor(a)[]"
    )
    rows = (4, 4) if whole else (3, 5)
    made = [tensor(40 + number, count, 2) for number, count in enumerate(rows)]
    parts: Any = (
        [one[0] for one in made],
        [one[1] for one in made],
        "GenericList[Tensor(float),Tensor(float)]",
    )
    data = two_products()
    data["nodes"].append(
        node(5, "aten::split", schema, (tensor(30, 8, 2), size, (0, [], "Int")), (parts,), 2)
    )
    step = prepared_file(tmp_path, data)
    step.run()


@pytest.mark.parametrize("change", [_beyond_a_storage, _beyond_the_scores, _many_parts])
def test_what_reaches_beyond_its_memory_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    data = two_products()
    change(data)
    with pytest.raises(CannotReplayError) as raised:
        ReplayedStep(read_trace(write(tmp_path, data)), CPU).prepare()
    assert "\n" not in str(raised.value)


def test_bits_of_all_operations_are_compared_on_a_cpu(tmp_path: Path) -> None:
    data = two_products()
    sums = "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"
    given: Any = (tensor(13, 8, 8), (0, [], "Int"), (None, [], "None"))
    summed = node(2_000, "aten::cumsum", sums, given, (tensor(41, 8, 8),), 2)
    data["nodes"].append(summed)
    step = prepared_file(tmp_path, data)
    assert step.bits() == step.bits_at_first
    assert step.uncompared == 0


def test_an_expanded_tensor_costs_no_memory_of_its_own(tmp_path: Path) -> None:
    data = two_products()
    expand = "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"
    one, wide = [51, 151, 0, 1, 4, "cpu"], [52, 151, 0, 1 << 40, 4, "cpu"]
    size: Any = ([1 << 40], [[]], "GenericList[Int]")
    given: Any = ((one, [1], "Tensor(float)"), size, (False, [], "Bool"))
    made = ((wide, [1 << 40], "Tensor(float)"),)
    data["nodes"].append(node(2_000, "aten::expand", expand, given, made, 2))
    step = prepared_file(tmp_path, data)
    assert step.bits() == step.bits_at_first


def test_a_view_that_sees_elements_often_costs_no_memory_of_its_own(tmp_path: Path) -> None:
    data = two_products()
    unfold = "aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"
    count, size = 1 << 21, 1 << 20
    given: Any = (tensor(51, count), (0, [], "Int"), (size, [], "Int"), (1, [], "Int"))
    windows = [52, 151, 0, (count - size + 1) * size, 4, "cpu"]
    made = ((windows, [count - size + 1, size], "Tensor(float)"),)
    data["nodes"].append(node(2_000, "aten::unfold", unfold, given, made, 2))
    step = prepared_file(tmp_path, data)
    assert step.bits() == step.bits_at_first


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("wrong", ["numbers", "one element"])
def test_a_fused_optimizer_writes_into_no_other_memory(
    tmp_path: Path, kind: type[torch.optim.Optimizer], wrong: str
) -> None:
    more: dict[str, Any] = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    trace = recorded(tmp_path, kind=kind, lr=0.1, fused=True, **more)
    (fused,) = (one for one in trace.operations if one.name.startswith("aten::_fused"))
    third = fused.inputs[2]
    assert isinstance(third, tuple)
    uses = [one for one in third if isinstance(one, TensorUse)]
    unlike = tuple(
        replace(one, shape=(), strides=None, count=1)
        if wrong == "numbers"
        else replace(one, strides=(0,) * len(one.shape))
        for one in uses
    )
    edited = replace(fused, inputs=(*fused.inputs[:2], unlike, *fused.inputs[3:]))
    nodes = tuple(edited if one.id == fused.id else one for one in trace.nodes)
    with pytest.raises(CannotReplayError, match="_fused"):
        ReplayedStep(replace(trace, nodes=nodes), CPU)


def test_what_a_loaders_process_filled_is_there_before_the_step(tmp_path: Path) -> None:
    data = two_products()
    schema = str(torch.ops.aten.set_.source_Tensor._schema)
    given: Any = (tensor(11, 8, 8), (None, [], "Storage"))
    data["nodes"].insert(2, node(2_000, "aten::set_", schema, given, (tensor(11, 8, 8),), 2))
    step = prepared_file(tmp_path, data)
    assert step.count == 2


def test_bags_of_a_sum_are_replayed(tmp_path: Path) -> None:
    table = nn.EmbeddingBag(50, 8, mode="sum")
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    rows = torch.arange(24).reshape(6, 4)

    def step() -> None:
        optimizer.zero_grad()
        table(rows).sum().backward()
        optimizer.step()

    step()
    with recording(tmp_path / "job.trace.json"):
        step()
    replayed = prepared(read_trace(tmp_path / "job.trace.json"))
    assert replayed.bits() == replayed.bits_at_first


def test_what_others_have_set_changes_no_bits(tmp_path: Path) -> None:
    step = prepared(recorded(tmp_path))
    precision = torch.get_float32_matmul_precision()
    memory: Any = torch.utils.deterministic
    try:
        torch.set_float32_matmul_precision("medium")
        memory.fill_uninitialized_memory = False
        assert step.bits() == step.bits_at_first
        assert memory.fill_uninitialized_memory is False
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(precision)
        memory.fill_uninitialized_memory = True


@pytest.mark.parametrize("frozen", [True, False])
def test_layers_that_normalise_are_replayed_in_training_and_frozen(
    tmp_path: Path, frozen: bool
) -> None:
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.Flatten())
    layers.append(nn.LayerNorm(8 * 6 * 6))
    layers[1].train(not frozen)
    pictures = torch.randn(4, 3, 8, 8)
    layers(pictures).sum().backward()
    with recording(tmp_path / "job.trace.json"):
        layers(pictures).sum().backward()
    step = prepared(read_trace(tmp_path / "job.trace.json"))
    assert step.bits() == step.bits_at_first


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="torch's attention on a CPU shares heads of keys from 2.13 on",
)
def test_attention_whose_queries_share_keys_replays(tmp_path: Path) -> None:
    """As of the Llama networks: eight heads of queries, two of keys and values."""
    query, key, value = (torch.randn(2, heads, 16, 8, requires_grad=True) for heads in (8, 2, 2))
    path = tmp_path / "job.trace.json"
    with recording(path):
        found = nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        found.square().mean().backward()  # type: ignore[no-untyped-call]
    replayed_alike(read_trace(path))
