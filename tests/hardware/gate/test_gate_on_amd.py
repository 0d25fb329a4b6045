"""The gate on eight stand-in cards of AMD's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.core.inventory import GateFinding, Inventory
from pytest_anubis.hardware.gate.inventory_gate import check_inventory
from pytest_anubis.hardware.gate.preflight import preflight
from pytest_anubis.hardware.gate.software_environment import SoftwareEnvironment, Torch
from pytest_anubis.hardware.inventory.amd_inventory import read_amd
from pytest_anubis.hardware.inventory.golden_inventory import golden_inventory
from pytest_anubis.hardware.text_files import Files
from tests.hardware.nvml_stand_in import Node
from tests.hardware.nvml_stand_in import amdsmi_node as amdsmi_node

ROCM = SoftwareEnvironment(
    torch=Torch(version="2.13.0+rocm6.4", hip="6.4.4"), shared_memory=1 << 30
)
SLOT = "GPU 2 (0000:38:00.0)"


def looked_at() -> Inventory:
    cards, drivers, notes = read_amd(Files())
    return Inventory(node="n", accelerators=cards, drivers=drivers, unreadable=notes)


FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "uncorrected": (
        {"gpu2.amdsmi_get_gpu_total_ecc_count.uncorrectable_count": 1},
        "INCONCLUSIVE",
        f"{SLOT}: number of uncorrected ECC errors is 1 since the driver was loaded, expected 0",
    ),
    "link": (
        {"gpu2.amdsmi_get_link_metrics.links.4.bit_rate": 0},
        "FAIL",
        f"{SLOT}: number of NVLinks that are up is 6, expected 7",
    ),
    "partitioned": (
        {"gpu2.amdsmi_get_gpu_compute_partition": "CPX"},
        "INCONCLUSIVE",
        f"{SLOT}: partitioning is on, expected off",
    ),
    "memory held": (
        {"gpu2.amdsmi_get_gpu_vram_usage.vram_used": 150_000},
        "INCONCLUSIVE",
        f"{SLOT}: free memory is 45.5 GiB, expected at least 90 % of 192.0 GiB",
    ),
    "silent sensor": (
        {"gpu2.error.amdsmi_get_gpu_total_ecc_count": "AMDSMI_STATUS_BUSY"},
        "INCONCLUSIVE",
        f"{SLOT}: sensor ecc_uncorrected is unreadable: AMDSMI_STATUS_BUSY, expected readable",
    ),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_fault_is_found_and_named(amdsmi_node: Node, name: str) -> None:
    changes, severity, text = FAULTS[name]
    golden = golden_inventory([looked_at()])

    def findings() -> list[GateFinding]:
        now = looked_at()
        return [*check_inventory(now, golden), *preflight(now, ROCM)]

    assert findings() == []
    amdsmi_node.set(changes)
    assert [(finding.severity, finding.text) for finding in findings()] == [(severity, text)]


def test_partitions_like_the_class_are_no_finding(amdsmi_node: Node) -> None:
    amdsmi_node.set({"gpu.amdsmi_get_gpu_compute_partition": "CPX"})
    now = looked_at()
    assert check_inventory(now, golden_inventory([now])) == []
    whole = replace(now, accelerators=tuple(replace(c, mig=False) for c in now.accelerators))
    assert len(check_inventory(whole, golden_inventory([now]))) == 8
