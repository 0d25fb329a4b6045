"""Test keys of hardware classes, and the closest class of a node that lost a part."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.inventory import Accelerator, Inventory, Memory, Nic, Processor, System
from pytest_anubis.hardware.inventory.hardware_classes import (
    SIDE_BY_SIDE,
    closest_class,
    extended_key,
    hardware_class,
    slug,
    split_by,
    split_key,
)

GIB = 1 << 30


def card(index: int, name: str = "NVIDIA H100 80GB HBM3") -> Accelerator:
    return Accelerator(
        index=index, vendor="nvidia", name=name, nvlinks=18, nvlinks_active=18, performance_state=0
    )


NODE = Inventory(
    node="n1",
    taken="2026-01-01T00:00:00+00:00",
    processor=Processor(
        model="AMD EPYC 9654 96-Core Processor",
        family="25",
        model_number="17",
        threads=384,
        usable=384,
    ),
    memory=Memory(total=2267 * GIB),
    accelerators=tuple(card(i) for i in range(8)),
    nics=tuple(Nic(name=f"mlx5_{i}/1", kind="infiniband", model="MT4129") for i in range(8)),
    drivers={"nvidia": "550.54.15", "cuda": "12.4"},
    software={"torch": "2.7.1+cu128", "cuda": "12.8", "nvidia-nccl-cu12": "2.26.2"},
)


def key(inventory: Inventory, profile: str = "smoke") -> str:
    return hardware_class(inventory, profile)[0]


def test_key_reads_well_and_names_what_it_is_made_of() -> None:
    found, attributes = hardware_class(NODE, "standard")
    assert found == (
        "8x-nvidia-h100-80gb-hbm3_amd-epyc-9654-384c_3-tib_nvlink18-8xib-mt4129_nvidia550_"
        "torch2.7-cuda12.8-nccl2.26_standard"
    )
    assert attributes["cpu"] == "AMD EPYC 9654"
    assert attributes["memory"] == "3 TiB"
    assert attributes["lanes"] == "one at a time"


@pytest.mark.parametrize(
    "change",
    [
        lambda n: replace(n, accelerators=n.accelerators[:7]),
        lambda n: replace(n, accelerators=tuple(card(i, "NVIDIA H200") for i in range(8))),
        lambda n: replace(n, processor=replace(n.processor, model="AMD EPYC 9554")),
        lambda n: replace(n, processor=replace(n.processor, usable=192)),
        lambda n: replace(n, memory=Memory(total=1100 * GIB)),
        lambda n: replace(n, nics=()),
        lambda n: replace(n, accelerators=tuple(replace(c, nvlinks=12) for c in n.accelerators)),
        lambda n: replace(n, drivers={"nvidia": "570.10"}),
        lambda n: replace(n, software=n.software | {"torch": "2.8.0"}),
        lambda n: replace(n, software=n.software | {"cuda": "12.9"}),
        lambda n: replace(n, software=n.software | {"nvidia-nccl-cu12": "2.27.3"}),
        lambda n: replace(n, software={"torch": "2.7.1", "rocm": "6.4.43482", "rccl": "2.22.3"}),
        lambda n: replace(n, accelerators=tuple(replace(c, mig=True) for c in n.accelerators)),
    ],
    ids=[
        "fewer cards",
        "other cards",
        "other CPU",
        "fewer cores",
        "less memory",
        "no fabric",
        "fewer NVLinks",
        "new driver",
        "minor torch",
        "minor CUDA",
        "minor NCCL",
        "ROCm",
        "MIG",
    ],
)
def test_another_population_gets_another_key(change: Callable[[Inventory], Inventory]) -> None:
    assert key(change(NODE)) != key(NODE)


def test_profile_is_part_of_the_key() -> None:
    assert key(NODE, "soak") != key(NODE, "smoke")


@pytest.mark.parametrize(
    "change",
    [
        lambda n: replace(n, node="n2", taken="2027-01-01T00:00:00+00:00", kernel="6.9"),
        lambda n: replace(n, memory=Memory(total=2264 * GIB)),  # another kernel's reservation
        lambda n: replace(n, processor=replace(n.processor, quota=0.5)),
        lambda n: replace(n, drivers={"nvidia": "550.90.07", "cuda": "12.4"}),
        lambda n: replace(
            n,
            software={
                "torch": "2.7.0",
                "cuda": "12.8.1",
                "nvidia-nccl-cu12": "2.26.5",
                "nccl": "2.1",
            },
        ),
        lambda n: replace(n, nics=tuple(replace(x, state="down", speed=None) for x in n.nics)),
        lambda n: replace(
            n,
            accelerators=tuple(
                replace(
                    c, nvlinks_active=3, performance_state=8, link_generation=1, ecc_corrected=5
                )
                for c in n.accelerators
            ),
        ),
    ],
    ids=[
        "other node",
        "other reservation",
        "quota",
        "minor driver",
        "patches",
        "links down",
        "sensors",
    ],
)
def test_one_machine_keeps_its_key(change: Callable[[Inventory], Inventory]) -> None:
    assert key(change(NODE)) == key(NODE)


@given(
    modules=st.sampled_from([1, 2, 4, 6, 8, 12, 16, 24, 32]),
    gib=st.sampled_from([1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128]),
    reserved=st.floats(0.001, 0.06),
)
def test_memory_class_ignores_the_kernels_reservation(
    modules: int, gib: int, reserved: float
) -> None:
    installed = modules * gib * GIB
    one = replace(NODE, memory=Memory(total=int(installed * (1 - reserved))))
    other = replace(NODE, memory=Memory(total=int(installed * 0.999)))
    assert hardware_class(one, "smoke")[1]["memory"] == hardware_class(other, "smoke")[1]["memory"]


@given(model=st.text(), name=st.text(min_size=1), torch=st.text())
def test_any_key_is_a_file_name(model: str, name: str, torch: str) -> None:
    node = replace(
        NODE,
        processor=Processor(model=model, usable=2),
        accelerators=(card(0, name),),
        software={"torch": torch},
    )
    found = key(node)
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", found)
    assert len(found) < 200


def test_long_names_stay_apart() -> None:
    assert slug("x" * 60 + "a") != slug("x" * 60 + "b")


def test_cpu_with_a_hidden_name_is_named_by_family() -> None:
    hidden = Processor(model="AMD EPYC", family="26", model_number="2", usable=2)
    older = replace(hidden, family="25")
    a, b = (hardware_class(replace(NODE, processor=p), "smoke")[1]["cpu"] for p in (hidden, older))
    assert (a, b) == ("AMD EPYC f26m2", "AMD EPYC f25m2")


def test_empty_inventory_has_a_class() -> None:
    assert key(Inventory(node="n")) == "no-accelerator_unknown-cpu-unknownc_unknown_torchnone_smoke"


def test_node_that_lost_a_card_keeps_its_class() -> None:
    classes = dict(
        [hardware_class(NODE, "smoke"), hardware_class(replace(NODE, drivers={}, nics=()), "smoke")]
    )
    broken = hardware_class(replace(NODE, accelerators=NODE.accelerators[:7]), "smoke")[1]
    assert closest_class(broken, classes) == key(NODE)


def test_other_models_and_profiles_are_never_close() -> None:
    attributes = hardware_class(NODE, "smoke")[1]
    other = replace(NODE, accelerators=tuple(card(i, "NVIDIA H200") for i in range(8)))
    classes = dict([hardware_class(other, "smoke"), hardware_class(NODE, "soak")])
    assert closest_class(attributes, classes) is None


def test_two_equally_close_classes_are_no_answer() -> None:
    classes = dict(hardware_class(replace(NODE, drivers={"nvidia": v}), "smoke") for v in "45")
    assert closest_class(hardware_class(NODE, "smoke")[1], classes) is None


def test_without_accelerators_the_key_is_what_it_was() -> None:
    host = replace(NODE, accelerators=(), drivers={})
    found, attributes = hardware_class(host, "smoke", lanes=SIDE_BY_SIDE)
    assert found == "no-accelerator_amd-epyc-9654-384c_3-tib_8xib-mt4129_torch2_smoke"
    assert "lanes" not in attributes
    other = replace(host, software={"torch": "2.13.0", "cuda": "13.0", "nvidia-nccl-cu13": "2.30"})
    assert key(other) == found


def test_side_by_side_is_another_class() -> None:
    found, attributes = hardware_class(NODE, "smoke", lanes=SIDE_BY_SIDE)
    assert found == key(NODE).replace("_smoke", "_side-by-side_smoke")
    assert attributes["lanes"] == "side by side"
    assert closest_class(attributes, dict([hardware_class(NODE, "smoke")])) == key(NODE)


def test_recorded_class_is_split_like_a_new_one() -> None:
    found, attributes = hardware_class(NODE, "smoke")
    added = {"cooling": "rear door"}
    facts = split_by(["bios", "water"], {"bios": "1.2"})
    assert facts == {"bios": "1.2", "water": "unknown"}
    named = extended_key(attributes, added | facts)
    assert named == f"{found}_bios-1.2_cooling-rear-door_water-unknown"
    assert split_key(extended_key(attributes, added), attributes | added, facts) == named
    assert split_key("imported", {}, facts) == "imported_bios-1.2_water-unknown"


def test_class_of_a_vm_ignores_its_memory() -> None:
    sizes = (Memory(total=120 * GIB), Memory(total=200 * GIB))
    virtual = [replace(NODE, memory=one, system=System(virtual=True)) for one in sizes]
    assert key(virtual[0]) == key(virtual[1])
    real = [replace(NODE, memory=one) for one in sizes]
    assert key(real[0]) != key(real[1])
