"""Every dataclass that is stored or sent comes back unchanged."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import execnet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.codec import from_plain, to_plain
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.field_types import Range
from pytest_anubis.core.inventory import Inventory
from pytest_anubis.core.measurement import Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict
from pytest_anubis.distributed.dispatch.certificates import Certificate
from pytest_anubis.hardware.telemetry.host_sensors import Reading
from pytest_anubis.selector.choice.choice_plan import Plan
from pytest_anubis.session.context import RunContext
from pytest_anubis.store.samples.columnar_files import Origin

CROSSING = (
    Baseline, Certificate, Criterion, Inventory, Measurement, Metric, MetricVerdict, NodeVerdict, Origin,
    Plan, PlannedTest, Reading, RunContext, TestResult,
)  # fmt: skip
WORDS = st.text(max_size=4)
PRINTABLE = st.text("abc/[]µ", min_size=1, max_size=4)


def values_of(hint: Any, marks: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """Return values of a type as its marks allow them."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return values_of(hint.__origin__, (*marks, *hint.__metadata__))
    if hint in (float, int):
        return numbers_of(hint, next((mark for mark in marks if isinstance(mark, Range)), Range()))
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values_of(a, marks) for a in arguments])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(WORDS, values_of(arguments[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    if dataclasses.is_dataclass(hint):
        return st.deferred(lambda: objects_of(hint))
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: WORDS, bool: st.booleans(), type(None): st.none(), Any: st.none() | WORDS,
        Path: PRINTABLE.map(Path),
    }  # fmt: skip
    return simple[hint]


def numbers_of(hint: Any, limits: Range) -> st.SearchStrategy[Any]:
    if hint is int:
        least = -(2**31) if limits.least is None else int(limits.least)
        return st.integers(least, 2**63 - 1 if limits.most is None else int(limits.most))
    found = st.floats(
        min_value=limits.above if limits.least is None else limits.least,
        max_value=limits.most,
        exclude_min=limits.above is not None,
        allow_infinity=not limits.finite and limits.most is None,
        allow_nan=False,  # it is not even itself: the other tests have it
    )
    return found.map(lambda number: number + 0.0)


def objects_of(cls: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = {name: values_of(hints[name]) for name in (f.name for f in dataclasses.fields(cls))}
    if cls is Metric:  # it checks itself
        fields |= {"name": PRINTABLE, "unit": PRINTABLE, "expect": st.none()}
    if cls is NominalRate:
        fields |= {"of": PRINTABLE}
    return st.builds(cls, **fields)


@pytest.mark.parametrize("cls", CROSSING)
@settings(max_examples=15)  # of each class; the codec's own tests try the odd values
@given(data=st.data())
def test_stored_or_sent_value_comes_back(cls: Any, data: st.DataObject) -> None:
    value = data.draw(objects_of(cls))
    plain = to_plain(value)
    assert from_plain(cls, json.loads(json.dumps(plain, allow_nan=False))) == value
    assert from_plain(cls, execnet.loads(execnet.dumps(plain))) == value
    assert from_plain(cls, to_plain(value, full=True)) == value
