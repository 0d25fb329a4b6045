"""A step is predicted from a profile: operations add up, new ones are scaled, collectives may overlap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.traces.execution_trace import ExecutionTrace
from pytest_anubis.traces.step_prediction import (
    OperationProfile,
    ProfiledOperation,
    form_of,
    predict,
    work_of,
)
from pytest_anubis.traces.trace_reading import read_trace
from tests.traces.made_traces import MM, node, tensor, two_products, write

ALL_REDUCE = "c10d::allreduce_(Tensor[] tensors) -> Tensor[]"


def _trace(folder: Path, data: dict[str, Any]) -> ExecutionTrace:
    return read_trace(write(folder, data))


def _profile(trace: ExecutionTrace, seconds: float, ratio: float = 1.0) -> OperationProfile:
    known = {
        (one.schema, form_of(one.inputs)): ProfiledOperation(
            schema=one.schema, form=form_of(one.inputs), seconds=seconds, work=work_of(one)
        )
        for one in trace.operations
    }
    return OperationProfile(
        device="cpu", machine="n1", ratio=ratio, operations=tuple(known.values())
    )


def test_known_operations_add_up(tmp_path: Path) -> None:
    trace = _trace(tmp_path, two_products())
    found = predict(trace, _profile(trace, 0.25, ratio=0.5))
    assert (found.seconds, found.known, found.scaled, found.exposed) == (0.25, 2, 0, 0)


def test_a_product_of_twice_the_size_takes_eight_times_as_long(tmp_path: Path) -> None:
    profile = _profile(_trace(tmp_path, two_products(size=8)), 0.25)
    found = predict(_trace(tmp_path, two_products(size=16)), profile)
    assert found.seconds == pytest.approx(2 * 8 * 0.25, rel=0.01)
    assert (found.known, found.scaled, found.scaled_share) == (0, 2, 1)


def test_what_nothing_is_alike_to_is_named(tmp_path: Path) -> None:
    profile = replace(_profile(_trace(tmp_path, two_products()), 0.25), operations=())
    found = predict(_trace(tmp_path, two_products()), profile)
    assert (found.seconds, dict(found.unknown)) == (0, {"aten::mm": 2})


@pytest.mark.parametrize(
    ("ranks", "link", "takes"), [(1, 0.0, 0.0), (2, 256.0, 1.0), (2, 1024.0, 0.25), (4, 256.0, 1.5)]
)
def test_only_what_is_waited_for_of_a_collective_counts(
    tmp_path: Path, ranks: int, link: float, takes: float
) -> None:
    """Of 256 bytes a ring sends 2 (n - 1) / n times as many; one product of .25 s runs beside it."""
    data = two_products()
    last = data["nodes"].pop()
    data["nodes"] += [
        node(5, "c10d::allreduce_", ALL_REDUCE, (tensor(13, 8, 8),), (), parent=2),
        node(
            6, "aten::mm", MM, (tensor(11, 8, 8), tensor(12, 8, 8)), (tensor(20, 8, 8),), parent=2
        ),
        {**last, "id": 7},  # uses what was reduced
    ]
    trace = _trace(tmp_path, data)
    products = replace(trace, nodes=tuple(one for one in trace.nodes if one.id != 5))
    found = predict(trace, _profile(products, 0.25), ranks=ranks, link=link)
    assert found.exposed == pytest.approx(max(0.0, takes - 0.25))
    assert found.seconds == pytest.approx(0.75 + found.exposed)
