"""What a table lacks of a node: a device that is gone as a whole, and single cells without a value.

A run of our own says itself what did not run and which devices the node has; a table only shows what is
not there. A device that the class has and that gave no value at all, while most of its siblings did, is gone:
that rejects, as the inventory would. Single cells are in the way of nothing where they are few, and their
benchmark has other values of the node.
"""

from __future__ import annotations

import math
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

NAMED = 3
"""Cells named in a line."""


class Cell(NamedTuple):
    """One value that should be there: benchmark, metric and device."""

    benchmark: str
    metric: str
    device: str


class SeenRun(NamedTuple):
    """What one run of a node has values of.

    Attributes:
        run: Its id.
        devices: The devices.
        metrics: How many metrics; 0: it is a retest.
        values: How many pairs of a metric and a device.
        usual: The devices that most nodes have in this run; None where it is of fewer than three.
    """

    run: str
    devices: frozenset[str]
    metrics: int
    values: int
    usual: frozenset[str] | None = None

    def is_whole(self, expected: Sequence[Expected]) -> bool:
        """Return whether it has most metrics of the class, and most values of the devices that it has."""
        if 2 * self.metrics <= len(expected):
            return False
        return 2 * self.values > sum(len(one.devices & self.devices) for one in expected)


class Expected(NamedTuple):
    """What a criterion expects of each node: the devices that most healthy nodes have it from."""

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
    """What a node lacks.

    Attributes:
        gone: The verdicts on devices that are gone.
        back: Those on devices that were, until a later run had values of them.
        unseen: What blocks where the latest runs lack half of the devices or more; else None.
        cells: The single cells that are missing.
        absent: The cells of benchmarks without any value, where most of its benchmarks have some.
        whole: How many the baseline expects.
        allowed: Whether they are in the way of nothing.
        answers: Which devices were judged, with those that are spoken for here.
        spared: Metrics of which a device need not answer.
        silent: Those of them of which none need.
        verdicts: Those of the node without the ones that only say that something is missing.
    """

    gone: tuple[MetricVerdict, ...] = ()
    back: tuple[MetricVerdict, ...] = ()
    unseen: Blocker | None = None
    cells: tuple[Cell, ...] = ()
    absent: tuple[Cell, ...] = ()
    whole: int = 0
    allowed: bool = True
    answers: Mapping[Metric, frozenset[str]] = field(default_factory=dict)
    spared: frozenset[tuple[str, str]] = frozenset()
    silent: frozenset[tuple[str, str]] = frozenset()
    verdicts: Sequence[MetricVerdict] = ()

    def needed(self, criteria: Sequence[Criterion]) -> list[Criterion]:
        """Return the criteria that must be answered all the same; pooled values need every device."""
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
            named = first_of([metric_name(*cell) for cell in self.cells], NAMED)
            text = missing_text(len(self.cells), self.whole)
            word = Outcome.NOT_TESTED.value
            found.append(Blocker(kind=Hindrance.MISSING, word=word, subject=text, cause=named))
        return tuple(found)


def missing_text(missing: int, whole: int) -> str:
    """Return that so many of a node's values are missing: ``1 of 118 values is missing``."""
    return f"{missing} of {whole} values {'is' if missing == 1 else 'are'} missing"


def expected_of(criteria: Sequence[Criterion]) -> list[Expected]:
    """Return what criteria expect device by device.

    Of a metric with several groups each device has its place in one of them: what is missing there is said
    by the ledger.
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
    """Return what a node that only tables tell of lacks.

    Args:
        node: Its name.
        verdicts: All that are known of it.
        answers: Which devices were held against the baseline, by metric.
        seen: What its runs have values of, in order.
        expected: What its class has.
        allowed: Share of its values that may be missing.
    """
    gone, run = _gone(seen, expected)
    unseen = None if gone else _unseen(seen, expected)
    back = _back(node, gone, seen, expected)
    other: dict[tuple[str, str], set[str]] = {}  # devices of which something else is said
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
        dead = frozenset(device for device in one.devices if _of(gone, device))
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
        allowed=len(cells) <= math.floor(allowed * whole),
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


def _gone(seen: Sequence[SeenRun], expected: Sequence[Expected]) -> tuple[frozenset[str], str]:
    """Return the devices that are gone, and the run that shows it.

    That is the latest run with most metrics of the class on most devices of the kind, and most of their
    values: a run that measures some cards, metrics or values again loses nothing. Nor does one that has a
    device of few nodes, where an earlier run of this one has it: it measured some cards of all nodes again.
    """
    kinds = _kinds(expected)
    every, later = frozenset[str]().union(*kinds.values()), frozenset[str]()
    for place, one in reversed(list(enumerate(seen))):
        later |= one.devices
        most = [kind - later for kind in kinds.values() if 2 * len(kind & one.devices) > len(kind)]
        lost = frozenset[str]().union(*most)
        if one.usual is not None:
            lost -= frozenset[str]().union(*(run.devices for run in seen[:place])) - one.usual
        lost = lost if lost and one.is_whole(expected) else frozenset()
        if lost or later >= every:
            return lost, one.run
    return frozenset(), ""


def _back(
    node: str, gone: Collection[str], seen: Sequence[SeenRun], expected: Sequence[Expected]
) -> tuple[MetricVerdict, ...]:
    """Return the verdicts on devices that were gone by earlier runs alone: a later one answers them."""
    shown: dict[str, str] = {}  # to the latest run that lacked it
    for count in range(1, len(seen)):
        lost, run = _gone(seen[:count], expected)
        shown |= dict.fromkeys(lost, run)
    return tuple(
        _verdict(node, device, run, expected)
        for device, run in sorted(shown.items())
        if device not in gone
    )


def _kinds(expected: Sequence[Expected]) -> dict[str, set[str]]:
    """Return kind of device -> the devices of the class."""
    kinds: dict[str, set[str]] = {}
    for device in frozenset[str]().union(*(one.devices for one in expected)):
        if device not in HOST and ">" not in device:
            kinds.setdefault(device.partition(":")[0].rstrip("0123456789"), set()).add(device)
    return kinds


def _unseen(seen: Sequence[SeenRun], expected: Sequence[Expected]) -> Blocker | None:
    """Return what blocks where the latest runs lack half of the devices or more; else None.

    That is where a run before them measured the same devices and these besides. They may be gone, or only
    left out; so may those that most nodes of the latest run lack. A run with few of the metrics repeats some,
    and one of other devices is a part of the same.
    """
    kinds = _kinds(expected).values()
    later, after, latest = frozenset[str](), frozenset[str](), ""
    rare = frozenset[str]()
    for one in reversed(seen):
        whole = one.is_whole(expected)
        if whole and latest and one.devices >= after:
            few = [rare, *(kind for kind in kinds if 2 * len(kind & later) <= len(kind))]
            if lost := (one.devices - later) & frozenset[str]().union(*few):
                named = first_of(sorted(lost), NAMED)
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


def _of(gone: Collection[str], device: str) -> bool:
    """Return whether a device is gone, or is a pair of which one end is."""
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
    """Return whether what is missing is spoken for; a node's pooled value lacks what one device lacks."""
    here = excused.get((verdict.benchmark, verdict.metric), ())
    if verdict.scope == "node":
        return bool(here)
    return verdict.device in here or _of(gone, verdict.device)


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
