"""Find what imported tables lack of a node: whole devices that are gone, and single cells without a value.

A journal records which tests did not run and which devices the node has; a table does not. A device of the
class that has no value at all, while most similar devices have, is gone: that rejects the node, as the
inventory would. A few missing cells do not block if their benchmark has other values of the node.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.metric import first_of, metric_name
from pytest_anubis.core.standing.standing_of import GATE, GONE
from pytest_anubis.core.verdict import HOST, MetricVerdict, Outcome, Reason
from pytest_anubis.validator.deciding.ledger import Metric

MAX_CELLS_NAMED = 3
"""Cells named in a line."""


class Cell(NamedTuple):
    """One value that should be there: benchmark, metric and device."""

    benchmark: str
    metric: str
    device: str


class SeenRun(NamedTuple):
    """The devices and metrics that one run of a node has values of."""

    run: str  # id of the run
    devices: frozenset[str]  # devices with a value
    metrics: int  # number of metrics; 0 for a retest
    values: int  # number of pairs of a metric and a device
    # The devices that most nodes have in this run; None if it has fewer than three nodes
    usual: frozenset[str] | None = None

    def is_whole(self, expected: Sequence[Expected]) -> bool:
        """Return whether it has most metrics of the class, and most values of its devices."""
        if 2 * self.metrics <= len(expected):
            return False
        return 2 * self.values > sum(len(one.devices & self.devices) for one in expected)


class Expected(NamedTuple):
    """What a criterion expects from each node: values from the devices that most healthy nodes have."""

    benchmark: str
    metric: str
    group: str
    component: str
    devices: frozenset[str]

    @property
    def name(self) -> tuple[str, str]:
        """Benchmark and metric."""
        return self.benchmark, self.metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What a node lacks."""

    gone: tuple[MetricVerdict, ...] = ()  # verdicts on devices that are gone
    # Verdicts on devices that were gone until a later run had values of them
    back: tuple[MetricVerdict, ...] = ()
    unseen: Blocker | None = None  # blocker if the latest runs lack half of the devices or more
    cells: tuple[Cell, ...] = ()  # single missing cells
    # Cells of benchmarks without any value, if most benchmarks have some
    absent: tuple[Cell, ...] = ()
    whole: int = 0  # number of cells that the baseline expects
    allowed: bool = True  # whether the missing cells are few enough not to block
    # Which devices were judged, and which need no value
    answers: Mapping[Metric, frozenset[str]] = field(default_factory=dict)
    spared: frozenset[tuple[str, str]] = frozenset()  # metrics that some device need not have
    silent: frozenset[tuple[str, str]] = frozenset()  # metrics that no device need have
    # Verdicts of the node without those that only say that something is missing
    verdicts: Sequence[MetricVerdict] = ()

    def needed(self, criteria: Sequence[Criterion]) -> list[Criterion]:
        """Return the criteria that must still be answered; pooled values need every device."""
        return [
            one
            for one in criteria
            if (one.benchmark, one.metric.name)
            not in (self.spared if one.scope == "node" else self.silent)
        ]

    @property
    def blockers(self) -> tuple[Blocker, ...]:
        """What prevents acceptance: one for devices, and one for values if too many are missing."""
        found = [self.unseen] if self.unseen else []
        if self.cells and not self.allowed:
            named = first_of([metric_name(*cell) for cell in self.cells], MAX_CELLS_NAMED)
            text = missing_text(len(self.cells), self.whole)
            word = Outcome.NOT_TESTED.value
            found.append(Blocker(kind=Hindrance.MISSING, word=word, subject=text, cause=named))
        return tuple(found)


def missing_text(missing: int, whole: int) -> str:
    """Say how many of a node's values are missing: ``1 of 118 values is missing``."""
    return f"{missing} of {whole} values {'is' if missing == 1 else 'are'} missing"


def expected_of(criteria: Sequence[Criterion]) -> list[Expected]:
    """Return what criteria expect from each device.

    A metric with several groups is left to the ledger: a device belongs to one of the groups.
    """
    units = [one for one in criteria if one.scope == "unit" and one.devices]
    counts = Counter((one.benchmark, one.metric.name) for one in units)
    return [
        Expected(
            one.benchmark,
            one.metric.name,
            one.group,
            one.component or one.benchmark,
            frozenset(one.devices),
        )
        for one in units
        if counts[one.benchmark, one.metric.name] == 1
    ]


