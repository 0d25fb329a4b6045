"""What every process of one run must agree on, resolved once by the controller."""

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

Sink = Callable[["Event"], None]
"""Takes one event: writes and applies it, or in a worker sends it to the controller."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The facts of this run.

    Attributes:
        settings: The resolved settings.
        run_id: Name of the run.
        campaign: Name of the soak that it is a cycle of; empty if it is none.
        node: Name of this node.
        inventory: The inventory as plain data.
        hardware_class: Key of this node's hardware class.
        attributes: What the key was made of.
        devices: Names of the devices to run per-device tests on, e.g. ``("cuda:0", "cuda:1")``, numbered
            over the whole node, in the order in which a process that sees all of them counts them.
        bindings: For each accelerator among them the environment variable and the value that leave only it
            visible to a process.
        hidden: What the user's environment hides of the node, one sentence each: it is not tested.
        refused: What in the user's environment nothing can be tested with, and what to do, one sentence each.
        baseline: The class's baseline, None when there is none.
        root_pid: Process whose tree is this run's own load; None: this process. In a worker the
            controller, so that a neighbouring worker is not taken for a stranger.
        done: Node ids of tests that ended in the earlier part of a run that is resumed.
        tests: The tests as they were typed, quoted for a shell; empty where they are no paths.
        root: The folder in which the tests' ids begin, from where they were typed; empty: the same.
        own_inventory: A recorded inventory was given, and it is known to be one of this machine.
        waivers: The failures that somebody answers for; those of other nodes are left out.
        behind: Seconds by which this machine's clock is behind its baseline; 0 where it is not.
        baseline_source: What was checked of where the baseline is from; empty if nothing was.
        baseline_note: Why there is no baseline and what to do next, one sentence; empty if there is one.
    """

    settings: Settings
    run_id: str = ""
    campaign: str = ""
    node: str = ""
    inventory: Mapping[str, Any] = field(default_factory=dict)
    hardware_class: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    baseline: Baseline | None = None
    baseline_source: str = ""
    baseline_note: str = ""
    root_pid: int | None = None
    done: tuple[str, ...] = ()
    tests: str = ""
    root: str = ""
    own_inventory: bool = False
    waivers: tuple[Waiver, ...] = ()
    behind: float = 0.0

    @property
    def judging(self) -> bool:
        """True when metrics are compared with criteria in this run."""
        return self.settings.active and self.settings.mode == "judge"


@dataclass(frozen=True, slots=True)
class Card:
    """One accelerator under test.

    Attributes:
        part: What telemetry calls it: ``GPU 3``.
        device: The run's name of it: ``cuda:3``.
        address: Its PCI address; empty where it is not known.
    """

    part: str
    device: str
    address: str = ""

    @property
    def place(self) -> str:
        """How people find it."""
        return f"{self.part} ({self.address})" if self.address else self.part


def cards_of(context: RunContext) -> list[Card]:
    """Return the accelerators that this run tests; those that the user hides are none of its business.

    NVIDIA's cards are numbered by NVML, AMD's by their PCI addresses, as telemetry does.
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
"""When the time that was given for a run is over, by the monotonic clock of this process's machine."""
judge_key = pytest.StashKey[Callable[["Measurement"], "MetricVerdict"]]()
"""Judges one measurement as the tests' own call phase does."""


def time_left(config: pytest.Config) -> float:
    """Return the seconds that are left of the run's budget; infinite where none was given."""
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
        pytest.UsageError: It is blocked by ``-p no:``; nothing may be accepted by half of the parts.
    """
    if config.pluginmanager.register(part, name) is None:
        raise pytest.UsageError(
            f"-p no:{name}: no run with --anubis goes without this part; leave it out"
        )
