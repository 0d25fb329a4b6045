"""The sensors of a node, around what a test records by itself."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.hardware.load.host_load import Load, LoadReader
from pytest_anubis.session.context import RunContext, discard
from pytest_anubis.session.measuring.conditions import ConditionsWatch
from pytest_anubis.session.measuring.fixtures import Node
from pytest_anubis.settings import Settings
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.places import RECORDED
from tests.session.conftest import HEALTHY, set_speed

SUITE = """
import time, pytest

def test_copy(anubis_metric):
    anubis_metric.record("first", [1.0] * 3, unit="s", better="lower")
    time.sleep(0.6)
    anubis_metric.record("rate", [1.0] * 3, unit="s", better="lower")

def test_quick(anubis_metric):
    anubis_metric.record("quick", [1.0] * 3, unit="s", better="lower")
"""
COUNTERS = (
    *("corrected ECC errors", "uncorrected ECC errors", "remapped rows", "failed row remappings"),
    *("PCIe replays", "NVLink 5 replays", "NVLink 5 recoveries", "NVLink 5 CRC errors"),
)
HOT = 0x40
BRAKE = 0x80


def run(pytester: pytest.Pytester, change: dict[str, Any]) -> dict[str, Measurement]:
    """Run on the recorded node whose GPU 3 reads differently after the first reading."""
    data = json.loads(RECORDED.read_text())
    first = data["readings"][0]
    for kind in ("values", "counters"):
        first[kind] = {"GPU 3": first[kind]["GPU 3"]}
    first["counters"]["GPU 3"] |= dict.fromkeys(COUNTERS, 0)
    later = json.loads(json.dumps(first))
    for kind, changes in change.items():
        later[kind]["GPU 3"] |= changes
    data["readings"] = [first, *[later] * 300]
    (pytester.path / "node.json").write_text(json.dumps(data))
    pytester.makepyfile(test_it=SUITE)
    options = ("--anubis-inventory=node.json", "--anubis-run-id=r")
    pytester.runpytest("--anubis", *options)
    record = read_journal(pytester.path / ".anubis/runs/r")
    return {m.metric.name: m for m in record.measurements}


def test_moving_counters_are_evidence(pytester: pytest.Pytester) -> None:
    found = run(pytester, {"counters": dict.fromkeys(COUNTERS, 7)})
    assert {f"GPU 3: {name} +7" for name in COUNTERS} <= set(found["rate"].evidence)
    series = dict(found["rate"].telemetry)
    assert len(series["GPU 3 power (W)"]) >= 2
    for short in ("quick", "first"):  # too short for any sensor
        assert found[short].telemetry == ()
        assert found[short].evidence == ()


def test_heat_is_reported_and_excuses_nothing(pytester: pytest.Pytester) -> None:
    found = run(pytester, {"values": {"throttle reasons": HOT, "temperature (°C)": 92.0}})
    hot = "thermal slowdown 100 % of the time, at up to 92 °C"
    assert found["rate"].disturbance == ()
    assert f"GPU 3: {hot}" in found["rate"].evidence
    (event,) = read_journal(pytester.path / ".anubis/runs/r").hardware
    assert (event.sort, event.device, event.text) == ("thermal-slowdown", "cuda:3", hot)
    assert event.part == "GPU 3 (0000:5d:00.0)"
    assert [test.rpartition("::")[2] for test in event.tests] == ["test_copy"]


@pytest.mark.parametrize(
    ("component", "sorts"),
    [("accelerator.power", []), ("accelerator.memory", ["power-brake"])],
)
def test_provoked_power_brake_is_evidence(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, component: str, sorts: list[str]
) -> None:
    mark = f"@pytest.mark.anubis(component={component!r}, scope='node')\ndef test_copy("
    monkeypatch.setattr(f"{__name__}.SUITE", SUITE.replace("def test_copy(", mark))
    found = run(pytester, {"values": {"throttle reasons": BRAKE}})
    assert any("power brake 100 % of the time" in line for line in found["rate"].evidence)
    events = read_journal(pytester.path / ".anubis/runs/r").hardware
    assert [event.sort for event in events] == sorts


def test_a_quiet_node_leaves_series_and_no_evidence(pytester: pytest.Pytester) -> None:
    found = run(pytester, {})
    assert not [line for line in found["rate"].evidence if line.startswith("GPU")]
    assert found["rate"].telemetry


def test_sampling_ends_with_the_run() -> None:
    surroundings = ConditionsWatch(RunContext(settings=Settings(inventory=RECORDED)))
    before = {thread for thread in threading.enumerate() if thread.name == "anubis-telemetry"}
    surroundings.prepare()
    (thread,) = {t for t in threading.enumerate() if t.name == "anubis-telemetry"} - before
    surroundings.close()
    assert not thread.is_alive()
    surroundings.close()  # once more is harmless


def test_host_load_does_not_disturb_a_device_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "pytest_anubis.hardware.load.disturbance.disturbances", lambda *_: ("12 % steal",)
    )
    monkeypatch.setattr(
        "pytest_anubis.session.measuring.conditions.ConditionsWatch._sources", lambda _: []
    )
    surroundings = ConditionsWatch(RunContext(settings=Settings(active=True)))
    try:
        with surroundings.around() as seen:
            pass
        assert seen.disturbance == ("12 % steal",)
        with surroundings.around(host=False) as seen:
            pass
    finally:
        surroundings.close()
    assert seen.disturbance == ()
    assert seen.evidence[-1] == "on the host, which the device's clock does not see: 12 % steal"


def test_node_cores_respect_the_cpu_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(name="n", profile="smoke", scratch=tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setenv("PYTEST_ANUBIS_CPU_QUOTA", "4.5")
    assert node.cores == 4
    monkeypatch.setenv("PYTEST_ANUBIS_CPU_QUOTA", "64")
    assert node.cores == 16


def test_value_recorded_on_busy_host_rejects_nothing(
    with_baseline: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sensors are not read within the first tenth of a second of a test."""
    set_speed(with_baseline, [0.8 * value for value in HEALTHY])
    monkeypatch.setattr(
        "pytest_anubis.hardware.load.ambient_load.disturbances", lambda *_: ("12 % steal",)
    )
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:benchmark -p no:timeout")
    result = with_baseline.runpytest("--anubis", "--anubis-in-process")
    assert result.ret == 20
    result.stdout.fnmatch_lines(["UNDECIDED: *", "*12 % steal*"])