def lacking(
    node: str,
    verdicts: Sequence[MetricVerdict],
    answers: Mapping[Metric, frozenset[str]],
    seen: Sequence[SeenRun],
    expected: Sequence[Expected],
    allowed: float,
) -> Lacking:
    """Return what a node lacks that is known from tables only.

    `answers` are the devices held against the baseline, `seen` the values of its runs in order, `expected`
    what its class has, `allowed` the share of its values that may be missing.
    """
    gone, run = _gone(seen, expected)
    unseen = None if gone else _unseen(seen, expected)
    back = _back(node, gone, seen, expected)
    other: dict[tuple[str, str], set[str]] = {}  # devices with another bad verdict
    empty: dict[tuple[str, str], set[str]] = {}
    for verdict in verdicts:
        if verdict.scope == "unit" and verdict.outcome is not Outcome.PASS:
            places = empty if _is_missing(verdict) else other
            places.setdefault((verdict.benchmark, verdict.metric), set()).add(verdict.device)
    none = frozenset[str]()
    known = [
        answers.get((*one.name, one.group), none) - empty.get(one.name, none) for one in expected
    ]
    lost = [one.devices - here for one, here in zip(expected, known, strict=True)]
    if not gone and not any(lost):
        return Lacking(back=back, unseen=unseen, answers=answers, verdicts=verdicts)
    ran = {one.benchmark for one, here in zip(expected, known, strict=True) if here}
    cells: list[Cell] = []
    absent: list[Cell] = []
    whole = 0
    excused: dict[tuple[str, str], frozenset[str]] = {}
    for one, missing in zip(expected, lost, strict=True):
        dead = frozenset(device for device in one.devices if _is_gone(gone, device))
        empty_here = missing - dead - other.get(one.name, none)
        single = empty_here if one.benchmark in ran else none
        whole += len(one.devices) - len(dead)
        here = cells if one.benchmark in ran else absent
        here += [Cell(*one.name, device) for device in sorted(empty_here)]
        if dead | single:
            excused[one.name] = dead | single
    open_ones = {
        one.name for one in expected if one.name not in excused or one.devices - excused[one.name]
    }
    return Lacking(
        gone=tuple(_verdict(node, device, run, expected) for device in sorted(gone)),
        back=back,
        unseen=unseen,
        cells=tuple(cells),
        absent=tuple(absent) if 2 * len(ran) > len({one.benchmark for one in expected}) else (),
        whole=whole,
        allowed=len(cells) <= math.floor(allowed * whole) and not _silent(expected, known, gone),
        answers={
            key: devices | excused.get(key[:2], none) if devices else devices
            for key, devices in answers.items()
        },
        spared=frozenset(excused),
        silent=frozenset(excused.keys() - open_ones),
        verdicts=[
            one for one in verdicts if not (_is_missing(one) and _excused(one, excused, gone))
        ],
    )


def _silent(
    expected: Sequence[Expected], known: Sequence[frozenset[str]], gone: Collection[str]
) -> frozenset[str]:
    """Return the devices without any value that are not known to be gone: nothing shows that they work."""
    every = frozenset[str]().union(*(one.devices for one in expected))
    silent = every.difference(HOST, *known)
    return frozenset(one for one in silent if ">" not in one and not _is_gone(gone, one))


def _gone(seen: Sequence[SeenRun], expected: Sequence[Expected]) -> tuple[frozenset[str], str]:
    """Return the devices that are gone, and the run that shows it.

    That is the latest run with most metrics of the class, most devices of the kind, and most of their values:
    a run that measures some cards, metrics or values again shows nothing. Neither does a run in which few
    nodes have a device that this node had earlier: it measured some cards of all nodes again. Nor does one
    with as many devices that the class lacks: the same ones may have other names since.
    """
    kinds = _kinds(expected)
    every, later = frozenset[str]().union(*kinds), frozenset[str]()
    for place, one in reversed(list(enumerate(seen))):
        later |= one.devices
        most = [kind - later for kind in kinds if 2 * len(kind & one.devices) > len(kind)]
        lost = frozenset[str]().union(*most)
        if one.usual is not None:
            lost -= frozenset[str]().union(*(run.devices for run in seen[:place])) - one.usual
        others = [name for name in one.devices - every if name not in HOST and ">" not in name]
        lost = lost if len(others) < len(lost) and one.is_whole(expected) else frozenset()
        if lost or later >= every:
            return lost, one.run
    return frozenset(), ""


