"""Values become plain data that execnet takes and come back; an error is one line."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isnan, nan
from pathlib import Path
from typing import Annotated, Any, Literal

import execnet
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.codec import CodecError, from_plain, read_json, to_plain
from pytest_anubis.core.field_types import (
    Alias,
    AnyFloat,
    Compact,
    Count,
    Flat,
    Range,
    Share,
    compact,
)
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Outcome

# execnet itself cannot send whole numbers below -2**31; ours count bytes and values.
numbers = st.floats() | st.integers(-(2**31), 2**70)
values = st.recursive(
    st.none()
    | st.booleans()
    | numbers
    | st.text()
    | st.sampled_from(Outcome)
    | st.floats().map(np.float64)
    | st.just(Path("a/b"))
    | st.lists(st.floats(), max_size=3).map(np.array),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values)
def test_recorded_values_can_be_sent_and_written(value: object) -> None:
    plain = to_plain(value)
    assert execnet.loads(execnet.dumps(plain)) == plain
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    share: Share = 0.5
    odd: AnyFloat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    metric: Annotated[Metric, Flat(name="metric")]
    colour: Colour = Colour.RED
    way: Literal["up", "down", 3] = "up"
    path: Path | None = None
    flag: bool = False
    many: Annotated[int, Range(least=1)] = 1
    pair: tuple[Count, Annotated[int, Range(least=1)]] | None = None
    values: tuple[AnyFloat, ...] = ()
    shares: tuple[Share, ...] = ()
    words: list[str] = field(default_factory=list)
    inner: tuple[Inner, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    anything: Mapping[str, Any] = field(default_factory=dict)
    later: Annotated[str, Alias("since"), Compact] = ""
    interval: Annotated[float, Range(above=0, most=9), Compact] = 0.5


METRIC = Metric(name="rate", unit="GB/s", better="higher")
OUTER = Outer(name="n", metric=METRIC)
PLAIN = to_plain(OUTER)


def test_fields_stand_as_they_are_declared() -> None:
    assert PLAIN == {
        "name": "n",
        "metric": "rate",
        "unit": "GB/s",
        "better": "higher",
        "colour": "red",
        "way": "up",
        "path": None,
        "flag": False,
        "many": 1,
        "pair": None,
        "values": [],
        "shares": [],
        "words": [],
        "inner": [],
        "texts": {},
        "anything": {},
    }
    assert list(to_plain(OUTER, full=True))[-2:] == ["since", "interval"]
    assert from_plain(Outer, PLAIN) == from_plain(Outer, to_plain(OUTER, full=True)) == OUTER
    changed = Outer(name="n", metric=METRIC, later="today", interval=1.0)
    assert (to_plain(changed)["since"], to_plain(changed)["interval"]) == ("today", 1.0)
    assert from_plain(Outer, to_plain(changed)) == changed


def test_class_may_omit_defaults_or_none() -> None:
    @compact("none")
    @dataclass(frozen=True, slots=True)
    class Sparse:
        a: int | None = None
        b: str = ""

    @compact("defaults")
    @dataclass(frozen=True, slots=True)
    class Short:
        c: int
        b: tuple[str, ...] = ()

    assert to_plain([Sparse(), Sparse(a=0)]) == [{"b": ""}, {"a": 0, "b": ""}]
    assert to_plain([Short(0), Short(0, ("x",))]) == [{"c": 0}, {"c": 0, "b": ["x"]}]
    assert to_plain(Short(0), full=True) == {"c": 0, "b": []}


def test_numbers_that_are_not_finite_have_one_spelling() -> None:
    plain = to_plain({"a": (nan, inf, -inf, 1.0), "b": np.float64("nan"), "c": Inner(odd=nan)})
    assert plain["a"] == ["NaN", "Infinity", "-Infinity", 1.0]
    assert (plain["b"], plain["c"]["odd"]) == ("NaN", "NaN")
    read = from_plain(Outer, PLAIN | {"values": plain["a"], "inner": [{"odd": "NaN"}]})
    assert isnan(read.values[0])
    assert read.values[1:] == (inf, -inf, 1.0)
    assert isnan(read.inner[0].odd or 0)
    as_floats = from_plain(Outer, PLAIN | {"values": [inf, 1.0]})
    assert as_floats.values == (inf, 1.0)


def test_huge_numbers_in_lists_are_checked() -> None:
    assert from_plain(tuple[float, ...], [1e308, 1e308]) == (1e308, 1e308)
    with pytest.raises(CodecError, match=r"\[1\]: expected a finite number, found Infinity"):
        from_plain(tuple[float, ...], [1.0, inf])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": "many"}, 'values: expected a list, found "many"'),
        ({"values": [1.0, "x"]}, 'values[1]: expected a number, found "x"'),
        ({"values": [True]}, "values[0]: expected a number, found true"),
        ({"values": [1.0, 10**400]}, "values[1]: expected a number, found a number that is too"),
        ({"shares": [0.5, 1, 1.5]}, "shares[2]: expected a number from 0 to 1, found 1.5"),
        ({"shares": [0.5, -0.5]}, "shares[1]: expected a number from 0 to 1, found -0.5"),
        ({"shares": [0.5, nan]}, "shares[1]: expected a number from 0 to 1, found NaN"),
        ({"inner": [{}, {"share": "x"}]}, 'inner[1].share: expected a number from 0 to 1, found "x"'),
        ({"inner": [{"share": "NaN"}]}, 'share: expected a number from 0 to 1, found "NaN"'),
        ({"inner": [7]}, "inner[0]: expected an object, found 7"),
        ({"interval": 0}, "interval: expected a number above 0, at most 9, found 0"),
        ({"surprise": 1}, "surprise: unknown field; remove it or fix its name"),
        ({"two\nlines" * 20: 1}, "two\\nlines"),
        ({"later": "x"}, "later: unknown field"),
        ({"since": 5}, "since: expected text, found 5"),
        ({"unit": ""}, "metric 'rate' has no unit"),
        ({"better": "up"}, 'better: expected one of higher, lower, equal, found "up"'),
        ({"colour": "green"}, 'colour: expected one of red, blue, found "green"'),
        ({"colour": []}, "colour: expected one of red, blue, found a list"),
        ({"way": 3.0}, "way: expected one of up, down, 3, found 3.0"),
        ({"path": 5}, "path: expected text, found 5"),
        ({"flag": 1}, "flag: expected true or false, found 1"),
        ({"many": True}, "many: expected a whole number of at least 1, found true"),
        ({"many": "1"}, 'many: expected a whole number of at least 1, found "1"'),
        ({"many": 1.0}, "many: expected a whole number of at least 1, found 1.0"),
        ({"many": 0}, "many: expected a whole number of at least 1, found 0"),
        ({"many": 2**63}, "found a number that is too large"),
        ({"pair": [1]}, "pair: expected 2 items, found 1"),
        ({"pair": [1, 0]}, "pair[1]: expected a whole number of at least 1, found 0"),
        ({"texts": {"a": 5}}, "texts.a: expected text, found 5"),
        ({"texts": []}, "texts: expected an object, found a list"),
        ({"name": None}, "name: expected text, found null"),
        ({"name": {}}, "name: expected text, found an object"),
        ({"words": ["a" * 99, 1]}, "words[1]: expected text"),
        ({"flag": "long" * 99}, "..."),
    ],
)  # fmt: skip
def test_wrong_data_is_named(change: dict[str, object], said: str) -> None:
    with pytest.raises(CodecError) as caught:
        from_plain(Outer, PLAIN | change)
    text = str(caught.value)
    assert said in text
    assert "\n" not in text
    assert len(text) < 160


def test_a_missing_field_is_named_as_it_is_stored() -> None:
    without = {key: item for key, item in PLAIN.items() if key != "metric"}
    with pytest.raises(CodecError, match=r"^file\.metric: is missing"):
        from_plain(Outer, without, where="file")
    with pytest.raises(CodecError, match=r"^expected an object, found null"):
        from_plain(Outer, None)


def test_unknown_fields_can_be_ignored() -> None:
    plain = PLAIN | {"new": 1, "inner": [{"newer": 2}]}
    assert from_plain(Outer, plain, unknown="ignore").inner == (Inner(),)
    with pytest.raises(CodecError, match=r"inner\[0\]\.newer: unknown field"):
        from_plain(Outer, PLAIN | {"inner": [{"newer": 2}]})


def test_value_without_plain_form_is_named() -> None:
    with pytest.raises(CodecError, match=r"^x\[1\]\.y: object value has no plain form"):
        to_plain({"x": [1.0, {"y": object()}]})
    with pytest.raises(CodecError, match=r"anything\.b: bytes"):
        to_plain(Outer(name="n", metric=METRIC, anything={"b": b""}))
    with pytest.raises(TypeError, match="has no plain form"):
        from_plain(bytes, b"")


@dataclass(frozen=True, slots=True)
class Tree:
    branches: tuple[Tree, ...] = ()


def test_nothing_endless_is_written_or_read() -> None:
    itself: list[object] = []
    itself.append(itself)
    deep: dict[str, object] = {}
    for _ in range(10_000):
        deep = {"branches": [deep]}
    with pytest.raises(CodecError, match="nested too deeply"):
        to_plain(itself)
    with pytest.raises(CodecError, match="nested too deeply"):
        from_plain(Tree, deep)
    assert from_plain(Tree, {"branches": [{}]}) == Tree((Tree(),))


junk = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5) | st.sampled_from(["NaN", 10**400]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(PLAIN)), junk, max_size=3))
def test_any_content_is_read_or_refused_in_one_line(change: dict[str, Any]) -> None:
    try:
        read = from_plain(Outer, PLAIN | change)
    except CodecError as error:
        said = str(error)
        assert "\n" not in said
        return
    again = from_plain(Outer, json.loads(json.dumps(to_plain(read), allow_nan=False)))
    assert again.name == read.name


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": 1, "a": 2}', "'a' occurs twice in one object"),
        (b'{"a": Infinity}', "not valid JSON (Infinity is not a number)"),
        (b'{"a": ', "line 1 column 7: not valid JSON (Expecting value)"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "not valid JSON (Exceeds the limit"),
        (
            b" " * (1 << 21),
            "too large, beyond the limit of 1MiB; raise it with PYTEST_ANUBIS_MAX_INPUT=",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_json_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(CodecError) as caught:
        read_json(path, largest=1 << 20)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json", largest=1)
