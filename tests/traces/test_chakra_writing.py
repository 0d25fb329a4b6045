"""An exported trace holds the nodes, types and dependencies of the original, as `protobuf` decodes it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, proto, unknown_fields

from pytest_anubis.traces.chakra_writing import chakra_messages, data_dependencies
from pytest_anubis.traces.execution_trace import ExecutionTrace
from pytest_anubis.traces.operation_kinds import Kind, kind_of
from pytest_anubis.traces.trace_reading import read_trace
from tests.traces.made_traces import MM, node, recorded_step, tensor, two_products, write

ADD = "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
VIEW = "aten::t(Tensor(a) self) -> Tensor(a)"
SUM = "c10d::allreduce_(Tensor[] tensors) -> Tensor[]"
LARGE = 2**60 + 1

# Name, number and type of every field, as et_def.proto of MLCommons Chakra states them.
MESSAGES = {
    "AttributeProto": "name 1 string, doc_string 2 string, int64_val 9 int64, string_val 29 string",
    "GlobalMetadata": "version 1 string, attr 2 AttributeProto*",
    "IOInfo": "values 1 string, shapes 2 string, types 3 string",
    "Node": "id 1 uint64, name 2 string, type 3 int32, ctrl_deps 4 uint64*, data_deps 5 uint64*, "
    "start_time_micros 6 uint64, duration_micros 7 uint64, inputs 8 IOInfo, outputs 9 IOInfo, "
    "attr 10 AttributeProto*",
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="et", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for stated in fields.split(", "):
            field, number, sort = stated.split()
            added = message.field.add(name=field, number=int(number))
            added.label = added.LABEL_REPEATED if sort.endswith("*") else added.LABEL_OPTIONAL
            sort = sort.rstrip("*")
            if sort in MESSAGES:
                added.type, added.type_name = added.TYPE_MESSAGE, f".et.{sort}"
            else:
                added.type = getattr(added, f"TYPE_{sort.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"et.{name}"))
        for name in MESSAGES
    }


def _decoded(trace: ExecutionTrace) -> tuple[Any, list[Any]]:
    kinds = _messages()
    stream = io.BytesIO(b"".join(chakra_messages(trace)))
    about = proto.parse_length_prefixed(kinds["GlobalMetadata"], stream)
    nodes = []
    while (one := proto.parse_length_prefixed(kinds["Node"], stream)) is not None:
        nodes.append(one)
    return about, nodes


def _all_sorts() -> dict[str, Any]:
    data = two_products()
    data["nodes"] += [
        node(LARGE, "aten::t", VIEW, (tensor(14, 8, 8),), (tensor(16, 8, 8),), parent=2),
        node(LARGE + 1, "aten::mm", MM, (tensor(14, 8, 8),), (tensor(17, 8, 8),), parent=LARGE),
        node(LARGE + 2, "aten::add_", ADD, (tensor(12, 8, 8), tensor(16, 8, 8)), ()),
        node(LARGE + 3, "c10d::allreduce_", SUM, (tensor(12, 8, 8),), (tensor(12, 8, 8),)),
    ]
    return data


@pytest.mark.parametrize("made", [_all_sorts, recorded_step])
def test_nodes_types_and_dependencies_are_those_of_the_trace(
    tmp_path: Path, made: Callable[[], Any]
) -> None:
    data = made()
    path = write(tmp_path, json.loads(data) if isinstance(data, str) else data)
    trace = read_trace(path)
    about, nodes = _decoded(trace)
    assert {one.name: one.string_val for one in about.attr}["digest"] == trace.digest
    assert [(one.id, one.name) for one in nodes] == [(one.id, one.name) for one in trace.nodes]
    before = data_dependencies(trace)
    for decoded, one in zip(nodes, trace.nodes, strict=True):
        assert not len(unknown_fields.UnknownFieldSet(decoded))
        collective = kind_of(one.schema) is Kind.COLLECTIVE
        assert decoded.type == (7 if collective else 4 if one.schema else 1)
        assert list(decoded.ctrl_deps) == ([one.parent] if one.parent != one.id else [])
        assert list(decoded.data_deps) == before.get(one.id, [])
        assert len(json.loads(decoded.inputs.values)) == len(one.inputs)
        assert len(json.loads(decoded.outputs.shapes)) == len(one.outputs)
        stated = {attr.name: attr.int64_val for attr in decoded.attr[1:]}
        assert (decoded.attr[0].name, decoded.attr[0].string_val) == ("op_schema", one.schema)
        assert stated == ({"comm_type": 0, "comm_size": 8 * 8 * 4} if collective else {})


@pytest.mark.parametrize(
    ("name", "sort"),
    [
        ("_allgather_base_", 2),
        ("reduce_scatter_tensor_coalesced_", 7),
        ("reduce_", 1),
        ("alltoall_base_", 6),
        ("barrier", 9),
        ("send", None),
    ],
)
def test_a_collective_has_its_sort_and_size(tmp_path: Path, name: str, sort: int | None) -> None:
    data = two_products()
    schema = f"c10d::{name}(Tensor a) -> Tensor"
    data["nodes"].append(node(LARGE, f"c10d::{name}", schema, (tensor(12, 8, 8),), ()))
    _, nodes = _decoded(read_trace(write(tmp_path, data)))
    stated = {attr.name: attr.int64_val for attr in nodes[-1].attr}
    assert (stated.get("comm_type"), stated["comm_size"]) == (sort, 256)


def test_an_operation_waits_for_those_that_wrote_what_it_reads(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, _all_sorts()))
    assert data_dependencies(trace) == {
        3: [],
        4: [3],
        LARGE: [4],
        # Through the view; the product inside the view is its caller's.
        LARGE + 2: [LARGE],
        LARGE + 3: [LARGE + 2],
    }


def test_a_recorded_step_is_one_chain_from_pictures_to_weights(tmp_path: Path) -> None:
    path = tmp_path / "a.trace.json"
    path.write_text(recorded_step(), encoding="utf-8")
    before = data_dependencies(read_trace(path))
    assert all(waited < number for number, all_waited in before.items() for waited in all_waited)
    names = {one.id: one.name for one in read_trace(path).operations}
    first = next(number for number, name in names.items() if name == "aten::conv2d")
    reached = {first}
    for number, waited in before.items():
        if reached & set(waited):
            reached.add(number)
    assert "aten::cross_entropy_loss" in {names[number] for number in reached}
    assert any(
        names[number].startswith(("aten::add_", "aten::_foreach_add_")) for number in reached
    )
