"""NVML through a fake library at the module's boundary: every call with every error code."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from pytest_anubis.core.inventory import Accelerator
from pytest_anubis.hardware.inventory.inventory_reading import (
    inventory_from_plain,
    inventory_to_plain,
    read_inventory,
)
from pytest_anubis.hardware.inventory.nvidia_inventory import NvidiaReading
from pytest_anubis.hardware.inventory.nvml import Nvml
from pytest_anubis.hardware.telemetry.host_sensors import (
    ENERGY,
    LIFETIME_ERRORS,
    MEMORY_TEMPERATURE,
    PENDING_REMAPPING,
    POWER,
    REASONS,
    TEMPERATURE,
    Reading,
)
from pytest_anubis.hardware.telemetry.nvidia_sensors import BRAKE_NS, THERMAL_NS, NvidiaSource
from tests.hardware.fake_nvml import CALLS, CODES, FakeNvml

ABSENT = {
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NO_DATA,
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FREQ_NOT_SUPPORTED,
    pynvml.NVML_ERROR_DEPRECATED,
}
INVENTORY_CALLS = [
    call
    for call in CALLS
    if call
    not in {
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetCurrentClocksEventReasons",  # has an older name
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetViolationStatus",
        "nvmlDeviceGetNvLinkErrorCounter",
        "nvmlDeviceGetComputeRunningProcesses",
    }
]
# Calls whose failure must be named in every reading. The others have a second way to the same reading, or
# only find out what there is.
TELEMETRY_CALLS = {
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetViolationStatus",
    "nvmlDeviceGetNvLinkErrorCounter",
    "nvmlDeviceGetComputeRunningProcesses",
}


def test_all_codes_of_the_bindings_are_covered() -> None:
    assert len(CODES) >= 30
    assert 999 in CODES


def test_healthy_card_is_read_completely() -> None:
    fake = FakeNvml()
    fake.fields[162] = 72  # recoveries of a link
    cards, drivers, notes = NvidiaReading(fake).read()
    assert (drivers, notes) == ({"nvidia": "550.54.15", "cuda": "12.4"}, ())
    assert cards[1] == Accelerator(
        index=1,
        vendor="nvidia",
        name="NVIDIA H100 80GB HBM3",
        pci="0000:11:00.0",
        uuid="GPU-1",
        serial="1651",
        part="692-2G520",
        memory=85_520_809_984,
        vbios="96.00.89.00.01",
        firmware="G520.0200.00.05",
        link_width=16,
        link_width_max=16,
        link_generation=5,
        link_generation_max=5,
        power_limit=700.0,
        power_limit_default=700.0,
        sm_clock_max=1980,
        memory_clock_max=2619,
        compute_capability="9.0",
        mig=False,
        nvlinks=4,
        nvlinks_active=4,
        performance_state=0,
        ecc=True,
        ecc_corrected=0,
        ecc_uncorrected=0,
        ecc_uncorrected_lifetime=0,
        remapped_corrected=1,
        remapped_uncorrected=2,
        remap_pending=False,
        remap_failed=False,
        retired_pages=1,
        spares_low=0,
        spares_none=0,
        memory_free=1,
        compute_mode="default",
        persistence=True,
        clock_limited=False,
        pcie_replays=0,
        nvlink_errors=4 * 72,
    )
    assert fake.open == 0


def test_what_was_read_survives_plain_data() -> None:
    inventory = read_inventory(pynvml=FakeNvml(8))
    assert len(inventory.accelerators) == 8
    assert inventory_from_plain(inventory_to_plain(inventory)) == inventory


@pytest.mark.parametrize("code", CODES)
def test_no_code_at_initialisation_stops_anything(code: int) -> None:
    cards, drivers, notes = NvidiaReading(FakeNvml(init=code)).read()
    assert (cards, drivers) == ((), {})
    no_nvidia = code in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    assert [f"NVML error {code})" in note for note in notes] == ([] if no_nvidia else [True])


@pytest.mark.parametrize("call", INVENTORY_CALLS)
def test_every_code_of_every_call_is_absent_or_named(call: str) -> None:
    for code in CODES:
        cards, _, notes = NvidiaReading(FakeNvml(failing=(call, code))).read()
        everything = [*notes, *(note for card in cards for note in card.unreadable)]
        named = any(f"(NVML error {code})" in note for note in everything)
        # Behind its last link a card answers "invalid argument": that is how links are counted.
        counts = call == "nvmlDeviceGetNvLinkState" and code == pynvml.NVML_ERROR_INVALID_ARGUMENT
        assert named == (code not in ABSENT and not counts), (call, code, everything)


def test_lost_card_does_not_hide_the_others() -> None:
    lost = FakeNvml(
        4, failing=("nvmlDeviceGetHandleByIndex", pynvml.NVML_ERROR_GPU_IS_LOST), only=2
    )
    cards, _, notes = NvidiaReading(lost).read()
    assert [card.index for card in cards] == [0, 1, 3]
    assert notes == ("GPU 2: GPU is lost (NVML error 15)",)


def test_failed_sensor_is_noted_at_its_card_alone() -> None:
    fake = FakeNvml(2, failing=("nvmlDeviceGetRemappedRows", pynvml.NVML_ERROR_UNKNOWN), only=1)
    (first, second), _, _ = NvidiaReading(fake).read()
    assert (first.unreadable, first.remapped_uncorrected) == ((), 2)
    assert second.unreadable == ("remapped_uncorrected: Unknown Error (NVML error 999)",)
    assert second.remapped_uncorrected is None


def test_card_without_nvlink_has_none_rather_than_zero() -> None:
    failing = ("nvmlDeviceGetNvLinkState", pynvml.NVML_ERROR_NOT_SUPPORTED)
    (card,), _, _ = NvidiaReading(FakeNvml(1, failing=failing)).read()
    assert (card.nvlinks, card.nvlinks_active, card.unreadable) == (None, None, ())


def test_bindings_older_than_a_function_are_no_error() -> None:
    class Old(FakeNvml):
        nvmlDeviceGetInforomImageVersion = property()  # noqa: N815 - reading it is an AttributeError

        def __getattr__(self, name: str) -> Any:
            if name == "nvmlDeviceGetInforomImageVersion":
                raise AttributeError(name)
            return super().__getattr__(name)

    (card,), _, notes = NvidiaReading(Old(1)).read()
    assert (card.firmware, card.unreadable, notes) == (None, (), ())


def test_hanging_card_does_not_hang_the_inventory() -> None:
    release = threading.Event()
    fake = FakeNvml()
    fake.answers["nvmlDeviceGetVbiosVersion"] = lambda card: release.wait()
    found = read_inventory(pynvml=fake, deadline=0.05)
    release.set()
    assert [(card.index, card.serial, card.unreadable) for card in found.accelerators] == [
        (0, "1650", ("sensors: did not answer within 0.05 s",)),
        (1, "1651", ("sensors: not asked: GPU 0 did not answer within 0.05 s",)),
    ]


def test_library_that_hangs_before_any_card_is_known() -> None:
    release = threading.Event()
    fake = FakeNvml()
    fake.answers["nvmlDeviceGetSerial"] = lambda card: release.wait()
    found = read_inventory(pynvml=fake, deadline=0.05)
    release.set()
    assert found.accelerators == ()
    assert found.unreadable == ("nvml: did not answer within 0.05 s",)


def test_failing_library_does_not_stop_the_inventory() -> None:
    fake = FakeNvml()
    fake.answers["nvmlDeviceGetMemoryInfo"] = "nonsense"
    (note,) = read_inventory(pynvml=fake).unreadable
    assert note.startswith("nvml: AttributeError")


def test_machine_without_nvidia_is_no_error() -> None:
    with Nvml() as nvml:  # the real bindings on whatever machine this is
        assert nvml.present in (True, False)


def read(fake: FakeNvml, uuids: set[str] | None = None) -> Reading:
    source = NvidiaSource(uuids, fake)
    source.open()
    try:
        return source.read(counters=True)
    finally:
        source.close()


def test_telemetry_reads_sensors_counters_and_users() -> None:
    found = read(FakeNvml(links=2))
    values = found.values["GPU 0"]
    assert (values[POWER], values[MEMORY_TEMPERATURE], values[REASONS]) == (640.0, 72.0, 4.0)
    assert found.counters["GPU 1"]["remapped rows"] == 3
    assert found.counters["GPU 1"]["NVLink 1 replays"] == 0
    assert "NVLink 2 replays" not in found.counters["GPU 1"]
    assert found.users == {"GPU 0": (1,), "GPU 1": (1,)}
    assert found.lost == ()


def test_telemetry_keeps_to_the_cards_it_was_given() -> None:
    assert list(read(FakeNvml(8), {"GPU-5"}).values) == ["GPU 5"]


def test_temperature_is_read_by_its_newer_name() -> None:
    fake = FakeNvml(1, failing=("nvmlDeviceGetTemperature", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
    fake.answers["nvmlDeviceGetTemperatureV"] = 62
    source = NvidiaSource(None, fake)
    source.open()
    found = source.read(counters=False)
    source.close()
    assert (found.values["GPU 0"][TEMPERATURE], found.lost) == (62.0, ())


def test_fields_are_read_in_one_call_first() -> None:
    fake = FakeNvml(1, links=2)
    fake.fields |= {
        186: 655_000,  # the power of the moment, where GetPowerUsage is a mean over a second
        4: 1,
        6: 7,
        142: 1,
        143: 1,
        144: 1,
        145: 0,
        163: 5,
        269: 3_000_000,
        270: 1_000_000,
        271: 2_000_000,
        83: 5_000,
    }
    asked: list[int] = []

    class Counting(FakeNvml):
        def _answer(self, name: str, *arguments: Any) -> Any:
            if name == "nvmlDeviceGetFieldValues":
                asked.append(len(arguments[1]))
            return super()._answer(name, *arguments)

    counting = Counting(1, links=2)
    counting.fields = fake.fields
    found = read(counting)
    counters = found.counters["GPU 0"]
    assert found.values["GPU 0"][POWER] == 655.0
    assert (counters["uncorrected ECC errors"], counters[LIFETIME_ERRORS]) == (1, 7)
    assert (counters["remapped rows"], counters[PENDING_REMAPPING]) == (2, 1)
    assert (counters["NVLink 1 CRC errors"], counters[ENERGY]) == (5, 5000)
    assert (counters[THERMAL_NS], counters[BRAKE_NS]) == (4_000_000, 2_000_000)
    assert len(asked) == 2  # the samples' and the counters'


def test_a_field_of_a_lost_card_is_named() -> None:
    fake = FakeNvml(1)
    fake._field = lambda *_: SimpleNamespace(nvmlReturn=15, valueType=0, value=None)  # type: ignore[method-assign]
    assert "GPU 0: fields: GPU is lost (NVML error 15)" in read(fake).lost


def test_throttle_reasons_are_read_by_the_old_name() -> None:
    fake = FakeNvml(1, failing=("nvmlDeviceGetCurrentClocksEventReasons", 13))
    fake.answers["nvmlDeviceGetCurrentClocksThrottleReasons"] = 0x40
    found = read(fake)
    assert (found.values["GPU 0"][REASONS], found.lost) == (64.0, ())


@pytest.mark.parametrize("call", CALLS)
def test_no_code_of_any_call_stops_telemetry(call: str) -> None:
    for code in CODES:
        fake = FakeNvml(2, failing=(call, code))
        fake.answers["nvmlDeviceGetCurrentClocksThrottleReasons"] = 0
        found = read(fake)
        assert fake.open == 0
        named = any(f"(NVML error {code})" in note for note in found.lost)
        # A driver older than all the fields that are wanted refuses them together: nothing has failed.
        unknown = (call, code) == ("nvmlDeviceGetFieldValues", pynvml.NVML_ERROR_INVALID_ARGUMENT)
        if code in ABSENT or unknown:
            assert not named, (call, code)
        elif call in TELEMETRY_CALLS:
            assert named, (call, code)


def test_bindings_are_loaded_outside_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Loading them changes the filters of warnings, which a test that runs meanwhile would lose."""
    where: list[threading.Thread] = []
    monkeypatch.setattr(
        "pytest_anubis.hardware.inventory.nvml._bindings",
        lambda: where.append(threading.current_thread()),
    )
    source = NvidiaSource()
    reader = threading.Thread(target=source.open)
    reader.start()
    reader.join()
    assert where == [threading.current_thread()]
