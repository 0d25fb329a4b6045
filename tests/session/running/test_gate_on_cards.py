"""The gate on eight stand-in cards, through NVIDIA's own bindings: faults and obstacles are named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis import run_context
from pytest_anubis.core.inventory import Inventory
from pytest_anubis.hardware.gate import software_environment
from pytest_anubis.hardware.inventory.golden_inventory import golden_inventory
from pytest_anubis.hardware.inventory.inventory_reading import inventory_to_plain, read_inventory
from pytest_anubis.hardware.telemetry.card_watch import CardWatch
from pytest_anubis.session.running import gate_plugin
from pytest_anubis.store import earlier_runs
from pytest_anubis.store.baselines.baseline_files import save_baseline
from tests.hardware.nvml_stand_in import Node
from tests.hardware.nvml_stand_in import nvml_node as nvml_node
from tests.session.conftest import COPIES, baseline_of_copies, set_default

SLOT = "GPU 3 (0000:61:00.0)"
SERIAL = "serial number 1650000003"


@pytest.fixture
def eight(
    pytester: pytest.Pytester, nvml_node: Node, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """A suite for each of eight healthy cards, and the baseline of their class."""
    set_default(monkeypatch, CardWatch, "wait", 20)  # milliseconds until a watch can end
    monkeypatch.setattr(software_environment, "_size", lambda _: 1 << 30)
    pytester.makepyfile(test_suite=COPIES)
    inventory = read_inventory()
    baseline = baseline_of_copies(inventory)
    golden = inventory_to_plain(golden_inventory([settled(inventory)] * 3))
    save_baseline(replace(baseline, inventory=golden), pytester.path / "baselines")
    # What this machine changes by itself is not what is tested here.
    monkeypatch.setattr(run_context, "read_inventory", lambda: settled(read_inventory()))
    return pytester


def settled(inventory: Inventory) -> Inventory:
    processor = replace(inventory.processor, unreadable=())
    return replace(inventory, processor=processor, disks=(), nics=())


def run(pytester: pytest.Pytester, *more: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    result = pytester.runpytest("--anubis", "--anubis-in-process", "-p", "no:xdist", *more)
    journals = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    journal = max(journals, key=lambda path: path.stat().st_mtime_ns)
    lines = journal.read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return result, [e for e in events if e["event"] == "verdict" and e["benchmark"] == "inventory"]


def test_eight_healthy_cards_are_accepted(eight: pytest.Pytester) -> None:
    result, verdicts = run(eight)
    result.assert_outcomes(passed=8)
    assert (result.ret, verdicts) == (0, [])


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("3,1", 2),
        ("GPU-5a000000-0000-0000-0000-000000000005,GPU-5a000000-0000-0000-0000-000000000000", 2),
    ],
    ids=["numbers", "UUIDs"],
)
def test_cards_that_are_left_visible_are_tested(
    eight: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, value: str, count: int
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    result, verdicts = run(eight)
    result.assert_outcomes(passed=count)
    assert verdicts == []


# What the cards say, and a sentence of the gate.
REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "SRAM": ({"gpu3.sram.threshold": 1}, "the vendor's limit of SRAM errors is exceeded"),
    "remap failed": (
        {"gpu3.remapped.failed": 1},
        "row remapping is failed: the spare rows are used up",
    ),
    "no spares": (
        {"gpu3.histogram.none": 1, "gpu3.histogram.max": 639},
        "number of memory banks without spare rows is 1",
    ),
    "x8": ({"gpu3.pcie.width": 8}, "PCIe link width is 8, expected 16"),
    "lost NVLink": ({"gpu3.nvlink.7.state": 0}, "number of NVLinks that are up is 17, expected 18"),
    "slow NVLink": (
        {"gpu3.nvlink.7.speed": 13281},
        "speed of the slowest NVLink (MB/s) is 13281, expected 26562",
    ),
    "degraded fabric": (
        {"gpu3.fabric.health": "0x1a9"},  # as healthy, but the two lowest bits say degraded
        "NVSwitch fabric's health is degraded bandwidth, expected healthy",
    ),
    "lost": ({"gpu3.error.nvmlDeviceGetTotalEccErrors": 15}, "GPU is lost (NVML error 15)"),
}
# What the cards say, a sentence, and words of the next step.
UNDECIDED: dict[str, tuple[dict[str, Any], str, str]] = {
    "MIG": (
        {"gpu3.mig": 1, "gpu3.mig.devices": 2},
        "partitioning (MIG) is on",
        "nvidia-smi -i 3 -mig 0",
    ),
    "exclusive": (
        {"gpu.compute.mode": 3},
        "compute mode is exclusive-process, and one process tests all cards",
        "nvidia-smi -i 3 -c DEFAULT",
    ),
    "uncorrected ECC": (
        {"gpu3.ecc.uncorrected.volatile.2": 1},
        "number of uncorrected ECC errors is 1 since the driver was loaded",
        SERIAL,
    ),
    "remap pending": (
        {"gpu3.remapped.pending": 1, "gpu3.remapped.uncorrected": 1},
        "row remapping is waiting for a reset",
        "then test again",
    ),
    "fabric": (
        {"gpu3.fabric.state": 2},
        "NVSwitch fabric is in progress, expected completed",
        "systemctl start nvidia-fabricmanager",
    ),
    "fabric of an older driver": (
        {"gpu3.fabric.state": 1, "gpu.fabric.version": 2},
        "NVSwitch fabric is not started, expected completed",
        "systemctl start nvidia-fabricmanager",
    ),
    "fabric failed": (
        {"gpu3.fabric.status": 999},
        "NVSwitch fabric is failed (NVML error 999), expected completed",
        "fabricmanager",
    ),
    "unhealthy fabric": (
        {"gpu3.fabric.summary": 2},
        "NVSwitch fabric's health is unhealthy, and the driver does not say why, expected healthy",
        SERIAL,
    ),
    "recovery of a newer driver": (
        {"gpu3.recovery": 6},
        "recovery that the driver asks for is waiting: reset the card by its bus",
        "the kernel log says why",
    ),
    "recovery": (
        {"gpu3.recovery": 1},
        "recovery that the driver asks for is waiting: reset the card",
        "the kernel log says why",
    ),
    "locked clock": (
        {"gpu3.reasons": "0x2"},
        "clock is held down by a setting",
        "nvidia-smi -i 3 -rgc",
    ),
    "memory held": (
        {"gpu3.memory.used": 50e9},
        "free memory is 33.1 GiB, expected at least 90 % of 79.6 GiB",
        "nvidia-smi",
    ),
    "old driver": (
        {"cuda": 12040, "driver": "550.54.15"},
        "driver is 550.54.15 for CUDA 12.4, expected one for CUDA 13",
        "update the driver",
    ),
}


@pytest.mark.parametrize("fault", [*REJECTED, *UNDECIDED])
def test_a_fault_is_found_and_named(eight: pytest.Pytester, nvml_node: Node, fault: str) -> None:
    rejects = fault in REJECTED
    changes, words, action = (*REJECTED[fault], SERIAL) if rejects else UNDECIDED[fault]
    severity, place = "FAIL" if rejects else "INCONCLUSIVE", "" if fault == "old driver" else SLOT
    nvml_node.set(changes)
    result, verdicts = run(eight)
    mine = [v for v in verdicts if words in v["text"] and v.get("device", "") == place]
    assert [v["outcome"] for v in mine] == [severity]
    assert action in mine[0]["action"]
    assert {v["outcome"] for v in verdicts} == {severity}
    assert result.ret == (1 if rejects else 20)
    result.stdout.fnmatch_lines([f"anubis gate: {severity}: *{words}*"])


def test_a_card_off_the_bus_is_lost(eight: pytest.Pytester, nvml_node: Node) -> None:
    nvml_node.set({"gpu3.lost": 1})
    result, _ = run(eight)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "anubis gate: FAIL: 0000:61:00.0: number of accelerators is 7, expected 8; next step: *",
            "anubis gate: FAIL: GPU 3: card is lost: GPU is lost (NVML error 15), expected *power-cycle*",
        ]
    )


def test_a_slice_never_becomes_a_quiet_run_of_the_cpu(
    eight: pytest.Pytester, nvml_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml_node.set({"gpu0.mig": 1, "gpu0.mig.devices": 1})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5a000000-0000-0000-0000-000000000000")
    result, verdicts = run(eight)
    assert result.ret == 20
    assert "CUDA_VISIBLE_DEVICES is a slice of a card (MIG), expected whole cards" in "".join(
        verdict["text"] for verdict in verdicts
    )


def test_dockers_shared_memory_is_named(
    eight: pytest.Pytester, nvml_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(software_environment, "_size", lambda _: 64 << 20)
    result, _ = run(eight)  # these cards have NVLink: it may go well
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["anubis gate: NOTE: shared memory (/dev/shm) is 64 MiB, *; next step: *--shm-size=1g*"]
    )


def test_a_card_that_hangs_its_driver_is_named(
    eight: pytest.Pytester, nvml_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml_node.set({"gpu3.hang.nvmlDeviceGetVbiosVersion": 60})
    impatient = partial(read_inventory, deadline=3.0)
    monkeypatch.setattr(run_context, "read_inventory", lambda: settled(impatient()))
    again: list[float] = []  # deadlines of readings at the end of the run
    monkeypatch.setattr(gate_plugin, "read_inventory", lambda deadline: again.append(deadline))
    result, verdicts = run(eight)
    assert (result.ret, again) == (20, [])
    (verdict,) = verdicts
    assert verdict["text"].startswith(
        f"{SLOT}: card is silent: it did not answer within 3 s, expected one that answers"
    )
    assert SERIAL in verdict["text"]


def test_errors_that_the_driver_has_forgotten_are_told(
    eight: pytest.Pytester, nvml_node: Node
) -> None:
    assert run(eight, "--anubis-run-id=first")[0].ret == 0
    nvml_node.set({"gpu3.ecc.uncorrected.aggregate": 2, "gpu3.remapped.uncorrected": 1})
    result, verdicts = run(eight)
    assert (result.ret, verdicts) == (0, [])
    result.stdout.fnmatch_lines(
        [
            f"anubis gate: NOTE: {SLOT}: number of uncorrected ECC errors of its life is 2 more than *",
            f"anubis gate: NOTE: {SLOT}: number of rows remapped after uncorrected errors is 1 more *",
        ]
    )


@pytest.mark.parametrize("damaged", [False, True])
def test_a_node_that_has_lost_cards_is_no_sound_smaller_one(
    eight: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    known = earlier_runs.earlier_inventories

    def inventories(store: Path, *, node: str, before: str) -> Iterator[Mapping[str, Any]]:
        yield from [{"accelerators": 3}] if damaged else []
        yield from known(store, node=node, before=before)

    monkeypatch.setattr(earlier_runs, "earlier_inventories", inventories)
    read = settled(read_inventory())
    whole = replace(read, on_bus=tuple(card.pci or "" for card in read.accelerators))
    half = replace(whole, accelerators=whole.accelerators[:4], on_bus=(whole.on_bus or ())[:4])
    golden = inventory_to_plain(golden_inventory([half] * 3))
    smaller = replace(baseline_of_copies(half), inventory=golden)
    save_baseline(smaller, eight.path / "baselines")
    ends = []
    for here in (half, whole, half, half, whole):
        monkeypatch.setattr(run_context, "read_inventory", partial(replace, here))
        monkeypatch.setattr(gate_plugin, "read_inventory", lambda deadline, here=here: here)
        result, verdicts = run(eight)
        ends.append((int(result.ret), [one["device"] for one in verdicts][:1]))
    lost = (1, ["GPU 4 (0000:9d:00.0)"])
    assert ends == [(0, []), (0, []), lost, lost, (0, [])]
