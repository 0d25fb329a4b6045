"""Run the steps that need only the driver's library: inventory, gate, and the duration of each call."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

from benchmarks.accelerators.first_hour.rows import FAILED, GOOD, OFF, SEEN, Findings
from pytest_anubis.hardware.gate.inventory_gate import check_inventory
from pytest_anubis.hardware.inventory.amd_inventory import read_amd
from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.hardware.inventory.nvidia_inventory import NvidiaReading
from pytest_anubis.hardware.telemetry.host_sensors import POWER, SM_CLOCK, Source
from pytest_anubis.hardware.telemetry.nvidia_sensors import NvidiaSource
from pytest_anubis.hardware.telemetry.telemetry_sampler import (
    COST_SHARE,
    COUNTERS_EVERY,
    INTERVAL,
    default_sources,
)
from pytest_anubis.hardware.text_files import Files

ROUNDS = 5
"""Number of readings of all cards; five calls show how much a single one can vary."""

SLOW_MS = 1e3 * COST_SHARE * INTERVAL
"""Maximum milliseconds of a reading of all cards before a session samples less often."""

TEMPO = 0.05
"""Seconds between two readings of a time series: a clock falls within some tenths of a second."""


class TimedLibrary:
    """A wrapper of a library's bindings that times every call.

    Args:
        module: The bindings, ``pynvml`` or ``amdsmi``.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if not name.startswith(("nvml", "amdsmi_")) or not callable(found):
            return found
        return self._timed(name, found)

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            begin = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                self.seconds[name].append(time.perf_counter() - begin)

        return timed


class Course:
    """A context manager that records time series of one card's clock and power.

    Args:
        findings: Receives the series.
        card: Number of the card.
        source: Source to read; default this machine's cards.
    """

    def __init__(self, findings: Findings, card: int, source: Source | None = None) -> None:
        self._findings = findings
        self._part = f"GPU {card}"
        # The first default source is the host.
        self._sources = [source] if source is not None else default_sources()[1:]
        self._points: dict[str, list[tuple[float, float]]] = {POWER: [], SM_CLOCK: []}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)  # a call that hangs is ended with the step
        for name, points in self._points.items():
            self._findings.series(
                name.partition(" (")[0], name.rpartition("(")[2].rstrip(")"), points
            )

    def middle(self, name: str, begin: float, end: float) -> float | None:
        """Return the median of a quantity between two moments, in seconds since the beginning."""
        values = [value for when, value in self._points[name] if begin <= when < end]
        return statistics.median(values) if values else None

    def _draw(self) -> None:
        for source in self._sources:
            source.open()
        begin = time.monotonic()
        while not self._stop.wait(TEMPO):
            when = time.monotonic() - begin
            for source in self._sources:
                values = source.read(counters=False).values.get(self._part, {})
                for name, points in self._points.items():
                    if name in values:
                        points.append((round(when, 3), values[name]))
        for source in self._sources:
            source.close()


def what_is_there(findings: Findings, _card: int) -> None:
    """Show the inventory, the output of the driver's own tool, and the gate's findings."""
    inventory = read_inventory()
    for number, card in enumerate(inventory.accelerators):
        lost = "; ".join(card.unreadable)
        findings.row(
            f"GPU {number}",
            f"{card.name}, {card.pci}",
            note=lost,
            end=FAILED if lost else SEEN,
            expected="every sensor answers or is absent",
        )
    _tools(findings)
    found = check_inventory(inventory, None)
    for finding in found:
        end = OFF if finding.severity == "FAIL" else SEEN
        findings.row(f"gate: {finding.severity}", finding.text, end=end, note=finding.action)
    if not any(finding.severity == "FAIL" for finding in found):
        findings.row("gate", "no finding against the node", end=GOOD)


def _tools(findings: Findings) -> None:
    doctor = [sys.executable, "-m", "pytest_anubis.cli.main", "doctor"]
    for command in (["nvidia-smi", "-q"], ["amd-smi", "static"], doctor):
        if shutil.which(command[0]) is None:
            findings.row(command[0], "not installed")
            continue
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        seconds = time.monotonic() - begin
        lines = len(done.stdout.splitlines())
        name = "anubis doctor" if command is doctor else " ".join(command)
        words = f"{lines} lines in {seconds:.1f} s, exit code {done.returncode}"
        findings.row(name, words, value=seconds)


def every_call(findings: Findings, _card: int) -> None:
    """Time every call of the driver's library that an inventory and a reading make."""
    for library, read in (("pynvml", _nvidia), ("amdsmi", _amd)):
        try:
            module = __import__(library)
        except (
            ImportError,
            OSError,
            KeyError,
            AttributeError,
        ):  # KeyError: amdsmi lacks its library
            findings.row(library, "not installed")
            continue
        timed = TimedLibrary(module)
        for _ in range(ROUNDS):
            read(timed)
        for name, seconds in sorted(timed.seconds.items()):
            slowest, middle = max(seconds) * 1e3, statistics.median(seconds) * 1e3
            words = f"{middle:.3f} ms, slowest {slowest:.3f} ms of {len(seconds)}"
            findings.row(name, words, value=middle)
    _one_reading(findings)


def _one_reading(findings: Findings) -> None:
    """Time the readings of all cards that a session takes repeatedly."""
    sources = default_sources()[1:]
    for source in sources:
        source.open()
    for counters, what in ((False, "a reading of all cards"), (True, "one with their counters")):
        taken, cards = [], 0
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            cards = sum(len(source.read(counters=counters).values) for source in sources)
            taken.append((time.perf_counter() - begin) * 1e3)
        most = SLOW_MS * (COUNTERS_EVERY * max(cards, 1) if counters else 1)
        own = "what a session samples at"
        findings.within(what, statistics.median(taken), most, "ms", own)
    for source in sources:
        source.close()


def _nvidia(module: Any) -> None:
    NvidiaReading(module).read()
    source = NvidiaSource(module=module)
    source.open()
    try:
        source.read(counters=True)
    finally:
        source.close()


def _amd(module: Any) -> None:
    read_amd(Files(), module)


def all_links(findings: Findings, _card: int) -> None:
    """Show the links and PCIe connections of the cards."""
    inventory = read_inventory()
    cards = inventory.accelerators
    most = max((card.nvlinks or 0 for card in cards), default=0)
    for number, card in enumerate(cards):
        up = f"{card.nvlinks_active} of {card.nvlinks}" if card.nvlinks else "none"
        whole = (card.nvlinks_active, card.nvlinks) == (most, most) if most else True
        findings.row(
            f"GPU {number}: links",
            f"{up} up; PCIe {card.link_generation} x{card.link_width} of "
            f"{card.link_generation_max} x{card.link_width_max}",
            expected=f"{most} of {most} up" if most else "",
            end=GOOD if whole and card.link_width == card.link_width_max else OFF,
        )
