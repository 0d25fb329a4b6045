"""Recorded nodes: written, read again, and refused with one line when they are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_anubis.hardware.gate.inventory_gate import check_inventory
from pytest_anubis.hardware.inventory.hardware_classes import hardware_class
from pytest_anubis.hardware.telemetry.recorded_node import (
    Recorded,
    RecordingError,
    recording_text,
    replay,
)
from tests.hardware.make_recorded_8gpu import FILE, recorded


def test_shipped_recording_is_what_its_script_makes() -> None:
    assert replay(FILE) == recorded()


def test_shipped_recording_says_that_it_is_made_up() -> None:
    assert "Made up" in replay(FILE).origin


def test_shipped_recording_is_a_clean_eight_card_node() -> None:
    inventory = replay(FILE).inventory
    assert check_inventory(inventory) == []
    assert hardware_class(inventory, "smoke")[0].startswith("8x-nvidia-h100-80gb-hbm3_")


def test_recording_of_a_real_card_is_a_clean_node() -> None:
    inventory = replay(FILE.with_name("recorded_h200.json")).inventory
    assert check_inventory(inventory) == []
    assert hardware_class(inventory, "smoke")[0].startswith("1x-nvidia-h200_")


def test_recording_is_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text(recording_text(recorded()), encoding="utf-8")
    assert replay(path) == recorded()


def test_recording_with_nan_is_not_written() -> None:
    broken = Recorded(inventory=recorded().inventory, interval=float("nan"))
    with pytest.raises(ValueError, match="interval: expected a finite number, found NaN"):
        recording_text(broken)


DATA = json.loads(FILE.read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "something"}, 'not a recorded node: "kind" is not'),
        ({"schema": 9}, "schema 9, this version reads 1"),
        ({"schema": True}, "schema True, this version reads 1"),
        ({"inventory": None}, "inventory: expected an object"),
        ({"inventory": {"schema": 1}}, "inventory.node: is missing"),
        (
            {"readings": [{"values": {"GPU 0": {"power": "hot"}}}]},
            "readings[0].values.GPU 0",
        ),
        ({"readings": 4}, "readings: expected a list, found 4"),
        ({"interval": 0}, "interval: expected a number above 0, found 0"),
        ({"extra": 1}, "extra: unknown field"),
        ({"two\nlines": 1}, "two\\nlines: unknown field"),
        ({"schema": "two\nlines"}, "schema two\\nlines, this"),
        ({"inventory": {"schema": 1, "node": "n", "a\nb": 1}}, "inventory.a\\nb: unknown field"),
        (
            {"inventory": {"schema": 1, "node": "n", "drivers": {"a\nb": 1}}},
            "drivers.a\\nb: expected",
        ),
        ({"inventory": {"schema": "1\n2"}}, "schema is 1\\n2"),
    ],
)
def test_damaged_recording_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "node.json"
    path.write_text(json.dumps({**DATA, **change}))
    with pytest.raises(RecordingError) as caught:
        replay(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b"null"])
def test_what_is_no_recording_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "node.json"
    path.write_bytes(raw)
    with pytest.raises(RecordingError) as caught:
        replay(path)
    assert "\n" not in str(caught.value)


SMALL = {**DATA, "readings": DATA["readings"][:1]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        items: list[tuple[Any, Any]] = list(value.items())
    else:
        items = list(enumerate(value)) if isinstance(value, list) else []
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


PLACES = places(SMALL)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=100,
)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_no_mutation_of_a_recording_gives_a_traceback(
    tmp_path: Path, place: tuple[Any, ...], value: Any
) -> None:
    data = json.loads(json.dumps(SMALL))
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = tmp_path / "node.json"
    path.write_text(json.dumps(data))
    refusal = ""
    try:
        replay(path)
    except RecordingError as error:
        refusal = str(error)
    assert "\n" not in refusal
