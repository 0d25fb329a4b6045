"""Which accelerators the user's environment leaves visible."""

from __future__ import annotations

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
        ("GPU-", ("cpu",)),  # means several
        ("1,9,0", ("cuda:1",)),  # as in CUDA: nothing behind a card that is none
        ("1,1", ("cuda:1",)),
        ("-1", ("cpu",)),
        ("", ("cpu",)),
        ("MIG-1234", ("cpu",)),
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


def test_every_vendor_has_its_own_variable() -> None:
    found = visible(MIXED, {"CUDA_VISIBLE_DEVICES": "1", "ZE_AFFINITY_MASK": ""})
    assert found.devices == ("cuda:1", "cuda:2")
    assert found.bindings[1] == ("HIP_VISIBLE_DEVICES", "0")
    assert visible(MIXED, {"HIP_VISIBLE_DEVICES": ""}).devices == ("cuda:0", "cuda:1")


@given(st.text(max_size=20))
def test_whatever_stands_there_devices_are_the_nodes_own_and_each_once(text: str) -> None:
    found = visible(CARDS, {"CUDA_VISIBLE_DEVICES": text})
    assert len(set(found.devices)) == len(found.devices)
    assert set(found.devices) <= {"cpu", *(f"cuda:{i}" for i in range(4))}
