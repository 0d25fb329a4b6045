"""Traces are read in all forms that torch has written; whatever is wrong is one line with the node."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.codec.input_limits import VARIABLE
from pytest_anubis.traces.execution_trace import Opaque, TensorUse
from pytest_anubis.traces.operation_kinds import Kind, kind_of
from pytest_anubis.traces.trace_names import is_trace
from pytest_anubis.traces.trace_reading import TraceError, read_trace
from tests.traces.made_traces import node, recorded_step, tensor, two_products, write


def test_flat_and_nested_forms_hold_the_same(tmp_path: Path) -> None:
    old = read_trace(write(tmp_path, two_products(flat=True), "old.trace.json"))
    new = read_trace(write(tmp_path, two_products(), "new.trace.json"))
    assert [one.id for one in new.operations] == [3, 4]
    for before, after in zip(old.operations, new.operations, strict=True):
        assert before.schema == after.schema
        assert (before.inputs, before.outputs) == (after.inputs, after.outputs)
    used = new.operations[1].inputs[0]
    assert isinstance(used, TensorUse)
    assert used == new.operations[0].outputs[0]
    assert (used.shape, used.count, used.element) == ((8, 8), 64, "float")


def test_a_compressed_trace_has_the_digest_of_its_content(tmp_path: Path) -> None:
    plain = write(tmp_path, two_products())
    packed = tmp_path / "job2.trace.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_trace(packed) == read_trace(plain)
    assert read_trace(write(tmp_path, two_products(size=4))).digest != read_trace(packed).digest


def test_what_torch_records_now_has_strides_and_no_inner_operations(tmp_path: Path) -> None:
    path = tmp_path / "step.trace.json"
    path.write_text(recorded_step(), encoding="utf-8")
    trace = read_trace(path)
    by_id = {one["id"]: one for one in json.loads(recorded_step())["nodes"]}

    def called(number: int) -> bool:
        parent = by_id.get(by_id[number]["ctrl_deps"])
        while parent is not None and parent["id"] != parent["ctrl_deps"]:
            if any(one["name"] == "op_schema" and one["value"] for one in parent["attrs"]):
                return True
            parent = by_id.get(parent["ctrl_deps"])
        return False

    expected = [
        number
        for number, one in sorted(by_id.items())
        if not called(number)
        and any(attr["name"] == "op_schema" and attr["value"] for attr in one["attrs"])
    ]
    assert [one.id for one in trace.operations] == expected
    kinds = {kind_of(one.schema) for one in trace.operations}
    assert {Kind.CONVOLUTION, Kind.NORMALISATION, Kind.MATRIX, Kind.POINTWISE} <= kinds
    assert None not in kinds
    convolution = next(one for one in trace.operations if one.name == "aten::conv2d")
    assert isinstance(convolution.inputs[0], TensorUse)
    assert convolution.inputs[0].strides == (192, 64, 8, 1)


def test_arguments_that_are_no_tensors(tmp_path: Path) -> None:
    given: tuple[Any, ...] = (
        ([1, 0, 0, 0, 0, ""], [], "Tensor(nullptr (uninitialized))"),
        ("<None>", [], "None"),
        ("nan", [], "Double"),
        ([[1, 2], True], [[[], []], []], "GenericList[GenericList[Int,Int],Bool]"),
        ("<Generator>", [], "Generator"),
    )
    data = two_products()
    data["nodes"].append(node(5, "aten::mm", "aten::mm(...) -> Tensor", given))
    first, second, third, fourth, fifth = read_trace(write(tmp_path, data)).operations[-1].inputs
    assert first is second is None
    assert isinstance(third, float)
    assert third != third
    assert (fourth, fifth) == (((1, 2), True), Opaque("Generator"))


def _without(key: str) -> Callable[[Any], None]:
    return lambda data: data["nodes"][2].pop(key)


def _set(key: str, value: Any) -> Callable[[Any], None]:
    return lambda data: data["nodes"][2].__setitem__(key, value)


def _input(value: Any, shape: Any, kind: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        inputs = data["nodes"][2]["inputs"]
        inputs["values"][0], inputs["shapes"][0], inputs["types"][0] = value, shape, kind

    return change


def _cycle(data: Any) -> None:
    data["nodes"][1]["ctrl_deps"] = 5
    data["nodes"].append(node(5, "a", parent=2))


WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "no schema": (lambda data: data.pop("schema"), "schema"),
    "unknown schema": (lambda data: data.update(schema="2.0"), "schema"),
    "no nodes": (lambda data: data.update(nodes=[]), "nodes"),
    "a timeline": (lambda data: data.update(traceEvents=[]), "profiler"),
    "no object": (lambda data: data["nodes"].append(7), "nodes[4]"),
    "no id": (_without("id"), "node number 3"),
    "negative id": (_set("id", -1), "node -1"),
    "id twice": (_set("id", 2), "node 2"),
    "no parent": (_without("ctrl_deps"), "node 3"),
    "no inputs": (_without("inputs"), "node 3"),
    "no op_schema": (_set("attrs", []), "node 3"),
    "op_schema is a number": (_set("attrs", [{"name": "op_schema", "value": 5}]), "node 3"),
    "cycle": (_cycle, "ancestor"),
    "count": (_input([1, 2, 0, 5, 4, "cpu"], [8], "Tensor(float)"), "node 3"),
    "count is no whole number": (_input([1, 2, 0, 1e9, 4, "cpu"], [8], "Tensor(float)"), "node 3"),
    "text for a number": (_input("seven", [], "Int"), "node 3"),
    "bool for a number": (_input(True, [], "Int"), "node 3"),
    "more than 64 bits": (_input(2**63, [], "Int"), "node 3"),
    "more than a float": (_input(10**400, [], "Double"), "node 3"),
    "too many dimensions": (_input([1, 2, 0, 1, 4, "cpu"], [1] * 65, "Tensor(float)"), "node 3"),
    "lists differ": (lambda data: data["nodes"][2]["outputs"]["types"].append("Int"), "node 3"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "place"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line_with_the_node(
    tmp_path: Path, change: Callable[[Any], object], place: str
) -> None:
    data = copy.deepcopy(two_products())
    change(data)
    with pytest.raises(TraceError) as raised:
        read_trace(write(tmp_path, data))
    assert place in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("high", ["1e999", "9" * 400, "NaN", "true", "[]"])
def test_a_range_that_is_none_is_left_out(tmp_path: Path, high: str) -> None:
    data = two_products()
    ranges = f'{{"0": [0, {high}], "1": [0, 5]}}'
    data["nodes"][2]["attrs"].append({"name": "tensor_range", "value": ranges})
    assert read_trace(write(tmp_path, data)).operations[0].ranges == ((1, 0.0, 5.0),)


@pytest.mark.parametrize("damage", ["truncated", "not gzip", "more behind", "nested", "cut"])
def test_damaged_files(tmp_path: Path, damage: str) -> None:
    text = json.dumps(two_products()).encode()
    packed = gzip.compress(text)
    content = {
        "truncated": packed[:-20],
        "not gzip": packed[:10] + b"\xff" * 40,
        "more behind": packed + b"x",
        "nested": b"[" * 100_000,
        "cut": text[:-10],
    }[damage]
    path = tmp_path / "x.trace.json.gz"
    path.write_bytes(content)
    with pytest.raises(TraceError):
        read_trace(path)


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1MiB")
    path = tmp_path / "x.trace.json.gz"
    path.write_bytes(gzip.compress(b" " * (8 << 20)))
    with pytest.raises(TraceError, match="limit"):
        read_trace(path)


def test_names() -> None:
    names = ("a.trace.json", "a.trace.json.gz", "a.pt.trace.json", "a.json")
    assert [name for name in names if is_trace(name)] == ["a.trace.json", "a.trace.json.gz"]


def test_an_operation_that_opens_or_is_unknown_has_no_kind() -> None:
    opening = "aten::from_file(str filename) -> Tensor"
    for schema in (opening, "mine::op(Tensor a) -> Tensor", "", "x"):
        assert kind_of(schema) is None
    assert kind_of("aten::add_.Tensor(Tensor(a!) self) -> Tensor(a!)") is Kind.POINTWISE
    assert kind_of("c10d::allreduce_(Tensor[] tensors) -> Tensor[]") is Kind.COLLECTIVE


def test_a_view_reaches_as_far_as_its_strides() -> None:
    value, shape, _ = tensor(1, 3, 4)
    use = TensorUse(1, 2, 0, value[3], 4, "cpu", "float", tuple(shape), (8, 1))
    assert use.span == 2 * 8 + 3 * 1 + 1


def test_a_tensor_that_others_wrap_is_no_damage(tmp_path: Path) -> None:
    data = two_products()
    # What torch writes of sparse ones and of vmap's.
    data["nodes"][2]["outputs"]["values"][0][3] = 0
    trace = read_trace(write(tmp_path, data))
    assert isinstance(trace.operations[0].outputs[0], Opaque)
