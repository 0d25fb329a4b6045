"""Turn a fleet's history into survival rows, from which risk models learn and predict, and put them in words.

A row is one interval of service of a node: from when it entered service, or returned from an incident, until
the next incident or now. Its covariates are what was known at its start. Times are in hours.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.history import Incident, NodeRecord, RunSummary
from pytest_anubis.core.metric import value_text
from pytest_anubis.selector.selector_error import SelectorError

Floats = npt.NDArray[np.float64]

HOUR = 3600.0
_RECENT = 90 * 24.0  # hours
_MAX_KINDS = 6  # of incidents with a column of their own

_AGE = "age"
_LAST = "last was "
COUNTS = ("incidents", "incidents in 90 days")
"""Columns of a node's incidents, all and recent; reported together."""
_BEFORE = "hours before the last incident"
_DURING = "hours of the last incident"
_VALIDATED = "hours since validation"
_SIMILAR = "lowest similarity"
_TWO_DAYS = 48.0  # hours
_TIMES = {
    _AGE: "in service {} when it last came up",
    _BEFORE: "up {} before the last incident",
    _DURING: "last incident lasted {}",
    _VALIDATED: "validated {} before it last came up",
}
"""Covariates in hours -> how their values are reported."""
ABSENT = {
    _BEFORE: "no incident yet",
    _DURING: "no incident yet",
    _VALIDATED: "not validated before it last came up",
    _SIMILAR: "no similarity known",
}
"""Covariate -> what a missing value means, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRisk:
    """A node's probability of an incident within a horizon, at least 0 and below 1.

    Its 95 % interval is `low` to `high`; None if unknown.
    """

    node: str
    probability: float
    low: float | None = None
    high: float | None = None


class _Row(NamedTuple):
    """One interval of service; the fields are those of `SurvivalRows`."""

    node: str
    covariates: dict[str, float]
    duration: float
    event: bool
    began: float


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalRows:
    """Intervals of service, a row for each."""

    names: tuple[str, ...]  # the d covariates
    kinds: tuple[str, ...]  # kinds of incidents with a covariate, most frequent first
    nodes: tuple[str, ...]  # the n nodes
    x: Floats  # covariates at the start of the interval, shape (n, d); NaN is unknown
    duration: Floats  # hours of the interval, shape (n,); of the present one: hours up so far
    event: npt.NDArray[np.bool_]  # whether it ended with an incident, shape (n,)
    began: Floats  # when it began, hours since 1970, shape (n,)


def survival_rows(
    nodes: Iterable[NodeRecord],
    incidents: Iterable[Incident],
    *,
    now: float,
    runs: Mapping[str, Sequence[RunSummary]] | None = None,
    gone: Mapping[str, float] | None = None,
) -> SurvivalRows:
    """Return all intervals of all nodes, to learn from.

    Args:
        nodes: The fleet.
        incidents: Its incidents, in any order.
        now: The present, seconds since 1970.
        runs: Node -> its validation runs, in any order; adds the covariates of validation.
        gone: Node -> when it left service for good.

    Raises:
        SelectorError: An incident lies in the future, has a negative duration, or an unknown node.
    """
    records, by_node = _by_node(nodes, incidents, now)
    kinds = _frequent(by_node)
    rows: list[_Row] = []
    for record in records:
        end = min(now, (gone or {}).get(record.name, now))
        own = (runs or {}).get(record.name, ())
        for start, upto, before, event in _intervals(record, by_node[record.name], end):
            known = _covariates(record, start, before, kinds, own)
            rows.append(_Row(record.name, known, (upto - start) / HOUR, event, start / HOUR))
    return _rows(rows, kinds)


def present_rows(
    nodes: Iterable[NodeRecord],
    incidents: Iterable[Incident],
    *,
    now: float,
    kinds: Sequence[str],
    runs: Mapping[str, Sequence[RunSummary]] | None = None,
) -> SurvivalRows:
    """Return the present interval of every node that is not removed, to predict from.

    A node that is in an incident now has been up for 0 hours. Arguments and errors as for
    `survival_rows`; `kinds` are those of the rows that the model was fitted to.
    """
    records, by_node = _by_node(nodes, incidents, now)
    rows: list[_Row] = []
    for record in records:
        if record.state == "removed":
            continue
        before = by_node[record.name]
        start = min(now, max([record.since, *(_end(item) for item in before)]))
        known = _covariates(record, start, before, kinds, (runs or {}).get(record.name, ()))
        rows.append(_Row(record.name, known, (now - start) / HOUR, False, start / HOUR))
    return _rows(rows, tuple(kinds))


def _by_node(
    nodes: Iterable[NodeRecord], incidents: Iterable[Incident], now: float
) -> tuple[list[NodeRecord], dict[str, list[Incident]]]:
    records = sorted(nodes, key=lambda record: record.name)
    names = {record.name for record in records}
    found: dict[str, list[Incident]] = defaultdict(list)
    for incident in incidents:
        if incident.node not in names:
            raise SelectorError(
                f"incident of node {incident.node!r}, which the fleet does not have; add the node"
            )
        if incident.started > now:
            raise SelectorError(f"an incident of node {incident.node!r} lies in the future")
        if incident.duration is not None and incident.duration < 0:
            raise SelectorError(f"an incident of node {incident.node!r} has a negative duration")
        found[incident.node].append(incident)
    for items in found.values():
        items.sort(key=lambda incident: (incident.started, incident.number, incident.kind))
    return records, found


def _frequent(by_node: Mapping[str, Sequence[Incident]]) -> tuple[str, ...]:
    counts = Counter(item.kind for items in by_node.values() for item in items)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(kind for kind, _ in ordered[:_MAX_KINDS])


def _end(incident: Incident) -> float:
    return incident.started + (incident.duration or 0.0)


def _intervals(
    record: NodeRecord, incidents: Sequence[Incident], end: float
) -> Iterable[tuple[float, float, Sequence[Incident], bool]]:
    """Yield start, end, the incidents before, and whether it ended with an incident."""
    start = record.since
    for count, incident in enumerate(incidents):
        if incident.started > end:
            break
        # An incident during another one, or before the node entered service, ends no interval.
        # Nor does one at that very moment, since the uptime before it is unknown.
        if incident.started > record.since and incident.started >= start:
            yield start, incident.started, incidents[:count], True
        start = max(start, _end(incident))
    if start < end:
        yield start, end, incidents, False


def _covariates(
    record: NodeRecord,
    start: float,
    before: Sequence[Incident],
    kinds: Sequence[str],
    runs: Sequence[RunSummary],
) -> dict[str, float]:
    recent = [item for item in before if (start - item.started) / HOUR <= _RECENT]
    last = before[-1].kind if before else ""
    previous = math.nan
    if before:
        since = max([record.since, *(_end(item) for item in before[:-1])])
        previous = max(0.0, before[-1].started - since) / HOUR
    # A run without verdicts, as one of --setup-plan, has validated nothing.
    judged = [run for run in runs if run.similarities or run.decision != "UNDECIDED"]
    done = [run for run in judged if run.started <= start]
    latest = max(done, key=lambda run: (run.started, run.run), default=None)
    similar = min(latest.similarities.values(), default=math.nan) if latest else math.nan
    return {
        _AGE: max(0.0, start - record.since) / HOUR,
        COUNTS[0]: float(len(before)),
        COUNTS[1]: float(len(recent)),
        _BEFORE: previous,
        _DURING: math.nan if not before else (before[-1].duration or 0.0) / HOUR,
        **{f"{_LAST}{kind}": float(last == kind) for kind in kinds},
        _VALIDATED: math.nan if latest is None else (start - latest.started) / HOUR,
        _SIMILAR: similar,
    }


def _names(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the covariates in the order of the columns."""
    of_kinds = (f"{_LAST}{kind}" for kind in kinds)
    return (_AGE, *COUNTS, _BEFORE, _DURING, *of_kinds, _VALIDATED, _SIMILAR)


