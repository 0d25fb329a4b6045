"""What a table lacks of a node: a device that is gone as a whole, and single cells without a value.

A run of our own says itself what did not run and which devices the node has; a table only shows what is
not there. A device that the class has and that gave no value at all, while most of its siblings did, is gone:
that rejects, as the inventory would. Single cells are in the way of nothing where they are few and another
metric of the component answered on the same device.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import metric_name
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
    """What one run of a node has values of: its id, the devices, and how many metrics."""

    run: str
    devices: frozenset[str]
    metrics: int


@dataclass(frozen=True, slots=True)
class Expected:
    """What the baseline of a class expects of each of its nodes, device by device.

    Attributes:
        components: Cell -> the component that it speaks for.
        criteria: All criteria of the class.
    """

    components: Mapping[Cell, str]
    criteria: Sequence[Criterion]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What a node lacks.

    Attributes:
        gone: The verdicts on devices that are gone.
        cells: The single cells that are missing.
        whole: How many the baseline expects.
        allowed: Whether they are in the way of nothing.
        answers: Which devices were judged, with those that are spoken for here.
        criteria: Those that must be answered all the same.
        verdicts: Those of the node without the ones that only say that something is missing.
    """

    gone: tuple[MetricVerdict, ...] = ()
    cells: tuple[Cell, ...] = ()
    whole: int = 0
    allowed: bool = True
    answers: Mapping[Metric, frozenset[str]] = field(default_factory=dict)
    criteria: tuple[Criterion, ...] | None = None
    verdicts: Sequence[MetricVerdict] = ()

    @property
    def line(self) -> str:
        """What stands in the way of acceptance for it; empty where nothing does."""
        if self.allowed or not self.cells:
            return ""
        named = ", ".join(metric_name(*cell) for cell in self.cells[:NAMED])
        more = f" and {len(self.cells) - NAMED} more" if len(self.cells) > NAMED else ""
        return f"{Outcome.NOT_TESTED} {missing_text(len(self.cells), self.whole)}: {named}{more}"


def missing_text(missing: int, whole: int) -> str:
    """Return that so many of a node's values are missing: ``1 of 118 values is missing``."""
    return f"{missing} of {whole} values {'is' if missing == 1 else 'are'} missing"


def expected_of(baseline: Baseline) -> Expected:
    """Return what a baseline expects device by device.

    Of a metric with several groups each device has its place in one of them: what is missing there is said
    by the ledger.
    """
    units = [one for one in baseline.criteria if one.scope == "unit"]
    names = [(one.benchmark, one.metric.name) for one in units]
    alone = {name for name in names if names.count(name) == 1}
    return Expected(
        {
            Cell(*name, device): one.component or one.benchmark
            for one, name in zip(units, names, strict=True)
            if name in alone
            for device in one.devices
        },
        baseline.criteria,
    )