def _back(
    node: str, gone: Collection[str], seen: Sequence[SeenRun], expected: Sequence[Expected]
) -> tuple[MetricVerdict, ...]:
    """Return the verdicts on devices that only earlier runs lacked: a later run answers them."""
    shown: dict[str, str] = {}  # device -> the latest run that lacked it
    for count in range(1, len(seen)):
        lost, run = _gone(seen[:count], expected)
        shown |= dict.fromkeys(lost, run)
    return tuple(
        _verdict(node, device, run, expected)
        for device, run in sorted(shown.items())
        if device not in gone
    )


def _kinds(expected: Sequence[Expected]) -> list[set[str]]:
    """Return the devices of the class by kind: those whose names differ in numbers, or with equal metrics."""
    kinds: dict[str | frozenset[tuple[str, str]], set[str]] = {}
    for device in frozenset[str]().union(*(one.devices for one in expected)):
        if device not in HOST and ">" not in device:
            metrics = frozenset(one.name for one in expected if device in one.devices)
            for kind in (re.sub("[0-9]+", "", device.partition(":")[0]), metrics):
                kinds.setdefault(kind, set()).add(device)
    return list(kinds.values())


def _unseen(seen: Sequence[SeenRun], expected: Sequence[Expected]) -> Blocker | None:
    """Return a blocker if the latest runs lack half of the devices or more, and an earlier run had them.

    The earlier run must have measured the same devices and the missing ones. These may be gone or only left
    out, and so may devices that most nodes of the latest run lack. A run with few metrics is a repetition,
    and a run of other devices is a part of the same measurement.
    """
    kinds = _kinds(expected)
    later, after, latest = frozenset[str](), frozenset[str](), ""
    rare = frozenset[str]()
    for one in reversed(seen):
        whole = one.is_whole(expected)
        if whole and latest and one.devices >= after:
            few = [rare, *(kind for kind in kinds if 2 * len(kind & later) <= len(kind))]
            if lost := (one.devices - later) & frozenset[str]().union(*few):
                named = first_of(sorted(lost), MAX_CELLS_NAMED)
                return Blocker(
                    word=Outcome.NOT_TESTED.value,
                    subject=f"{len(lost)} devices have no value in run {latest}, and run {one.run} before "
                    "it had",
                    cause=named,
                    act="measure all devices again",
                )
        later |= one.devices
        if whole:
            if one.usual is not None and not latest:
                rare = frozenset[str]().union(*kinds) - one.usual
            after, latest = after | one.devices, latest or one.run
    return None


def _is_gone(gone: Collection[str], device: str) -> bool:
    """Return whether a device, or one end of a pair of devices, is gone."""
    return bool(gone) and any(end in gone for end in device.split(">"))


def _is_missing(verdict: MetricVerdict) -> bool:
    """Return whether a verdict only says that a table has no value."""
    marked = verdict.outcome is Outcome.NOT_TESTED and verdict.reason is Reason.NOT_REPORTED
    return marked and bool(verdict.metric)


def _excused(
    verdict: MetricVerdict,
    excused: Mapping[tuple[str, str], Collection[str]],
    gone: Collection[str],
) -> bool:
    """Return whether a missing value needs no verdict; a pooled value lacks what one device lacks."""
    here = excused.get((verdict.benchmark, verdict.metric), ())
    if verdict.scope == "node":
        return bool(here)
    return verdict.device in here or _is_gone(gone, verdict.device)


def _verdict(node: str, device: str, run: str, expected: Sequence[Expected]) -> MetricVerdict:
    mine = [one for one in expected if device in one.devices]
    parts = [one.component.split(".") for one in mine]
    alike = takewhile(lambda words: len(set(words)) == 1, zip(*parts, strict=False))
    return MetricVerdict(
        outcome=Outcome.FAIL,
        reason=Reason.GONE,
        text=f"{device} is gone: {len(mine)} of {len(mine)} metrics have no value",
        benchmark=GATE[0],
        metric=GONE,
        component=".".join(words[0] for words in alike),
        node=node,
        device=device,
        run=run,
        action="see whether the node's driver lists it; reseat or replace it, then measure again",
    )
