"""AMD cards through a fake ``amdsmi`` module with the shape of its published interface."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.core.inventory import Accelerator
from pytest_anubis.hardware.inventory.amd_inventory import read_amd
from pytest_anubis.hardware.telemetry.amd_sensors import AmdSource, residencies
from pytest_anubis.hardware.telemetry.host_sensors import (
    POWER,
    SM_CLOCK,
    TEMPERATURE,
    UTILISATION,
    Reading,
)
from pytest_anubis.hardware.telemetry.measurement_envelope import make_envelope
from pytest_anubis.hardware.text_files import Files
from tests.hardware.fake_files import lay_out
from tests.hardware.nvml_stand_in import Node, amdsmi_node

__all__ = ["amdsmi_node"]


class LibraryError(Exception):
    """Each version of amdsmi has exception classes of its own."""


class FakeSmi:
    """Two cards; calls can be made to fail."""

    def __init__(self, failing: str = "", error: str = "AMDSMI_STATUS_INTERNAL_EXCEPTION") -> None:
        self.failing = failing
        self.error = error
        self.open = 0

    AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("amdsmi_"):
            raise AttributeError(name)
        return lambda *arguments: self._answer(name, *arguments)

    def _answer(self, name: str, *arguments: Any) -> Any:
        if name == self.failing:
            raise LibraryError(self.error)
        if name in ("amdsmi_init", "amdsmi_shut_down"):
            self.open += 1 if name == "amdsmi_init" else -1
            return None
        if name == "amdsmi_get_processor_handles":
            return ["first", "second"]
        return {
            "amdsmi_get_gpu_driver_info": {"driver_name": "amdgpu", "driver_version": "6.12.12"},
            "amdsmi_get_gpu_asic_info": {
                "market_name": "AMD Instinct MI300X",
                "asic_serial": "0xabc",
                "target_graphics_version": "gfx942",
            },
            "amdsmi_get_gpu_board_info": {"product_serial": "N/A", "model_number": "102-G30211"},
            "amdsmi_get_gpu_vram_info": {"vram_type": 1, "vram_size": 196592},
            "amdsmi_get_gpu_vram_usage": {"vram_total": 196592, "vram_used": 592},
            "amdsmi_get_gpu_vbios_info": {"name": "x", "version": "022.040.003.043"},
            "amdsmi_get_power_cap_info": {
                "power_cap": 750_000_000,
                "default_power_cap": 750_000_000,
            },
            "amdsmi_get_gpu_total_ecc_count": {"correctable_count": 3, "uncorrectable_count": 0},
            "amdsmi_get_gpu_bad_page_info": [{"value": 1, "status": "reserved"}],
            "amdsmi_get_gpu_compute_partition": "SPX" if arguments[:1] == ("first",) else "CPX",
            "amdsmi_get_clock_info": {"clk": 132, "max_clk": 2100 if "gfx" in arguments else 1300},
            "amdsmi_get_link_metrics": {
                "links": [
                    {"link_type": SimpleNamespace(name="XGMI"), "bit_rate": 32},
                    {"link_type": "XGMI", "bit_rate": 0},
                    {"link_type": "PCIE", "bit_rate": 32},
                ]
            },
            "amdsmi_get_gpu_device_bdf": "0000:0C:00.0",
            "amdsmi_get_gpu_device_uuid": f"uuid-{arguments[0]}",
        }[name]


PCI = {
    "/sys/bus/pci/devices/0000:0c:00.0/current_link_width": "8",
    "/sys/bus/pci/devices/0000:0c:00.0/max_link_width": "16",
    "/sys/bus/pci/devices/0000:0c:00.0/current_link_speed": "32.0 GT/s PCIe",
    "/sys/bus/pci/devices/0000:0c:00.0/max_link_speed": "32.0 GT/s PCIe",
    "/sys/bus/pci/devices/0000:0c:00.0/pcie_replay_count": "4",
    "/sys/bus/pci/devices/0000:0c:00.0/ras/umc_err_count": "ue: 0\nce: 3\nde: 1\n",
    "/sys/bus/pci/devices/0000:0c:00.0/ras/sdma_err_count": "ue: 0\nce: 0\n",
}


def test_card_has_the_kernels_link_values(tmp_path: Path) -> None:
    smi = FakeSmi()
    cards, drivers, notes = read_amd(Files(lay_out(tmp_path, PCI)), smi)
    assert (len(cards), drivers, notes, smi.open) == (2, {"amdgpu": "6.12.12"}, (), 0)
    assert cards[0] == Accelerator(
        index=0,
        vendor="amd",
        name="AMD Instinct MI300X",
        pci="0000:0c:00.0",
        uuid="uuid-first",
        serial="0xabc",
        part="102-G30211",
        memory=196592 << 20,
        memory_free=196000 << 20,
        vbios="022.040.003.043",
        link_width=8,
        link_width_max=16,
        link_generation=5,
        link_generation_max=5,
        power_limit=750.0,
        power_limit_default=750.0,
        sm_clock_max=2100.0,
        memory_clock_max=1300.0,
        mig=False,
        nvlinks=2,
        nvlinks_active=1,
        retired_pages=1,
        compute_capability="gfx942",
        ecc_corrected=3,
        ecc_uncorrected=0,
        pcie_replays=4,
        block_errors={
            "uncorrected ECC errors": 0,
            "corrected ECC errors": 3,
            "deferred ECC errors": 1,
            "uncorrected sdma errors": 0,
            "corrected sdma errors": 0,
        },
    )
    assert cards[1].mig is True  # a divided card


def test_only_failed_calls_are_noted(tmp_path: Path) -> None:
    failing = "amdsmi_get_gpu_total_ecc_count"
    (card, _), _, _ = read_amd(Files(tmp_path), FakeSmi(failing))
    assert card.unreadable == ("ecc_uncorrected: AMDSMI_STATUS_INTERNAL_EXCEPTION",)
    assert card.ecc_uncorrected is None
    (card, _), _, _ = read_amd(Files(tmp_path), FakeSmi(failing, "AMDSMI_STATUS_NOT_SUPPORTED"))
    assert card.unreadable == ()


def test_library_that_does_not_start_is_named(tmp_path: Path) -> None:
    found = read_amd(Files(tmp_path), FakeSmi("amdsmi_init", "driver not loaded"))
    assert found == ((), {}, ("amdsmi: driver not loaded",))
    (tmp_path / "sys/module/nvidia").mkdir(
        parents=True
    )  # ROCm's libraries on a node without its cards
    broken = FakeSmi("amdsmi_init", "driver not loaded")
    assert read_amd(Files(tmp_path), broken) == ((), {}, ())
    (tmp_path / "sys/module/amdgpu").mkdir()
    assert read_amd(Files(tmp_path), broken)[2] == ("amdsmi: driver not loaded",)


@pytest.mark.parametrize("body", ["raise KeyError('libamd_smi.so')", "raise OSError('no library')"])
def test_module_without_its_library_means_no_amd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    (tmp_path / "amdsmi.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    assert read_amd(Files(tmp_path)) == ((), {}, ())


def test_module_is_found_in_rocms_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "share" / "amd_smi"
    folder.mkdir(parents=True)
    (folder / "amdsmi.py").write_text(
        "def amdsmi_init(): pass\ndef amdsmi_shut_down(): pass\n"
        "def amdsmi_get_processor_handles(): return []\n"
    )
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    assert read_amd(Files(tmp_path)) == ((), {}, ())
    assert "amdsmi" in sys.modules
    monkeypatch.delitem(sys.modules, "amdsmi")


def card_files(number: int, address: str, power: str) -> dict[str, str]:
    device = f"/sys/devices/pci0000:00/{address}"
    return {
        f"{device}/vendor": "0x1002",
        f"{device}/gpu_busy_percent": "97",
        f"{device}/pcie_replay_count": "4",
        f"{device}/ras/umc_err_count": "ue: 1\nce: 12\n",
        f"{device}/ras/gfx_err_count": "ue: 2\nce: 0\nde: 7\n",
        f"{device}/ras/xgmi_wafl_err_count": "ue: 3\nce: 5\n",
        f"{device}/ras/features": "feature mask: 0x1\n",
        f"{device}/hwmon/hwmon{number}/power1_average": power,
        f"{device}/hwmon/hwmon{number}/freq1_input": "2100000000",
        f"{device}/hwmon/hwmon{number}/temp1_input": "60000",
        f"{device}/hwmon/hwmon{number}/temp2_input": "71000",
        f"/sys/class/drm/card{number}/device -> {device}": "",
        f"/sys/class/drm/card{number}-DP-1/status": "disconnected",
    }


def test_telemetry_numbers_cards_by_slot(tmp_path: Path) -> None:
    files = card_files(1, "0000:0c:00.0", "700000000") | card_files(0, "0000:8c:00.0", "650000000")
    source = AmdSource(Files(lay_out(tmp_path, files)))
    source.open()
    found = source.read(counters=True)
    assert found.lost == ()
    assert found.values["GPU 0"] == {
        POWER: 700.0,
        SM_CLOCK: 2100.0,
        TEMPERATURE: 71.0,
        UTILISATION: 97.0,
    }
    assert found.values["GPU 1"][POWER] == 650.0
    assert found.counters["GPU 1"] == {
        "uncorrected ECC errors": 1,
        "corrected ECC errors": 12,
        "uncorrected gfx errors": 2,
        "corrected gfx errors": 0,
        "deferred gfx errors": 7,
        "xGMI uncorrected errors": 3,
        "xGMI corrected errors": 5,
        "PCIe replays": 4,
    }


def test_broken_sensor_of_a_card_is_named(tmp_path: Path) -> None:
    files = card_files(0, "0000:0c:00.0", "much")
    source = AmdSource(Files(lay_out(tmp_path, files)))
    source.open()
    assert source.read(counters=False).lost == ("GPU 0: power (W): 'much' is not a whole number",)


def test_cards_are_in_slot_order_with_hip_numbers(
    amdsmi_node: Node,
) -> None:
    amdsmi_node.set({"count": 8})
    cards, _, _ = read_amd(Files())
    assert [card.pci for card in cards] == sorted(str(card.pci) for card in cards)
    assert [card.index for card in cards] == list(range(8))
    assert [card.hip_id for card in cards] == [3, 1, 2, 0, 7, 5, 6, 4]
    assert cards[2].hip_uuid == "GPU-5a00000000000002"


def test_older_library_uses_the_drivers_numbers(amdsmi_node: Node, tmp_path: Path) -> None:
    amdsmi_node.set({"gpu.absent.amdsmi_get_gpu_enumeration_info": 1})
    places = [0x5C00, 0x2200, 0x3800, 0x0C00, 0xDF00, 0xAF00, 0xBF00, 0x9F00]
    topology = {"sys/class/kfd/kfd/topology/nodes/0/gpu_id": "0\n"}  # a processor
    for number, place in enumerate(places, start=2):
        node = f"sys/class/kfd/kfd/topology/nodes/{number}"
        topology[f"{node}/gpu_id"] = "51339\n"
        topology[f"{node}/properties"] = f"cpu_cores_count 0\nlocation_id {place}\ndomain 0\n"
    cards, _, _ = read_amd(Files(lay_out(tmp_path / "root", topology)))
    assert [card.hip_id for card in cards] == [3, 1, 2, 0, 7, 5, 6, 4]
    assert {card.hip_id for card in read_amd(Files(tmp_path / "none"))[0]} == {None}
    topology["sys/class/kfd/kfd/topology/nodes/4/properties"] = "simd_count 1216\n"
    half = Files(lay_out(tmp_path / "half", topology))
    assert {card.hip_id for card in read_amd(half)[0]} == {None}  # better none than wrong ones


@pytest.mark.parametrize(("version", "before"), [(6, 28), (7, 36), (8, 36)])
@pytest.mark.parametrize(
    ("held", "sorts", "evidence"),
    [
        ((0, 0, 0, 0, 0), [], ""),
        ((0, 0, 400, 0, 0), ["thermal-slowdown"], "GPU 0: thermal slowdown 40 % of the time"),
        ((0, 0, 0, 0, 300), ["thermal-slowdown"], "GPU 0: thermal slowdown 30 % of the time"),
        ((0, 900, 0, 0, 0), [], "GPU 0 at its power limit 90 % of the time"),
        ((0, 0, 40, 0, 0), [], ""),
    ],
)
def test_amd_thermal_slowdown_is_found_by_residency(
    tmp_path: Path,
    version: int,
    before: int,
    held: tuple[int, ...],
    sorts: list[str],
    evidence: str,
) -> None:
    device = "sys/class/drm/card1/device"
    files = {f"{device}/vendor": "0x1002\n", f"{device}/hwmon/hwmon3/power1_average": "140000000"}
    source = AmdSource(Files(lay_out(tmp_path, files)))
    source.open()

    def read(cycles: int, *spent: int) -> Reading:
        head = struct.pack("<HBB", 2000, 1, version).ljust(before + 4, b"\0")
        (tmp_path / device / "gpu_metrics").write_bytes(head + struct.pack("<6I", cycles, *spent))
        return source.read(counters=True)

    begin = read(5000, *[7] * 5)
    end = read(6000, *[7 + share for share in held])
    found = make_envelope(begin, [], end, seconds=1.0)
    assert [one.sort for one in found.slowdowns] == sorts
    assert found.evidence == ((evidence,) if evidence else ())


@pytest.mark.parametrize("table", [b"", b"\0\0", struct.pack("<HBB", 99, 1, 9) * 40, b"\0\0\1\6"])
def test_a_table_of_another_form_says_nothing(table: bytes) -> None:
    assert residencies(table) == {}
