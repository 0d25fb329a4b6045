"""Plain types in, the same value out, and nothing that execnet would refuse."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

import execnet
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.wire import WireError, from_plain, to_plain

# execnet itself cannot send whole numbers below -2**31; ours count bytes and values.
numbers = st.floats(allow_nan=False) | st.integers(-(2**31), 2**70)
values = st.recursive(
    st.none()
    | st.booleans()
    | numbers
    | st.text()
    | st.sampled_from(Outcome)
    | st.floats(allow_nan=False).map(np.float64)
    | st.just(Path("a/b"))
    | st.lists(st.floats(allow_nan=False), max_size=3).map(np.array),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values)
def test_whatever_is_recorded_crosses_the_wire(value: object) -> None:
    plain = to_plain(value)
    assert execnet.loads(execnet.dumps(plain)) == plain


texts = st.text(max_size=8)
verdicts = st.builds(
    MetricVerdict,
    outcome=st.sampled_from(Outcome),
    reason=st.sampled_from(Reason),
    text=texts,
    benchmark=texts,
    metric=texts,
    value=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    disturbance=st.lists(texts, max_size=3).map(tuple),
)


@given(verdicts)
def test_a_verdict_comes_back_as_it_was(verdict: MetricVerdict) -> None:
    through_json = json.loads(json.dumps(to_plain(verdict)))
    assert from_plain(MetricVerdict, through_json) == verdict


def test_nested_values_come_back() -> None:
    measurement = Measurement(
        test="t[cpu]",
        benchmark="t",
        component="cpu",
        metric=Metric(name="rate", unit="GB/s", better="higher"),
        device="cpu",
        values=(1.0, 2.5),
        telemetry=(("power", (1.0, 2.0)),),
    )
    assert from_plain(Measurement, to_plain(measurement)) == measurement


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"values": "many"}, "values: expected a list"),
        ({"values": [1.0, "x"]}, "values[1]: expected float"),
        ({"surprise": 1}, "unknown field 'surprise'"),
        ({"metric": {"name": "a", "unit": "s"}}, "'better' is missing"),
        ({"metric": {"name": "a", "unit": "s", "better": "up"}}, "'up'"),
        ({"attempts": 1.5}, "attempts: expected int"),
    ],
)
def test_wrong_data_is_named(change: dict[str, object], word: str) -> None:
    good = to_plain(
        Measurement(
            test="t",
            benchmark="t",
            component="",
            metric=Metric(name="rate", unit="GB/s", better="higher"),
            device="cpu",
            values=(1.0,),
        )
    )
    with pytest.raises(WireError, match=word.replace("[", r"\[").replace("]", r"\]")):
        from_plain(Measurement, good | change)


def test_unknown_objects_are_refused() -> None:
    with pytest.raises(WireError, match="no plain form"):
        to_plain({"x": object()})


def test_every_field_of_a_node_verdict_is_plain() -> None:
    @dataclass
    class Holder:
        verdict: NodeVerdict

    from pytest_anubis.core.verdict import Decision

    verdict = NodeVerdict(node="n", decision=Decision.ACCEPTED, headline="h", counts=(("PASS", 1),))
    plain = to_plain(Holder(verdict))
    assert set(plain["verdict"]) == {field.name for field in fields(NodeVerdict)}
    assert from_plain(NodeVerdict, plain["verdict"]) == verdict
