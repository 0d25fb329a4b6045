"""A card whose clock falls while it is measured: the journal and the dossier say so."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from pytest_anubis.core.onset import ClockLimit, RaisedLimit
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import MetricVerdict
from pytest_anubis.hardware.telemetry import telemetry_sampler
from pytest_anubis.hardware.telemetry.host_sensors import Asked, Reading
from pytest_anubis.hardware.telemetry.recorded_node import RecordedSource, replay
from pytest_anubis.hardware.telemetry.telemetry_sampler import Telemetry
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.report.text.since_text import since_text
from pytest_anubis.session.measuring.conditions import ConditionsWatch
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.places import RECORDED
from tests.session.conftest import HEALTHY, set_default

SUITE = """
import json, pathlib, time, pytest

@pytest.mark.anubis(component="accelerator.memory", scope="node", action="swap the card")
def test_copy(anubis_metric):
    values = json.loads(pathlib.Path("rates.json").read_text())
    while not pathlib.Path("enough").exists():
        time.sleep(0.01)
    anubis_metric.record("rate", values, unit="GB/s", better="higher")
"""


HALF = 30
"""Readings before and after the change; a test waits for all of them, however slow the machine is."""


class TwoHalves(RecordedSource):
    """Sensors of a recorded node that read otherwise once a test is half-way."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        super().__init__(readings)
        self._count = 0

    def read(self, counters: Asked) -> Reading:
        self._count += 1
        self._next = int(self._count > HALF)
        if self._count == 2 * HALF:
            Path("enough").touch()
        return super().read(counters)


class Counting(TwoHalves):
    """The same of a card whose PCIe replays rise from then on, by a clock that its readings move."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        super().__init__(readings)
        self._begin = time.monotonic()

    def monotonic(self) -> float:
        return self._begin + 0.02 * min(self._count, 2 * HALF)

    def read(self, counters: Asked) -> Reading:
        found = super().read(counters)
        if not counters:
            return found
        replays = {"PCIe replays": max(0, min(self._count, 2 * HALF) - HALF)}
        return replace(found, counters={"GPU 3": replays})


def judged(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    kind: type[TwoHalves] = TwoHalves,
) -> tuple[RunRecord, MetricVerdict]:
    data = json.loads(RECORDED.read_text())
    first = data["readings"][0]
    first["values"]["GPU 3"] |= {"SM clock (MHz)": 1980, "throttle reasons": 0.0}
    later = json.loads(json.dumps(first))
    later["values"]["GPU 3"] |= change
    data["readings"] = [first, later]
    (pytester.path / "node.json").write_text(json.dumps(data))
    values = [*HEALTHY, *(0.88 * value for value in HEALTHY)]
    (pytester.path / "rates.json").write_text(json.dumps(values))
    pytester.makepyfile(test_it=SUITE)
    source = kind(replay(pytester.path / "node.json").readings)
    monkeypatch.setattr(ConditionsWatch, "_sources", lambda _: [source])
    if isinstance(source, Counting):
        monkeypatch.setattr(telemetry_sampler, "time", source)
        monkeypatch.setattr(telemetry_sampler, "COST_SHARE", 1e9)  # a reading takes all the time
    set_default(monkeypatch, Telemetry, "interval", 0.02)
    pytester.runpytest("--anubis", "--anubis-inventory=node.json", "--anubis-run-id=r")
    record = read_journal(pytester.path / ".anubis/runs/r")
    return record, next(v for v in record.effective_verdicts if v.onset is not None)


def test_a_clock_that_falls_half_way_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    fallen = {"SM clock (MHz)": 1410, "throttle reasons": 128.0}
    record, verdict = judged(pytester, monkeypatch, fallen)
    onset = verdict.onset
    assert onset is not None
    assert (onset.number, onset.count) == (22, 42)
    assert onset.sensor is not None
    assert (onset.sensor.part, onset.sensor.quantity) == ("GPU 3", "SM clock")
    assert (onset.sensor.before, onset.sensor.after) == (1980, 1410)
    assert onset.limits == (RaisedLimit(part="GPU 3", limit=ClockLimit.POWER_BRAKE),)
    assert str(escape(since_text(verdict))) in run_page(record)


def test_a_counter_that_rises_from_half_way_on_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, verdict = judged(pytester, monkeypatch, {}, Counting)
    assert verdict.onset is not None
    sensor = verdict.onset.sensor
    assert sensor is not None
    assert (sensor.part, sensor.quantity, sensor.before) == ("GPU 3", "PCIe replays", 0)
    assert sensor.after == pytest.approx(50, rel=0.1)
    assert str(escape(since_text(verdict))) in run_page(record)
    names = [name for one in record.measurements for name, _ in one.telemetry]
    assert [name for name in names if "replays" in name] == ["GPU 3 PCIe replays (/s)"]


def test_sensors_that_did_not_move_are_no_cause(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, verdict = judged(pytester, monkeypatch, {})
    assert verdict.onset is not None
    assert verdict.onset.sensor is None
    assert verdict.onset.compared > 0
    assert verdict.onset.limits == ()
    assert str(escape(since_text(verdict))) in run_page(record)
