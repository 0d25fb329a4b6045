"""Test which accelerators the user's environment leaves visible."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.inventory import Accelerator
from pytest_anubis.hardware.inventory.visible_devices import visible

CARDS = tuple(
    Accelerator(index=i, vendor="nvidia", name="N", uuid=f"GPU-{i}{'abcd'[i]}") for i in range(4)
)
MIXED = (*CARDS[:2], Accelerator(index=0, vendor="amd", name="A", uuid="x"))


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        (None, ("cuda:0", "cuda:1", "cuda:2", "cuda:3")),
        ("0,1,2,3", ("cuda:0", "cuda:1", "cuda:2", "cuda:3")),
        ("2", ("cuda:2",)),
        ("3, 0", ("cuda:3", "cuda:0")),
        ("GPU-1b,GPU-0a", ("cuda:1", "cuda:0")),
        ("GPU-2", ("cuda:2",)),
        ("1,9,0", ("cuda:1",)),  # as in CUDA: nothing behind a card that is none
        ("-1", ("cpu",)),
        ("", ("cpu",)),
        ("NoDevFiles", ("cpu",)),
        ("1gpu, 0x", ("cuda:1", "cuda:0")),  # read as strtoul does
        ("gpu-3D,GPU-0a", ("cuda:3", "cuda:0")),
    ],
)
def test_numbers_and_uuids_choose_cards(value: str | None, devices: tuple[str, ...]) -> None:
    found = visible(CARDS, {} if value is None else {"CUDA_VISIBLE_DEVICES": value})
    assert found.devices == devices
    assert bool(found.notes) == (len(devices) < 4)
    expected = [CARDS[int(name[5:])].uuid for name in devices if name != "cpu"]
    assert found.bindings == tuple(("CUDA_VISIBLE_DEVICES", uuid) for uuid in expected)


def test_notes_name_the_cards_and_no_uuid() -> None:
    (note,) = visible(CARDS, {"CUDA_VISIBLE_DEVICES": "0,2,3"}).notes
    assert note == "cuda:1 is hidden by CUDA_VISIBLE_DEVICES=0,2,3"
    (note,) = visible(CARDS, {"CUDA_VISIBLE_DEVICES": "GPU-0"}).notes
    assert note == "cuda:1, cuda:2, cuda:3 are hidden by CUDA_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("MIG-1234", "CUDA_VISIBLE_DEVICES names a MIG slice, * leave it out*"),
        ("0,MIG-GPU-0a/1/0", "CUDA_VISIBLE_DEVICES names a MIG slice, *"),
        ("1,1", "CUDA_VISIBLE_DEVICES=1,1 names a card twice, * name each card once"),
        ("GPU-0a,0", "CUDA_VISIBLE_DEVICES names a card twice, *"),
        ("GPU-", "CUDA_VISIBLE_DEVICES fits several cards: give more of the UUID"),
        ("9", "CUDA_VISIBLE_DEVICES=9 names no card that is there (4 to choose from, 0 to 3): *"),
        ("GPU-7", "CUDA_VISIBLE_DEVICES names no card that is there *"),
        (",", "CUDA_VISIBLE_DEVICES=, names no card that is there *"),
    ],
)
def test_what_would_test_a_slice_or_the_cpu_is_refused(value: str, words: str) -> None:
    found = visible(CARDS, {"CUDA_VISIBLE_DEVICES": value})
    assert found.devices == ("cpu",)
    assert found.bindings == ()
    (text,) = found.refused
    assert fnmatchcase(text, words.replace("[", "[[]")), text


def test_what_is_not_counted_any_more_is_said() -> None:
    (note,) = visible(CARDS, {"CUDA_VISIBLE_DEVICES": "1,9,0"}).notes
    assert note == (
        "cuda:0, cuda:2, cuda:3 are hidden by CUDA_VISIBLE_DEVICES=1,9,0 ('9' names no card, and nothing "
        "behind it counts)"
    )


HIP_ORDER = (3, 1, 2, 0)
AMD = tuple(
    Accelerator(index=i, vendor="amd", name="A", uuid=f"u{i}", hip_id=n, hip_uuid=f"GPU-{n}f")
    for i, n in enumerate(HIP_ORDER)
)


@pytest.mark.parametrize(
    ("environ", "devices", "numbers"),
    [
        ({}, "3120", "0123"),  # HIP's number 0 is the card in the last slot
        ({"HIP_VISIBLE_DEVICES": "0,3"}, "30", "03"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "3", "0"),  # as HIP takes it where its own is missing
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}, "1", "1"),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, "20", "01"),
        ({"ROCR_VISIBLE_DEVICES": "GPU-3f,GPU-0"}, "03", "01"),
        ({"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"}, "0", "1"),
        ({"ROCR_VISIBLE_DEVICES": "3,1", "CUDA_VISIBLE_DEVICES": "1,0"}, "10", "10"),
    ],
)
def test_amds_variables_count_in_their_order(
    environ: dict[str, str], devices: str, numbers: str
) -> None:
    found = visible(AMD, environ)
    assert found.devices == tuple(f"cuda:{one}" for one in devices)
    assert found.bindings == tuple(("HIP_VISIBLE_DEVICES", one) for one in numbers)
    assert bool(found.notes) == bool(environ)
    assert not found.refused


def test_a_number_behind_what_rocr_left_is_refused() -> None:
    environ = {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "2"}
    (text,) = visible(AMD, environ).refused
    assert text.startswith("HIP_VISIBLE_DEVICES=2 names no card that is there (2 to choose from")


def test_cards_without_hip_numbers_keep_their_order() -> None:
    unknown = tuple(replace(card, hip_id=None) for card in AMD)
    assert visible(unknown, {}).devices == ("cuda:0", "cuda:1", "cuda:2", "cuda:3")


def test_every_vendor_has_its_own_variable() -> None:
    found = visible(MIXED, {"CUDA_VISIBLE_DEVICES": "1", "ZE_AFFINITY_MASK": ""})
    assert found.devices == ("cuda:1", "cuda:2")
    assert found.bindings[1] == ("HIP_VISIBLE_DEVICES", "0")
    assert visible(MIXED, {"HIP_VISIBLE_DEVICES": ""}).devices == ("cuda:0", "cuda:1")


@given(st.text(max_size=20))
def test_any_value_gives_each_device_at_most_once(text: str) -> None:
    found = visible(CARDS, {"CUDA_VISIBLE_DEVICES": text})
    assert len(set(found.devices)) == len(found.devices)
    assert set(found.devices) <= {"cpu", *(f"cuda:{i}" for i in range(4))}
