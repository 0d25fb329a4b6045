"""The stand-in cards themselves: the real bindings, in this process and in others, see what the file says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pynvml
import pytest

from pytest_anubis.core.inventory import Accelerator
from pytest_anubis.hardware.inventory.amd_inventory import read_amd
from pytest_anubis.hardware.inventory.nvidia_inventory import NvidiaReading
from pytest_anubis.hardware.text_files import Files
from tests.hardware.nvml_stand_in import Node, tell_state
from tests.hardware.nvml_stand_in import amdsmi_node as amdsmi_node
from tests.hardware.nvml_stand_in import nvml_node as nvml_node


def cards() -> tuple[Accelerator, ...]:
    found, _, notes = NvidiaReading().read()
    assert notes == ()
    return found


def test_eight_healthy_cards(nvml_node: Node) -> None:
    found, drivers, notes = NvidiaReading().read()
    assert (len(found), notes) == (8, ())
    assert drivers == {"nvidia": "580.65.06", "cuda": "13.0"}
    assert [card.unreadable for card in found] == [()] * 8
    assert len({card.uuid for card in found}) == len({card.pci for card in found}) == 8
    assert (found[3].pci, found[3].nvlinks, found[3].nvlinks_active) == ("0000:61:00.0", 18, 18)
    assert (found[0].ecc_uncorrected, found[0].remap_pending, found[0].mig) == (0, False, False)


def test_what_a_line_says_is_seen_at_the_next_call(nvml_node: Node) -> None:
    assert cards()[3].ecc_uncorrected == 0
    nvml_node.set(
        {
            "gpu3.ecc.uncorrected.volatile.2": 1,
            "gpu3.remapped.pending": 1,
            "gpu3.nvlink.7.state": 0,
            "gpu.power.limit": 500_000,
            "gpu3.power.limit": 400_000,
            "gpu5.serial": "absent",
        }
    )
    third, fifth = cards()[3], cards()[5]
    assert (third.ecc_uncorrected, third.remap_pending, third.nvlinks_active) == (1, True, 17)
    assert (third.power_limit, fifth.power_limit, fifth.serial) == (400.0, 500.0, None)
    nvml_node.heal()
    assert cards()[3].ecc_uncorrected == 0


def test_another_process_sees_the_same_cards(nvml_node: Node) -> None:
    nvml_node.set({"gpu2.name": "A card of its own"})
    code = (
        "import pynvml as n; n.nvmlInit(); "
        "print(n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(2)), n.nvmlDeviceGetCount())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("A card of its own 8", "")


def test_errors_lost_cards_and_missing_driver(
    nvml_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml_node.set({"gpu1.error.nvmlDeviceGetTemperature": 999, "gpu4.lost": 1, "count": 5})
    pynvml.nvmlInit()
    first = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert pynvml.nvmlDeviceGetCount() == 5
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetTemperature(first, 0)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetHandleByIndex(4)
    tell_state(pynvml.nvmlLib, None)
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        pynvml.nvmlInit()


def test_a_call_hangs_until_its_line_is_taken_away(nvml_node: Node) -> None:
    nvml_node.set({"gpu0.hang.nvmlDeviceGetName": 60})
    pynvml.nvmlInit()
    names: list[str] = []
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    thread = threading.Thread(target=lambda: names.append(pynvml.nvmlDeviceGetName(handle)))
    thread.start()
    time.sleep(0.05)
    assert names == []
    nvml_node.set({"gpu0.hang.nvmlDeviceGetName": None})
    thread.join(60)
    assert names == ["NVIDIA H100 80GB HBM3"]


def test_events_queue_up_from_the_moment_a_set_is_made(nvml_node: Node) -> None:
    nvml_node.event(0, 13)
    pynvml.nvmlInit()
    events = pynvml.nvmlEventSetCreate()
    for card in (0, 3):
        handle = pynvml.nvmlDeviceGetHandleByIndex(card)
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait(events, 0)
    nvml_node.event(3, 1, kind=pynvml.nvmlEventTypeClock)  # not asked for
    nvml_node.event(3, 79)
    nvml_node.event(0, 48)
    received = [pynvml.nvmlEventSetWait(events, 0) for _ in range(2)]
    serials = [pynvml.nvmlDeviceGetSerial(one.device) for one in received]
    assert [(one.eventData, serial[-1]) for one, serial in zip(received, serials, strict=True)] == [
        (79, "3"),
        (48, "0"),
    ]
    pynvml.nvmlEventSetFree(events)


def test_field_values_fabric_and_partitions(nvml_node: Node) -> None:
    nvml_node.set(
        {"gpu0.mig": 1, "gpu0.mig.devices": 2, "gpu0.fabric.state": 2, "gpu.power": 640_000}
    )
    pynvml.nvmlInit()
    first = pynvml.nvmlDeviceGetHandleByIndex(0)
    power, speed, beyond, unknown = pynvml.nvmlDeviceGetFieldValues(
        first, [186, (164, 17), (164, 18), 9999]
    )
    assert (power.value.ullVal, speed.value.ullVal) == (640_000, 26562)
    assert (beyond.nvmlReturn, unknown.nvmlReturn) == (2, 3)
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(first, pynvml.byref(info))
    assert (info.state, info.status, info.healthSummary) == (2, 0, 1)
    slices = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(first, i) for i in range(2)]
    assert all(pynvml.nvmlDeviceGetUUID(one).startswith("MIG-") for one in slices)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(first, 2)


def test_amd_cards(amdsmi_node: Node) -> None:
    found, drivers, notes = read_amd(Files())
    assert (len(found), drivers, notes) == (8, {"amdgpu": "6.12.12"}, ())
    assert (found[2].pci, found[2].nvlinks_active, found[2].mig) == ("0000:38:00.0", 7, False)
    amdsmi_node.set(
        {
            "gpu2.amdsmi_get_gpu_total_ecc_count.uncorrectable_count": 1,
            "gpu2.amdsmi_get_link_metrics.links.4.bit_rate": 0,
            "gpu.amdsmi_get_gpu_compute_partition": "CPX",
            "gpu1.error.amdsmi_get_power_cap_info": "AMDSMI_STATUS_BUSY",
        }
    )
    found, _, _ = read_amd(Files())
    assert (found[2].ecc_uncorrected, found[2].nvlinks_active, found[2].mig) == (1, 6, True)
    assert found[1].unreadable == ("power_limit: AMDSMI_STATUS_BUSY",)