def test_nested_runs_see_no_disturbance(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests.quiet` switches off all disturbances, of measured values too."""
    for place in ("disturbance", "ambient_load"):
        monkeypatch.setattr(
            f"pytest_anubis.hardware.load.{place}.disturbances", lambda *_: ("12 % steal",)
        )
    pytester.makepyfile(
        test_it="""
        import time

        def test_both(anubis_metric):
            anubis_metric.collect("taken", lambda: 1.0, unit="s", better="lower", rounds=3)
            time.sleep(0.15)
            anubis_metric.record("given", [1.0], unit="s", better="lower")
        """
    )
    pytester.runpytest("--anubis", "--anubis-run-id=r")
    found = read_journal(pytester.path / ".anubis/runs/r/journal.jsonl").measurements
    assert {one.metric.name: one.disturbance for one in found} == {"taken": (), "given": ()}


@pytest.mark.parametrize(
    ("taken", "resources", "disturbed"),
    [(0.6, ("cpu",), True), (0.6, ("disk",), False), (1.2, ("disk",), True)],
)
def test_disk_tests_need_one_core_only(
    taken: float, resources: tuple[str, ...], disturbed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    loads = iter(Load(when=when, busy=taken * when, own=0.0, stalls={}) for when in (0.0, 10.0))
    monkeypatch.setattr(LoadReader, "read", lambda self: next(loads))
    context = RunContext(settings=Settings(active=True), root_pid=os.getpid())
    surroundings = ConditionsWatch(context)
    surroundings.serves("test_it", "a.part", discard, resources)
    with surroundings.around() as seen:
        pass
    surroundings.close()
    assert bool(seen.disturbance) is disturbed


@pytest.mark.parametrize(
    ("device", "cards"),
    [("cuda:1", ("GPU 1",)), ("cuda:0>cuda:1", ("GPU 0", "GPU 1")), ("node", ()), ("cpu", ())],
)
def test_the_counters_of_the_card_under_test_are_watched(
    device: str, cards: tuple[str, ...]
) -> None:
    inventory = {"accelerators": [{"index": number, "vendor": "nvidia"} for number in (0, 1)]}
    context = RunContext(
        settings=Settings(active=True), inventory=inventory, devices=("cuda:0", "cuda:1")
    )
    watch = ConditionsWatch(context)
    watch.serves("test_it", "a.part", discard, (), device)
    assert watch.prepare().counted == cards
    watch.close()
