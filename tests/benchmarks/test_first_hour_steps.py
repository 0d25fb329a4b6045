"""The first hour's steps on a card, on a CPU that says it is one: every figure has a line."""

from __future__ import annotations

import importlib
import itertools
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_anubis.hardware.telemetry.host_sensors import POWER, SM_CLOCK, Asked, Reading
from tests.benchmarks.test_first_hour import HOUR


class Event:
    """An event of the card's clock, by the host's."""

    def __init__(self, enable_timing: bool) -> None:
        self.when = 0.0

    def record(self) -> None:
        self.when = time.perf_counter()

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: Event) -> float:
        return max(1e-6, (end.when - self.when) * 1e3)


class Card:
    """A source of clock and power."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def read(self, counters: Asked) -> Reading:
        return Reading(values={"GPU 0": {POWER: 700.0, SM_CLOCK: 1755.0}})


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Any:
    card, sensors = (importlib.import_module(f"{HOUR}.{name}") for name in ("card", "sensors"))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 28, 1 << 28))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(card, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr(card, "SIDE", 64)
    monkeypatch.setattr(card, "LAUNCHES", 100)
    monkeypatch.setattr(card, "MINUTE", 0.6)
    monkeypatch.setattr(card, "BURST", 0.3)
    monkeypatch.setattr(card, "PLATEAU", 0.2)
    monkeypatch.setattr(card.time, "sleep", lambda _: None)
    best = card.best
    monkeypatch.setattr(card, "best", lambda work, seconds=2.0: best(work, 0.1))
    monkeypatch.setattr(sensors, "default_sources", lambda: [None, Card()])
    monkeypatch.setattr(card, "default_sources", list)
    return card


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("minute_of_load", {"bf16 matrix products, burst", "bf16 after a minute", POWER, SM_CLOCK}),
        ("memory", {"copy of 64 MiB", "copy of 8192 MiB"}),
        ("arithmetic", {"fp32 matrix products", "fp64 matrix products", "fp16 products for 5 s"}),
        ("latencies", {"one more launch", "telemetry on against off: launches"}),
    ],
)
def test_a_step_has_a_line_for_every_figure(
    steps: Any, tmp_path: Path, step: str, expected: set[str]
) -> None:
    rows_module = importlib.import_module(f"{HOUR}.rows")
    findings = rows_module.Findings(step, tmp_path / "rows", "H100")
    getattr(steps, step)(findings, 0)
    rows, courses = rows_module.read_findings(tmp_path / "rows")
    assert expected <= {row.what for row in rows}
    assert all(row.found for row in rows)
    if step == "minute_of_load":
        assert {course["name"] for course in courses} == {"power", "SM clock", "bf16 rate"}


def test_copies_come_from_every_numa_node(steps: Any, tmp_path: Path) -> None:
    rows_module = importlib.import_module(f"{HOUR}.rows")
    findings = rows_module.Findings("copies", tmp_path / "rows", "H100")
    steps.copies(findings, 0, size=1 << 20)
    rows, _ = rows_module.read_findings(tmp_path / "rows")
    assert [row.what for row in rows] == ["copy from the host", "copy to the host"]
    assert all("NUMA node" in row.note for row in rows)


def test_a_burn_that_computes_otherwise_is_off(
    steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_module = importlib.import_module(f"{HOUR}.rows")
    for name, wrong in (("well", False), ("wrong", True)):
        if wrong:
            equal = itertools.chain([True, False], itertools.repeat(True))
            monkeypatch.setattr(torch, "equal", lambda *_, equal=equal: next(equal))
        findings = rows_module.Findings("burn", tmp_path / name, "H100")
        monkeypatch.setattr(steps, "calls_for", lambda *_: 3)
        steps.burn(findings, 0, seconds=0.2)
        rows, _ = rows_module.read_findings(tmp_path / name)
        assert rows[-1].end == ("off" if wrong else "as expected")
