"""Any text of a test can be written, and any value can be sent."""

from __future__ import annotations

from typing import Any

import execnet
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.codec.encodable_text import (
    MAX_REPR_LENGTH,
    MAX_TEXT_LENGTH,
    all_encodable,
    bounded,
    encodable,
    sendable,
    without_surrogates,
)
from pytest_anubis.core.events import LeftBehind, Measured
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric

BAD = b"a\xff".decode("utf-8", "surrogateescape")
any_text = st.text(st.characters(codec=None))  # lone surrogates too

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), any_text, st.binary(), st.complex_numbers(),
    st.sampled_from([np.float64(3), np.int64(3), np.array([1, 2]), object(), LeftBehind(test="t")]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(any_text, inner),
    max_leaves=20,
)


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError


def test_lone_surrogates_are_replaced() -> None:
    assert without_surrogates("a\udcffb\ud800") == "a\ufffdb\ufffd"
    assert without_surrogates("plain, \xe9, \U0001f600\0") == "plain, \xe9, \U0001f600\0"


@given(any_text)
def test_only_unencodable_text_changes(text: str) -> None:
    made = encodable(text)
    made.encode("utf-8")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        assert made != text
    else:
        assert made == text


def test_all_texts_of_events_become_encodable() -> None:
    metric = Metric(name="rate", unit="GB/s", better="higher", goal=BAD)
    measurement = Measurement(
        test=BAD, benchmark="b", component="c", metric=metric, device="d", values=(1.0, 2.0)
    )
    event = Measured(measurement=measurement)
    made = all_encodable(event)
    assert made.measurement.test == made.measurement.metric.goal == "a\\udcff"
    assert made.measurement.values is measurement.values
    assert all_encodable(made) is made
    assert all_encodable({BAD: 1, encodable(BAD): [BAD]}) == {"a\\udcff": ["a\\udcff"]}


@given(values)
def test_everything_can_be_sent(value: Any) -> None:
    execnet.dumps(sendable(value))


@pytest.mark.parametrize(
    "value",
    [-(2**40), 10**5000, Unshowable(), BAD * 10],
    ids=["below 32 bits", "beyond 4300 digits", "no repr", "no encoding"],
)
def test_values_that_execnet_refuses_become_sendable(value: Any) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011  # each in its own way
        execnet.dumps({"value": value})
    execnet.dumps(sendable({"value": value}))


def test_plain_values_are_sent_as_they_are() -> None:
    plain = {"a": [1, 2.5, "x", None, True, b"b"], "b": ("t", {"c": 1})}
    assert sendable(plain) == plain
    assert sendable(np.float64(3.0)) == 3.0
    assert type(sendable(np.float64(3.0))) is float
    assert sendable(np.int64(3)) == 3


def test_endless_and_huge_values_are_cut() -> None:
    loop: list[Any] = []
    loop.append(loop)
    execnet.dumps(sendable(loop))
    assert len(sendable(range(10**6).__class__)) <= MAX_REPR_LENGTH
    assert len(sendable(np.arange(10**6))) <= MAX_REPR_LENGTH + 3
    text = "b" + "x" * 3 * MAX_TEXT_LENGTH + "e"
    cut = bounded(text)
    assert (cut[0], cut[-1]) == ("b", "e")
    assert f"... {2 * MAX_TEXT_LENGTH + 2} characters left out ..." in cut
    assert bounded("x" * MAX_TEXT_LENGTH) == "x" * MAX_TEXT_LENGTH
