"""What all parts of one run share: its facts (`RunContext`), the sink of its events, warnings, time left.

`run_context.resolve_context` finds the facts; workers get them from the controller.
"""

from __future__ import annotations

import datetime
import math
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.verdict import Waiver
from pytest_anubis.settings import Settings

if TYPE_CHECKING:
    from pytest_anubis.core.events import Event
    from pytest_anubis.core.measurement import Measurement
    from pytest_anubis.core.verdict import MetricVerdict


class MetricUsageError(Exception):
    """A mistake in the benchmark itself, which says nothing about the hardware.

    Its text does not name the test. pytest and our messages name it before the text, and a second name would
    leave no room for the cause in pytest's one-line summary.
    """

    __module__ = "builtins"  # so that the short test summary shows the bare name


Sink = Callable[["Event"], None]
"""Takes one event: writes and applies it, or in a worker sends it to the controller."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The facts of this run."""

    settings: Settings
    run_id: str = ""
    campaign: str = ""  # name of the soak whose cycle this run is; empty outside of a soak
    node: str = ""
    inventory: Mapping[str, Any] = field(default_factory=dict)  # the inventory as plain data
    hardware_class: str = ""  # key of this node's hardware class
    # The attributes that make up the key
    attributes: Mapping[str, str] = field(default_factory=dict)
    # Devices for per-device tests, e.g. ``("cuda:0", "cuda:1")``, numbered over the whole node, in
    # the order of a process that sees all of them.
    devices: tuple[str, ...] = ()
    # Per accelerator the environment variable and value that make it the only visible one
    bindings: tuple[tuple[str, str], ...] = ()
    # Parts of the node that the user's environment hides from the tests, one sentence each
    hidden: tuple[str, ...] = ()
    # Settings of the environment that prevent any test, with the remedy, one sentence each
    refused: tuple[str, ...] = ()
    baseline: Baseline | None = None  # the class's baseline, None when there is none
    # Result of checking the baseline's digest; empty if no digest was named
    baseline_source: str = ""
    # Why there is no baseline and what to do next, one sentence; empty if there is one
    baseline_note: str = ""
    # Root of the process tree that counts as this run's own load; None for this process. In a
    # worker it is the controller, whose other workers are no disturbance.
    root_pid: int | None = None
    done: tuple[str, ...] = ()  # node ids of tests that ended in the earlier part of a resumed run
    tests: str = ""  # the tests as typed, quoted for a shell; empty unless they are paths
    # pytest's root folder, relative to the folder of the command; empty if they are the same
    root: str = ""
    # The run uses a recorded inventory that is known to be of this machine
    own_inventory: bool = False
    waivers: tuple[Waiver, ...] = ()  # the accepted failures that concern this node
    # Seconds by which this machine's clock is behind its baseline; 0 if it is not
    behind: float = 0.0

    @property
    def judging(self) -> bool:
        """True when metrics are compared with criteria in this run."""
        return self.settings.active and self.settings.mode == "judge"


@dataclass(frozen=True, slots=True)
class Card:
    """One accelerator under test."""

    part: str  # its name in telemetry: ``GPU 3``
    device: str  # its name in this run: ``cuda:3``
    address: str = ""  # its PCI address; empty if unknown

    @property
    def place(self) -> str:
        """Name and address, by which people find the card."""
        return f"{self.part} ({self.address})" if self.address else self.part


def cards_of(context: RunContext) -> list[Card]:
    """Return the accelerators that this run tests, without those that the user hides.

    As in telemetry, NVML numbers NVIDIA's cards, and the order of PCI addresses numbers AMD's.
    """
    accelerators = context.inventory.get("accelerators") or ()
    amd = sorted(str(card.get("pci") or "") for card in accelerators if _vendor(card) == "amd")
    found = []
    for position, card in enumerate(accelerators):
        device = next((d for d in context.devices if d.partition(":")[2] == str(position)), "")
        if not device:
            continue
        address = str(card.get("pci") or "")
        number = amd.index(address) if _vendor(card) == "amd" else card.get("index", position)
        found.append(Card(f"GPU {number}", device, address.lower()))
    return found


def _vendor(card: Mapping[str, Any]) -> str:
    return str(card.get("vendor") or "").lower()


context_key = pytest.StashKey[RunContext]()
sink_key = pytest.StashKey[Sink]()
ends_key = pytest.StashKey[float]()
"""End of the run's budget, in seconds of ``time.monotonic``."""
judge_key = pytest.StashKey[Callable[["Measurement"], "MetricVerdict"]]()
"""Judges one measurement as the call phase does."""


def time_left(config: pytest.Config) -> float:
    """Return the remaining seconds of the run's budget; infinite without a budget."""
    return config.stash.get(ends_key, math.inf) - time.monotonic()


def new_run_id(node: str) -> str:
    """Return a name for a run: date, time (UTC, microseconds) and the node's name."""
    now = datetime.datetime.now(datetime.UTC)
    safe = re.sub(r"[^A-Za-z0-9.-]+", "-", node)[:40] or "node"
    return f"{now:%Y%m%d-%H%M%S}-{now.microsecond:06d}-{safe}"


def discard(event: Event) -> None:
    """Drop an event: the sink of a run without ``--anubis``."""


def emit(config: pytest.Config, event: Event) -> None:
    """Hand one event to this process's sink."""
    config.stash.get(sink_key, discard)(event)


def warn(config: pytest.Config, text: str) -> None:
    """Issue a pytest warning; where warnings are errors (``-W error``), print the line instead."""
    try:
        config.issue_config_time_warning(pytest.PytestWarning(text), stacklevel=2)
    except Warning:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            sys.stderr.write(f"anubis: {text}\n")
        else:
            reporter.ensure_newline()
            reporter.write_line(f"anubis: {text}", yellow=True)


def add_part(config: pytest.Config, part: object, name: str) -> None:
    """Register a part of the run.

    Raises:
        pytest.UsageError: ``-p no:`` blocks it; a run without one of its parts must accept nothing.
    """
    if config.pluginmanager.register(part, name) is None:
        raise pytest.UsageError(
            f"-p no:{name}: no run with --anubis goes without this part; leave it out"
        )