def lacking(
    node: str,
    verdicts: Sequence[MetricVerdict],
    answers: Mapping[Metric, frozenset[str]],
    seen: Sequence[SeenRun],
    expected: Expected,
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
    answered = {
        Cell(benchmark, metric, device)
        for (benchmark, metric, _), devices in answers.items()
        for device in devices
    }
    marked = [one for one in verdicts if _is_missing(one)]
    empty = {Cell(v.benchmark, v.metric, v.device) for v in marked if v.scope == "unit"}
    told = {
        Cell(v.benchmark, v.metric, v.device)
        for v in verdicts
        if v.scope == "unit" and v.outcome is not Outcome.PASS and not _is_missing(v)
    }
    known = answered - empty
    ran = {cell.benchmark for cell in known}
    covered = {(expected.components.get(cell, ""), cell.device) for cell in known}
    cells = sorted(
        cell
        for cell in expected.components.keys() - known - told
        if cell.benchmark in ran and not _of(gone, cell.device)
    )
    if not gone and not cells:
        return Lacking(answers=answers, verdicts=verdicts)
    whole = sum(not _of(gone, cell.device) for cell in expected.components)
    spared = all((expected.components[cell], cell.device) in covered for cell in cells)
    excused = {*cells, *(cell for cell in expected.components if _of(gone, cell.device))}
    places = {cell[:2] for cell in excused}
    left = {cell[:2] for cell in known - excused}
    return Lacking(
        gone=tuple(_verdict(node, device, run, expected) for device in sorted(gone)),
        cells=tuple(cells),
        whole=whole,
        allowed=spared and len(cells) <= math.floor(allowed * whole),
        answers=_with(answers, excused),
        criteria=tuple(
            one
            for one in expected.criteria
            if (one.benchmark, one.metric.name) not in places
            or (one.scope == "unit" and (one.benchmark, one.metric.name) in left)
        ),
        verdicts=[
            one for one in verdicts if not (_is_missing(one) and _excused(one, excused, gone))
        ],
    )


def _gone(seen: Sequence[SeenRun], expected: Expected) -> tuple[frozenset[str], str]:
    """Return the devices that are gone, and the run that shows it.

    That is the latest run with most metrics of the class on most devices of the kind: whoever measures some
    cards again, or some metrics, has lost nothing.
    """
    kinds: dict[str, set[str]] = {}
    for device in {cell.device for cell in expected.components}:
        if device not in HOST and ">" not in device:
            kinds.setdefault(device.partition(":")[0], set()).add(device)
    every = frozenset().union(*kinds.values())
    whole, later = len({cell[:2] for cell in expected.components}), frozenset[str]()
    for one in reversed(seen):
        later |= one.devices
        most = [kind - later for kind in kinds.values() if 2 * len(kind & one.devices) > len(kind)]
        lost = frozenset[str]().union(*most) if 2 * one.metrics > whole else frozenset[str]()
        if lost or later >= every:
            return lost, one.run
    return frozenset(), ""


def _of(gone: Collection[str], device: str) -> bool:
    """Return whether a device is gone, or is a pair of which one end is."""
    return bool(gone) and any(end in gone for end in device.split(">"))


def _is_missing(verdict: MetricVerdict) -> bool:
    """Return whether a verdict only says that a table has no value."""
    marked = verdict.outcome is Outcome.NOT_TESTED and verdict.reason is Reason.NOT_REPORTED
    return marked and bool(verdict.metric)


def _excused(verdict: MetricVerdict, excused: Collection[Cell], gone: Collection[str]) -> bool:
    """Return whether what is missing is spoken for; a node's pooled value lacks what one device lacks."""
    if verdict.scope == "node":
        return any(cell[:2] == (verdict.benchmark, verdict.metric) for cell in excused)
    cell = Cell(verdict.benchmark, verdict.metric, verdict.device)
    return cell in excused or _of(gone, verdict.device)


def _with(
    answers: Mapping[Metric, frozenset[str]], excused: Collection[Cell]
) -> dict[Metric, frozenset[str]]:
    more: dict[tuple[str, str], set[str]] = {}
    for benchmark, metric, device in excused:
        more.setdefault((benchmark, metric), set()).add(device)
    return {
        key: devices | more.get(key[:2], frozenset()) if devices else devices
        for key, devices in answers.items()
    }


def _verdict(node: str, device: str, run: str, expected: Expected) -> MetricVerdict:
    mine = [component for cell, component in expected.components.items() if cell.device == device]
    parts = [component.split(".") for component in mine]
    shared = [words[0] for words in zip(*parts, strict=False) if len(set(words)) == 1]
    count = len(mine)
    return MetricVerdict(
        outcome=Outcome.FAIL,
        reason=Reason.GONE,
        text=f"{device} is gone: {count} of {count} metrics have no value",
        benchmark=GATE[0],
        metric=GONE,
        component=".".join(shared),
        node=node,
        device=device,
        run=run,
        action="see whether the node's driver lists it; reseat or replace it, then measure again",
    )
