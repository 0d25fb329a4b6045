from __future__ import annotations

import dataclasses

from pytest_anubis.core.inventory import Accelerator, Inventory, Nic, System
from pytest_anubis.hardware.inventory.hardware_classes import node_facts

CARD = Accelerator(index=0, vendor="nvidia", name="H100", vbios="96.1", serial="17", ecc=True)


def node(**changes: object) -> Inventory:
    base = Inventory(
        node="a",
        system=System(bios="2.1", serial="x9"),
        accelerators=(CARD, dataclasses.replace(CARD, index=1, serial="18")),
        nics=(Nic(name="eth0", firmware="28.4", address="00:11"),),
        kernel="6.8",
        drivers={"nvidia": "550.54"},
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]  # fields by name


def test_versions_and_settings_are_facts() -> None:
    facts = node_facts(node())
    assert facts["bios"] == "2.1"
    assert facts["accelerator vbios"] == "96.1"
    assert facts["accelerator ecc"] == "on"
    assert facts["nic firmware"] == "28.4"
    assert facts["driver nvidia"] == "550.54"
    assert facts["kernel"] == "6.8"


def test_what_differs_within_a_node_is_joined() -> None:
    mixed = (CARD, dataclasses.replace(CARD, index=1, vbios="95.0"))
    assert node_facts(node(accelerators=mixed))["accelerator vbios"] == "95.0 + 96.1"


def test_two_healthy_siblings_have_the_same_facts() -> None:
    other = dataclasses.replace(CARD, serial="99", uuid="GPU-2", ecc_corrected=7)
    sibling = node(
        node="b",
        system=System(bios="2.1", serial="y1"),
        accelerators=(other, dataclasses.replace(other, index=1)),
        nics=(Nic(name="eth0", firmware="28.4", address="00:22"),),
    )
    assert node_facts(sibling) == node_facts(node())
