"""Nouns of the history of nodes: incidents, defects, states and summaries of runs.

`store.history` keeps them. `precedents_of` counts what became of earlier defects like a new one.

Times are seconds since 1970, UTC; durations are seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from pytest_anubis.core.field_types import Rare

DefectState = Literal["open", "confirmed", "false alarm"]
DEFECT_STATES: tuple[str, ...] = get_args(DefectState)

OUT_OF_SERVICE = ("drained", "repair")
"""States of a node that somebody has taken out of service."""
NodeState = Literal["in service", "drained", "repair", "removed"]
NODE_STATES: tuple[str, ...] = get_args(NodeState)

CLOCK_TOLERANCE = 300.0
"""Seconds by which clocks of hosts may differ; no two runs of a node are as near in time."""

COMPLETING_SECONDS = 7 * 86400.0
"""Seconds before a node's latest run within which its other runs complete that one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node with its latest state."""

    name: str
    hardware_class: str = ""  # its class in its latest run; empty if unknown
    since: float = 0.0  # when it was first seen or put into service
    state: str = "in service"  # its latest state
    changed: float | None = None  # when that state began; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A fault that users suffered."""

    node: str
    kind: str  # e.g. ``nic``, ``gpu-memory``
    started: float
    duration: float | None = None  # None if unknown
    component: str = ""  # the part of the node, empty if unknown
    note: str = ""
    number: int = 0  # its number in the history; 0 before it is recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A component that validation found bad."""

    number: int  # its number in the history
    node: str
    found: float
    benchmarks: tuple[str, ...]  # those that exposed it in any of `runs`, sorted
    hardware_class: str = ""  # the node's class when it was found
    run: str = ""  # the run that found it; empty if it was entered by hand
    runs: tuple[str, ...] = ()  # all runs that found it while open, in time order
    seen: float | None = None  # when it was found last; None if unknown
    component: str = ""  # the part of the node that is blamed
    components: tuple[str, ...] = ()  # all parts that its benchmarks exercise, `component` first
    kind: str = ""  # kind of incident that it leads to; at first the component
    state: str = "open"  # ``open``, ``confirmed`` or ``false alarm``
    closed: float | None = None  # when it was confirmed or found a false alarm; None while open
    note: str = ""
    metrics: Annotated[tuple[tuple[str, str], ...], Rare] = ()  # benchmark and metric that failed
    note_of_run: Annotated[bool, Rare] = False  # the note is its run's headline, not a person's
    passed: Annotated[bool, Rare] = False  # it was not closed, but later runs passed it


@dataclass(frozen=True, slots=True, kw_only=True)
class Precedents:
    """What became of earlier defects like one that is reported."""

    confirmed: int
    false_alarms: int
    note: str = ""  # the latest note of a person; empty if there is none


def earlier_defects(
    found: Iterable[Defect],
    *,
    node: str,
    hardware_class: str,
    began: float | None,
    runs: Collection[str],
) -> tuple[Defect, ...]:
    """Return the defects of a class that were found before a run began, but none of a node's own runs."""
    return tuple(
        one
        for one in found
        if one.hardware_class == hardware_class
        and (began is None or one.found < began)
        and not (one.node == node and not set(runs).isdisjoint(one.runs))
    )


def precedents_of(closed: Iterable[Defect], failed: Collection[tuple[str, str]]) -> Precedents:
    """Count the closed defects in which one of these failed: benchmarks with their metrics.

    For a defect without known metrics, such as one that was entered by hand, its benchmarks count.
    """
    benchmarks = {benchmark for benchmark, _ in failed}
    alike = [
        one
        for one in closed
        if not (
            set(failed).isdisjoint(one.metrics)
            if one.metrics
            else benchmarks.isdisjoint(one.benchmarks)
        )
    ]
    alike.sort(key=lambda one: one.closed or 0.0)
    return Precedents(
        confirmed=sum(one.state == "confirmed" for one in alike),
        false_alarms=sum(one.state == "false alarm" for one in alike),
        note=next((one.note for one in reversed(alike) if one.note and not one.note_of_run), ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run of a node with its one-sided similarities by benchmark, metric and device."""

    run: str
    node: str
    hardware_class: str = ""  # the node's class
    profile: str = ""
    purpose: str = ""  # ``measure``, ``learn`` or ``acceptance``
    started: float = 0.0  # when it began
    seconds: float | None = None  # how long it took; None when it never finished
    decision: str = ""  # ``ACCEPTED``, ``REJECTED``, ``UNDECIDED``, or empty
    similarities: Mapping[tuple[str, str, str], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What is open on a node, so that a small risk of an incident does not accept it."""

    # The benchmarks that failed on it and have not passed since; also ids without a test, like
    # ``inventory``
    benchmarks: frozenset[str] = frozenset()
    why: str = ""  # why its state is unknown, in words; empty if only these benchmarks are open


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetHistory:
    """The history of a fleet, on which a choice of benchmarks is based."""

    nodes: tuple[NodeRecord, ...] = ()  # all nodes, sorted by name
    incidents: tuple[Incident, ...] = ()  # all incidents, in time order
    defects: tuple[Defect, ...] = ()  # defects in time order, false alarms included
    # Node -> its runs in time order, with the lowest similarities only
    runs: Mapping[str, tuple[RunSummary, ...]] = field(default_factory=dict)
    # Benchmark -> its usual seconds on the requested class
    durations: Mapping[str, float] = field(default_factory=dict)
    # Benchmark -> how often it has run on that class
    experience: Mapping[str, int] = field(default_factory=dict)
    # Benchmark -> the component that it tests
    components: Mapping[str, str] = field(default_factory=dict)
    # Hardware class -> the benchmarks that recorded anything on it, for any purpose
    measured: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # Node -> when it was taken out of service for good
    gone: Mapping[str, float] = field(default_factory=dict)
    # Node -> what is open on it; nodes that their runs accept are left out
    doubts: Mapping[str, Doubt] = field(default_factory=dict)