def counts_words(values: Sequence[float], usual: Sequence[float]) -> str:
    """Return both counts of incidents: ``incidents 12, 9 of them in 90 days (usual 5.5 and 4)``.

    The node's values and the fleet's medians are in the order of `COUNTS`.
    """
    ever, lately = map(value_text, values)
    normal, recent = map(value_text, usual)
    return f"incidents {ever}, {lately} of them in 90 days (usual {normal} and {recent})"


def hours_text(hours: float) -> str:
    """Return hours as text: ``12 h``, from two days on ``67.2 days``."""
    return f"{value_text(hours)} h" if hours < _TWO_DAYS else f"{hours / 24:.1f} days"


def value_words(name: str, value: float, usual: float) -> str:
    """Return a covariate's value in words, with its unit and the fleet's median: ``incidents 7 (usual 2)``.

    The name is one of `SurvivalRows.names`; NaN is a missing value.
    """
    if math.isnan(value):
        return ABSENT.get(name, f"no {name}")
    if name.startswith(_LAST):  # 1 or 0
        return f"last incident {'' if value else 'not '}{name.removeprefix(_LAST)}"
    if name in _TIMES:
        return f"{_TIMES[name].format(hours_text(value))} (usual {hours_text(usual)})"
    return f"{name} {value_text(value)} (usual {value_text(usual)})"


def _rows(rows: Sequence[_Row], kinds: tuple[str, ...]) -> SurvivalRows:
    names = _names(kinds)
    return SurvivalRows(
        names=names,
        kinds=kinds,
        nodes=tuple(row.node for row in rows),
        x=np.array(
            [[row.covariates[name] for name in names] for row in rows], dtype=np.float64
        ).reshape(-1, len(names)),
        duration=np.array([row.duration for row in rows], dtype=np.float64),
        event=np.array([row.event for row in rows], dtype=np.bool_),
        began=np.array([row.began for row in rows], dtype=np.float64),
    )
