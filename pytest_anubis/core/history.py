"""What happened to nodes over time: incidents, defects, states, and their runs in short.

Times are seconds since 1970, UTC; durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from pytest_anubis.core.field_types import Rare

DefectState = Literal["open", "confirmed", "false alarm"]
DEFECT_STATES: tuple[str, ...] = get_args(DefectState)

NodeState = Literal["in service", "drained", "repair", "removed"]
CLOCKS_DIFFER = 300.0
"""Seconds by which clocks of hosts may differ and mean nothing: no two runs of a node are as near in time."""

TOGETHER = 7 * 86400.0
"""Seconds before a node's latest run within which other runs of it complete that one."""

NODE_STATES: tuple[str, ...] = get_args(NodeState)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One node."""

    name: str
    hardware_class: str = ""  # its class in its latest run; empty when unknown
    since: float = 0.0  # when it was first seen or put into service
    state: str = "in service"  # its latest state
    changed: float | None = None  # since when it is in that state; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something that users suffered."""

    node: str  # the node that it happened on
    kind: str  # what it was, e.g. ``nic``, ``gpu-memory``
    started: float  # when it began
    duration: float | None = None  # how long it lasted; None when unknown
    component: str = ""  # the part of the node, empty when unknown
    note: str = ""
    number: int = 0  # its number in the history; 0 before it is recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A component that validation found bad."""

    number: int  # its number in the history
    node: str
    found: float  # when
    benchmarks: tuple[str, ...]  # those that exposed it in any of these, sorted
    hardware_class: str = ""  # the node's class when it was found
    run: str = ""  # the run that found it; empty when it was entered by hand
    runs: tuple[str, ...] = ()  # all that met it while open, in time order
    seen: float | None = None  # when it was met last; None if unknown
    component: str = ""  # the part of the node that is blamed
    components: tuple[str, ...] = ()  # all parts that its benchmarks exercise, that one first
    kind: str = ""  # kind of incident that it leads to; at first the component
    state: str = "open"  # ``open``, ``confirmed`` or ``false alarm``
    closed: float | None = None  # when it was confirmed or found a false alarm; None while open
    note: str = ""
    passed: Annotated[bool, Rare] = False  # it was not closed, but later runs passed it


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run of a node in short; one-sided similarities by benchmark, metric and device."""

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
class FleetHistory:
    """What the history knows about a fleet, read once: all that a choice of benchmarks rests on.

    Attributes:
        nodes: All nodes, sorted by name.
        incidents: All incidents, in time order.
        defects: Defects in time order, false alarms included.
        runs: Node -> its runs in short, in time order; of the similarities only the lowest.
        durations: Benchmark -> its usual seconds on the class that was asked for.
        experience: Benchmark -> how often it has run on that class.
        components: Benchmark -> the component that it speaks for.
        measured: Hardware class -> the benchmarks that recorded anything on it, whatever the run was for.
        gone: Node -> when it was taken out of service for good.
    """

    nodes: tuple[NodeRecord, ...] = ()
    incidents: tuple[Incident, ...] = ()
    defects: tuple[Defect, ...] = ()
    runs: Mapping[str, tuple[RunSummary, ...]] = field(default_factory=dict)
    durations: Mapping[str, float] = field(default_factory=dict)
    experience: Mapping[str, int] = field(default_factory=dict)
    components: Mapping[str, str] = field(default_factory=dict)
    measured: Mapping[str, frozenset[str]] = field(default_factory=dict)
    gone: Mapping[str, float] = field(default_factory=dict)
