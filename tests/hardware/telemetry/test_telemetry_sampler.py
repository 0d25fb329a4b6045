"""Test telemetry: series, counters and evidence, and sensors that fail or hang."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.onset import (
    HW_SLOWDOWN,
    HW_THERMAL,
    POWER_BRAKE,
    SW_POWER_CAP,
    SW_THERMAL,
)
from pytest_anubis.hardware.telemetry.host_sensors import (
    FREQUENCY,
    HOST,
    INLET,
    POWER,
    PRESSURE,
    REASONS,
    Asked,
    HostSource,
    Reading,
)
from pytest_anubis.hardware.telemetry.kernel_log import KernelLog, kernel_events
from pytest_anubis.hardware.telemetry.measurement_envelope import Envelope, make_envelope
from pytest_anubis.hardware.telemetry.recorded_node import RecordedSource
from pytest_anubis.hardware.telemetry.telemetry_sampler import Telemetry, take_readings
from pytest_anubis.hardware.text_files import Files
from tests.hardware.fake_files import lay_out
from tests.hardware.make_recorded_8gpu import reading, recorded

BEGIN = reading(0)


def end(part: str = "GPU 3", /, **counters: int) -> Reading:
    """The reading at the end, with some counters of one part changed; `_` means a space."""
    changed = {name.replace("_", " "): value for name, value in counters.items()}
    return replace(BEGIN, counters={**BEGIN.counters, part: {**BEGIN.counters[part], **changed}})


def throttled(*reasons: int, part: str = "GPU 3") -> list[tuple[float, Reading]]:
    """One sample per entry, with these throttle reasons on one card."""
    return [
        (i * 0.2, replace(BEGIN, values={**BEGIN.values, part: {**BEGIN.values[part], REASONS: r}}))
        for i, r in enumerate(reasons)
    ]


def envelope(
    samples: list[tuple[float, Reading]] | None = None,
    last: Reading = BEGIN,
    first: Reading = BEGIN,
) -> Envelope:
    return make_envelope(first, samples or [], last, seconds=10.0)


def test_quiet_measurement_has_series_and_no_evidence() -> None:
    found = envelope([(0.2, reading(1)), (0.4, reading(2))])
    assert (found.disturbance, found.evidence, found.changes, found.lost) == ((), (), (), ())
    assert found.times == (0.2, 0.4)
    series = dict(found.series)
    power = tuple(r.values["GPU 7"][POWER] for r in (reading(1), reading(2)))
    assert series[f"GPU 7 {POWER}"] == power
    assert len(series) == 8 * 7 + 3


@pytest.mark.parametrize("name", sorted(set(BEGIN.counters["GPU 3"]) - {"thermal slowdown (ns)"}))
def test_every_counter_that_moves_is_named(name: str) -> None:
    moved = replace(
        BEGIN, counters={**BEGIN.counters, "GPU 3": {**BEGIN.counters["GPU 3"], name: 412}}
    )
    assert envelope(last=moved).evidence == (f"GPU 3: {name} +412",)


def test_memory_error_of_the_host_is_evidence() -> None:
    assert envelope(last=end(HOST, corrected_memory_errors=2)).evidence == (
        "host: corrected memory errors +2",
    )


def test_decreased_counter_counts_as_reset() -> None:
    first = end(PCIe_replays=9)
    (change,) = envelope(first=first).evidence
    assert change == "GPU 3: PCIe replays fell from 9 to 0 (reset?)"


def test_counter_read_at_one_end_only_says_nothing() -> None:
    assert envelope(last=Reading()).changes == ()


@pytest.mark.parametrize("bit", [SW_THERMAL, HW_THERMAL])
def test_slow_because_hot_is_a_finding_and_no_excuse(bit: int) -> None:
    found = envelope(throttled(bit, bit, 0, 0))
    assert found.disturbance == ()
    (slowed,) = found.slowdowns
    assert (slowed.sort, slowed.part) == ("thermal-slowdown", "GPU 3")
    assert slowed.phrase.startswith("GPU 3: thermal slowdown 50 % of the time, at up to ")
    assert found.evidence == (slowed.phrase,)


def test_heat_that_also_trips_the_board_is_said_once() -> None:
    assert len(envelope(throttled(*[HW_THERMAL | HW_SLOWDOWN] * 4)).slowdowns) == 1


@pytest.mark.parametrize(
    ("bits", "sort"),
    [
        (HW_SLOWDOWN, "hw-slowdown"),
        (POWER_BRAKE, "power-brake"),
        (POWER_BRAKE | HW_SLOWDOWN, "power-brake"),
    ],
)
def test_what_the_board_pulls_down_is_not_heat(bits: int, sort: str) -> None:
    found = envelope(throttled(bits, bits))
    assert found.disturbance == ()
    assert [one.sort for one in found.slowdowns] == [sort]


def test_a_slowdown_seen_once_is_evidence_only() -> None:
    found = envelope(throttled(POWER_BRAKE, 0, 0))
    assert found.slowdowns == ()
    (phrase,) = found.evidence
    assert phrase.startswith("GPU 3: power brake 33 % of the time")
    assert phrase.endswith(", seen once")


def hot_air(degrees: float) -> Envelope:
    samples = throttled(SW_THERMAL, SW_THERMAL)
    air = {HOST: {INLET: degrees}}
    return envelope([(t, replace(r, values={**r.values, **air})) for t, r in samples])


def test_air_that_is_too_hot_is_told_with_the_heat() -> None:
    assert [one.sort for one in hot_air(41.0).slowdowns] == ["thermal-slowdown", "hot-air"]
    assert [one.sort for one in hot_air(24.0).slowdowns] == ["thermal-slowdown"]


def test_energy_is_a_reading_and_no_event() -> None:
    first, last = end(**{"energy_(mJ)": 5_000}), end(**{"energy_(mJ)": 12_000})
    found = envelope(first=first, last=last)
    assert found.evidence == ()
    assert dict(found.series)["GPU 3 energy (J)"] == (7.0,)


def test_power_limit_is_no_excuse_but_evidence() -> None:
    found = envelope(throttled(SW_POWER_CAP, SW_POWER_CAP))
    assert found.disturbance == ()
    assert found.evidence == ("GPU 3 at its power limit 100 % of the time",)


def test_short_throttling_explains_nothing() -> None:
    assert envelope(throttled(SW_THERMAL, *[0] * 19)).evidence == ()


def test_throttling_between_samples_is_found() -> None:
    last = replace(
        BEGIN,
        counters={
            **BEGIN.counters,
            "GPU 3": {**BEGIN.counters["GPU 3"], "thermal slowdown (ns)": 3_000_000_000},
        },
    )
    (phrase,) = envelope(last=last).evidence
    assert phrase.startswith("GPU 3: thermal slowdown 30 % of the time")


def test_short_measurement_uses_its_last_reading() -> None:
    found = envelope()
    assert found.times == (10.0,)
    assert dict(found.series)[f"GPU 0 {POWER}"] == (BEGIN.values["GPU 0"][POWER],)


@pytest.mark.parametrize(
    ("users", "ours", "visible", "expected"),
    [
        ((10, 11), {10}, set(), ("GPU 3 in use by other process 11",)),
        ((10,), {10}, {10}, ()),
        ((99,), {10}, {99}, ("GPU 3 in use by other process 99",)),
        ((4242,), {10}, set(), ()),  # the host's ids inside a container: may be ourselves
        ((1, 2, 3, 4, 5), {1}, set(), ("GPU 3 in use by other processes 2, 3, 4 and 1 more",)),
    ],
)
def test_strangers_on_a_card_are_a_disturbance(
    users: tuple[int, ...], ours: set[int], visible: set[int], expected: tuple[str, ...]
) -> None:
    last = replace(BEGIN, users={"GPU 3": users})
    found = make_envelope(
        BEGIN, [], last, seconds=1.0, ours=ours, visible=dict.fromkeys(visible, "")
    )
    assert found.disturbance == expected


def test_other_users_of_a_card_are_named() -> None:
    last = replace(BEGIN, users={"GPU 3": (98, 99)})
    names = {98: "dcgm-exporter", 99: "python3"}
    found = make_envelope(BEGIN, [], last, seconds=1.0, visible=names, allowed=("dcgm-exporter",))
    assert found.disturbance == ("GPU 3 in use by other process python3 (pid 99)",)


def test_lost_sensor_is_said_once() -> None:
    lost = replace(BEGIN, lost=("GPU 3: power (W): Timeout (NVML error 10)",))
    found = envelope([(0.2, lost), (0.4, lost)], last=lost)
    assert found.evidence == (
        "GPU 3: power (W): Timeout (NVML error 10), so nothing is known about it",
    )


@given(st.lists(st.integers(0, 0x7FF), max_size=30), st.integers(0, 10**12))
def test_any_reasons_give_phrases_of_one_line(reasons: list[int], nanoseconds: int) -> None:
    last = end("GPU 3", **{"thermal_slowdown_(ns)": nanoseconds})
    for phrase in envelope(throttled(*reasons), last=last).evidence:
        assert phrase.isprintable()


XID = "NVRM: Xid (PCI:0000:5D:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def test_xid_is_read_with_its_card_and_meaning() -> None:
    (event,) = kernel_events([XID, "systemd: something else", XID])
    assert (
        event.text == "kernel log: XID 79: the card has fallen off the bus on 0000:5d:00, 2 times"
    )
    assert event.hardware
    assert event.line == XID


def test_kernel_log_is_read_from_now_on(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("6,1,1,-;old\n")
    log = KernelLog(path)
    with path.open("a") as file:
        file.write(f"4,2,9,-;{XID}\n SUBSYSTEM=pci\n6,3,9,-;other\n")
    assert [line.partition(";")[2] or line for line in log.new_lines()] == [XID, "other"]
    assert log.new_lines() == []
    log.close()


def test_kernel_log_that_may_not_be_read_is_noted(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "missing")
    assert log.unreadable == "kernel log: No such file or directory"
    assert log.new_lines() == []


def test_recorded_source_plays_and_repeats() -> None:
    source = RecordedSource(recorded().readings[:2])
    source.open()
    powers = [source.read(False).values["GPU 0"][POWER] for _ in range(3)]
    assert powers == [reading(i).values["GPU 0"][POWER] for i in (0, 1, 0)]
    assert source.read(False).counters == {}
    assert RecordedSource(()).read(True) == Reading()


class Step(RecordedSource):
    """Sets an event at every sample, so that no test has to sleep."""

    def __init__(self, *readings: Reading) -> None:
        super().__init__(readings)
        self.sampled = threading.Event()

    def read(self, counters: Asked) -> Reading:
        if not counters:
            self.sampled.set()
        return super().read(counters)


def test_measurement_gets_its_envelope(tmp_path: Path) -> None:
    moved = end(PCIe_replays=3)
    source = Step(BEGIN, BEGIN, *[moved] * 100_000)
    log = tmp_path / "kmsg"
    log.write_text(f"4,1,1,-;{XID}\n")
    with Telemetry([source], interval=0.001, log=log) as telemetry:
        with telemetry.around() as around, log.open("a") as file:
            assert source.sampled.wait(30)
            file.write(f"4,1,1,-;{XID}\n")
        assert around.envelope.evidence == (
            "GPU 3: PCIe replays +3",
            "kernel log: XID 79: the card has fallen off the bus on 0000:5d:00",
        )
        assert around.envelope.times
        with log.open("a") as file:
            file.write(f"4,1,1,-;{XID}\n")  # between two measurements: part of neither
        with telemetry.around() as around:
            pass
        assert around.envelope.events == ()


def test_envelope_is_there_when_the_measurement_fails() -> None:
    with Telemetry([Step(BEGIN, end(PCIe_replays=1))], log=None) as telemetry:
        with pytest.raises(RuntimeError, match="broken"), telemetry.around() as around:
            raise RuntimeError("broken")
        assert around.envelope.evidence == ("GPU 3: PCIe replays +1",)


def test_envelope_since_a_mark_has_only_later_events(tmp_path: Path) -> None:
    source = Step(BEGIN, *[end(PCIe_replays=3)] * 100_000)
    log = tmp_path / "kmsg"
    log.write_text("")
    with Telemetry([source], interval=0.001, log=log) as telemetry, log.open("a") as file:
        file.write(f"4,1,1,-;{XID}\n")  # before
        file.flush()
        mark = telemetry.mark()
        assert source.sampled.wait(30)
        file.write(f"4,1,1,-;{XID}\n")
        file.flush()
        with telemetry.around() as around:  # a measurement within does not cut the envelope short
            source.sampled.clear()
            assert source.sampled.wait(30)
        for _ in range(2):  # as often as asked
            envelope = telemetry.since(mark)
            assert [event.count for event in envelope.events] == [1]
            assert envelope.evidence[0] == "GPU 3: PCIe replays +3"
            assert len(envelope.times) > len(around.envelope.times)
            assert 0 <= envelope.times[0] <= envelope.times[-1] <= envelope.seconds
        assert around.envelope.evidence == ()
        telemetry.mark()
        assert telemetry.since(telemetry.mark()).evidence == ()


def test_mark_does_not_wait_and_since_has_a_deadline() -> None:
    stuck = Stuck()
    with Telemetry([stuck], deadline=0.05, log=None) as telemetry:
        mark = telemetry.mark()
        lost = telemetry.since(mark).lost
        assert lost == ("telemetry: the sensors did not answer within 0.05 s",)
        telemetry.unmark()
        stuck.release.set()


def test_nothing_is_sampled_when_nobody_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_anubis.hardware.telemetry.telemetry_sampler.LINGER", 0.0)
    source = Step(BEGIN)
    with Telemetry([source], interval=0.001, log=None) as telemetry:
        telemetry.since(telemetry.mark())
        telemetry.unmark()
        with telemetry.around():
            pass
        time.sleep(0.05)
        source.sampled.clear()
        assert not source.sampled.wait(0.1)


class Broken(RecordedSource):
    def __init__(self, where: str) -> None:
        super().__init__(())
        self.where = where

    def open(self) -> None:
        if self.where == "open":
            raise OSError("no such library")

    def read(self, counters: Asked) -> Reading:
        raise ValueError("strange answer")


@pytest.mark.parametrize(
    ("where", "note"),
    [("open", "Broken: OSError: no such library"), ("read", "Broken: ValueError: strange answer")],
)
def test_broken_source_is_named_and_others_work(where: str, note: str) -> None:
    with Telemetry([Broken(where), Step(BEGIN, end(PCIe_replays=1))], log=None) as telemetry:
        with telemetry.around() as around:
            pass
        assert around.envelope.lost == (note,)
        assert "GPU 3: PCIe replays +1" in around.envelope.evidence


class Stuck(RecordedSource):
    def __init__(self) -> None:
        super().__init__(())
        self.release = threading.Event()

    def read(self, counters: Asked) -> Reading:
        self.release.wait()
        return Reading()


def test_sensor_that_hangs_is_given_up_and_said() -> None:
    stuck = Stuck()
    with Telemetry([stuck], deadline=0.05, log=None) as telemetry:
        for _ in range(2):
            with telemetry.around() as around:
                pass
            assert around.envelope.lost == ("telemetry: the sensors did not answer within 0.05 s",)
        stuck.release.set()


class Slow(Step):
    """Opens slowly, as NVML does if the driver has to start eight cards first."""

    def __init__(self, *readings: Reading) -> None:
        super().__init__(*readings)
        self.release = threading.Event()

    def open(self) -> None:
        self.release.wait()
        super().open()


def test_slowly_opening_library_keeps_telemetry() -> None:
    slow = Slow(BEGIN, end(PCIe_replays=1))
    with Telemetry([slow], deadline=0.05, log=None) as telemetry:
        threading.Timer(0.3, slow.release.set).start()  # well beyond the deadline
        with telemetry.around() as around:
            pass
        assert (telemetry.dead, around.envelope.lost) == ("", ())
        assert "GPU 3: PCIe replays +1" in around.envelope.evidence


def test_a_library_that_never_opens_is_given_up() -> None:
    slow = Slow(BEGIN)
    with Telemetry([slow], deadline=0.01, first=0.05, log=None) as telemetry:
        with telemetry.around() as around:
            pass
        assert around.envelope.lost == ("telemetry: the sensors did not answer within 0.05 s",)
        slow.release.set()


@pytest.mark.parametrize(("label", "degrees"), [("Inlet Temp", 41.5), ("CPU Package", None)])
def test_the_air_that_comes_in_is_known_by_its_label(
    tmp_path: Path, label: str, degrees: float | None
) -> None:
    chip = "/sys/class/hwmon/hwmon2"
    lay_out(tmp_path, {f"{chip}/temp1_label": label, f"{chip}/temp1_input": "41500"})
    source = HostSource(Files(tmp_path))
    source.open()
    assert source.read(counters=False).values.get(HOST, {}).get(INLET) == degrees


def test_host_is_read_from_sysfs(tmp_path: Path) -> None:
    cpu = "/sys/devices/system/cpu"
    files = {
        "/proc/stat": "cpu  10 0 10 100 0 0 0 5 0 0\n",
        "/proc/pressure/cpu": "some avg10=0 avg60=0 avg300=0 total=1000\n",
        f"{cpu}/cpu0/cpufreq/scaling_cur_freq": "2000000",
        f"{cpu}/cpu1/cpufreq/scaling_cur_freq": "3000000",
        f"{cpu}/cpu0/thermal_throttle/core_throttle_count": "4",
        f"{cpu}/cpu1/thermal_throttle/core_throttle_count": "5",
        "/sys/class/thermal/thermal_zone0/temp": "45000",
        "/sys/class/thermal/thermal_zone1/temp": "52500",
        "/sys/devices/system/edac/mc/mc0/ce_count": "7",
    }
    source = HostSource(Files(lay_out(tmp_path, files)))
    source.open()
    first, second = source.read(True), source.read(False)
    assert first.values[HOST] == {FREQUENCY: 2500.0, "temperature (°C)": 52.5}
    assert first.counters[HOST] == {
        "corrected memory errors": 7,
        "thermal throttle events of the CPU": 9,
    }
    assert second.values[HOST][PRESSURE] == 0.0
    assert second.counters == {}
    assert first.lost == ()


def test_no_share_of_the_time_is_above_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pressure = "/proc/pressure/cpu"
    files = {"/proc/stat": "cpu  10 0 10 100 0 0 0 5 0 0\n", pressure: "some total=0\n"}
    source = HostSource(Files(lay_out(tmp_path, files)))
    now = iter([100.0, 100.2])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    source.read(False)
    lay_out(tmp_path, {pressure: "some total=500000\n"})  # its reader had to wait for a CPU as well
    assert source.read(False).values[HOST][PRESSURE] == pytest.approx(100.0)


def test_broken_host_sensor_is_named(tmp_path: Path) -> None:
    files = {"/sys/class/thermal/thermal_zone0/temp": "hot"}
    source = HostSource(Files(lay_out(tmp_path, files)))
    source.open()
    assert source.read(False).lost == ("host: temperature: 'hot' is not a whole number",)


def test_this_machine_can_be_sampled() -> None:
    with Telemetry(interval=0.01) as telemetry:
        with telemetry.around() as around:
            os.getpid()
        assert telemetry.dead == ""
    assert around.envelope.seconds > 0
    assert len(take_readings([HostSource()], 2, 0.0)) == 2
