"""Writes tests/data/recorded_8gpu.json: a node with eight GPUs that does not exist.

Every number is made up from the plain parameters below; nothing was read from a real machine. Run it from
the root of the repository with ``python -m tests.hardware.make_recorded_8gpu``.
"""

from __future__ import annotations

import math

from pytest_anubis.core.inventory import (
    Accelerator,
    Disk,
    Inventory,
    Memory,
    Nic,
    Processor,
    System,
)
from pytest_anubis.hardware.telemetry.host_sensors import (
    FREQUENCY,
    HOST,
    MEMORY_CLOCK,
    MEMORY_TEMPERATURE,
    POWER,
    PRESSURE,
    REASONS,
    SM_CLOCK,
    STEAL,
    TEMPERATURE,
    UTILISATION,
    Reading,
)
from pytest_anubis.hardware.telemetry.recorded_node import Recorded, recording_text
from tests.places import RECORDED

FILE = RECORDED

GIB = 1 << 30
CARDS = 8
BUSES = ("18", "2a", "3a", "5d", "9a", "ab", "ba", "db")
LINKS = 18
READINGS = 8
INTERVAL = 0.2


def card(index: int) -> Accelerator:
    """One healthy card."""
    return Accelerator(
        index=index,
        vendor="nvidia",
        name="NVIDIA H100 80GB HBM3",
        pci=f"0000:{BUSES[index]}:00.0",
        uuid=f"GPU-00000000-0000-4000-8000-{index:012d}",
        serial=f"165000000000{index}",
        part="692-2G520-0200-000",
        memory=85_520_809_984,
        vbios="96.00.89.00.01",
        firmware="G520.0200.00.05",
        link_width=16,
        link_width_max=16,
        link_generation=5,
        link_generation_max=5,
        power_limit=700.0,
        power_limit_default=700.0,
        sm_clock_max=1980.0,
        memory_clock_max=2619.0,
        compute_capability="9.0",
        mig=False,
        nvlinks=LINKS,
        nvlinks_active=LINKS,
        performance_state=0,
        ecc=True,
        ecc_corrected=0,
        ecc_uncorrected=0,
        ecc_uncorrected_lifetime=0,
        remapped_corrected=0,
        remapped_uncorrected=0,
        remap_pending=False,
        remap_failed=False,
    )


def disk(number: int) -> Disk:
    """One healthy disk."""
    return Disk(
        name=f"nvme{number}n1",
        model="Made-up NVMe 3.84T",
        serial=f"DISK{number}",
        firmware="1.2",
        size=3_840_755_982_336,
        rotational=False,
        transport="pcie",
        wear=3.0,
        media_errors=0,
        link_width=4,
        link_width_max=4,
    )


def port(number: int) -> Nic:
    """One healthy port."""
    return Nic(
        name=f"mlx5_{number}/1",
        kind="infiniband",
        model="MT4129",
        driver="mlx5_core",
        speed=400.0,
        state="active",
        firmware="28.39.1002",
        link_width=16,
        link_width_max=16,
    )


def node() -> Inventory:
    """The healthy node."""
    return Inventory(
        node="made-up-8gpu",
        taken="2026-01-01T00:00:00+00:00",
        system=System(vendor="Maker", product="GPU Server 8", board="Board 8", bios="1.4.2"),
        processor=Processor(
            model="Intel(R) Xeon(R) Platinum 8480+",
            vendor="GenuineIntel",
            family="6",
            model_number="143",
            microcode="0x2b0004d0",
            sockets=2,
            cores=112,
            threads=224,
            usable=224,
            numa_nodes=2,
            mhz_max=3800.0,
            governor="performance",
        ),
        memory=Memory(total=2015 * GIB, swap=0, corrected=0, uncorrected=0),
        accelerators=tuple(card(index) for index in range(CARDS)),
        on_bus=tuple(f"0000:{bus}:00.0" for bus in BUSES),
        disks=tuple(disk(number) for number in range(4)),
        nics=tuple(port(number) for number in range(CARDS)),
        kernel="6.8.0",
        os="Linux",
        architecture="x86_64",
        drivers={"nvidia": "550.54.15", "cuda": "12.4"},
        software={"python": "3.11.7", "torch": "2.7.1+cu126"},
    )


def reading(number: int) -> Reading:
    """Sensors of all cards under load, with small waves so that strips show something."""
    values: dict[str, dict[str, float]] = {
        HOST: {FREQUENCY: 3000.0 + number, PRESSURE: 0.5, STEAL: 0.0}
    }
    counters: dict[str, dict[str, int]] = {HOST: {"corrected memory errors": 0}}
    for index in range(CARDS):
        wave = math.sin(number / 3 + index)
        values[f"GPU {index}"] = {
            POWER: round(640 + 20 * wave, 1),
            SM_CLOCK: round(1900 + 30 * wave),
            MEMORY_CLOCK: 2619.0,
            TEMPERATURE: round(60 + 2 * wave + index / 4, 1),
            MEMORY_TEMPERATURE: round(70 + 2 * wave, 1),
            UTILISATION: 100.0,
            REASONS: 0.0,
        }
        counters[f"GPU {index}"] = {
            "corrected ECC errors": 0,
            "uncorrected ECC errors": 0,
            "remapped rows": 0,
            "failed row remappings": 0,
            "PCIe replays": 0,
            "thermal slowdown (ns)": 0,
            **{f"NVLink {link} CRC errors": 0 for link in range(LINKS)},
        }
    return Reading(values=values, counters=counters)


def recorded() -> Recorded:
    """The whole recording."""
    return Recorded(
        inventory=node(),
        origin="Made up by tests/hardware/make_recorded_8gpu.py; no real machine.",
        interval=INTERVAL,
        readings=tuple(reading(number) for number in range(READINGS)),
    )


if __name__ == "__main__":
    FILE.write_text(recording_text(recorded()), encoding="utf-8")
