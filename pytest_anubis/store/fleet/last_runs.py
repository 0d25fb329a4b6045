"""Find for each node the run that decides its standing, and a newer run that has not ended.

The deciding run is not always the newest one. `anubis fleet` reads it from a history or collected journals;
`anubis health` asks a history where the store's own files do not suffice.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa

from pytest_anubis.codec.moments import day_of, moment
from pytest_anubis.core.history import COMPLETING_SECONDS, NodeRecord
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.standing_of import Standing, in_order, standing_of
from pytest_anubis.core.standing.standing_verdict import with_standing
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.store.fleet.unfiled import unfiled
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.judged_runs import standings_of
from pytest_anubis.store.history.contents.judgements import Judgement, read_judgement
from pytest_anubis.store.history.contents.run_clocks import AT_LEAST
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.fleet_history import run_counts
from pytest_anubis.store.history.node_rows import node_names
from pytest_anubis.store.node_standing import killed_here
from pytest_anubis.store.run_set import dated_run

_JUDGED = (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL)
_SOUND = frozenset({Outcome.PASS, Outcome.MARGINAL})
_RUNS_PER_QUERY = 500
_Rows = tuple[Any, ...]
_Run = TypeVar("_Run")


class _Place(NamedTuple):
    """What a verdict is about: the key of a measurement on one node."""

    benchmark: str
    metric: str
    device: str
    scope: str


_PLACE = [schema.verdicts.c[name] for name in _Place._fields]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingRun:
    """The run that decides a node's standing."""

    run: str
    started: float  # when it began, seconds since 1970
    ended: float | None  # when it ended; None if unknown
    verdict: NodeVerdict
    # The run's metric verdicts; a history omits a plain PASS. If the node is accepted, open warnings of its
    # other runs are added, from a history those since 7 days before this run.
    verdicts: tuple[MetricVerdict, ...] = ()
    passed: frozenset[str] = frozenset()  # benchmarks in which nothing failed or was unclear
    # Its clock was ahead by an unknown time, so other runs may have been later
    doubtful: bool = False
    # Device -> slot and serial number of its card in words
    cards: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()  # the devices that it measured

    @property
    def at(self) -> float:
        """When the verdict was reached; when the run began if that is unknown."""
        return self.started if self.ended is None else self.ended


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node with the run that decides its standing, and what is open about it."""

    node: NodeRecord  # the node, with its state in the history; ``in service`` if none is known
    # The run that decides its standing: its last one with a verdict, or an earlier one that rejected it and
    # still counts; None before the first verdict
    last: DecidingRun | None = None
    standing: Standing = field(default_factory=Standing)  # the consequence of all its runs
    open: str = ""  # id of a later run that has not ended; empty if there is none
    open_since: float = 0.0  # when that one began, seconds since 1970
    # Its imports and runs in the history's folder that the history lacks
    unfiled: tuple[Path, ...] = ()
    # How many imported runs of it there are next to its journals, which have no verdict
    unjudged: int = 0
    # It has a run, with or without a verdict; a node may be registered long before
    has_run: bool = True


def last_of_history(history: History, place: Path | str) -> tuple[NodeState, ...]:
    """Return the last state of every node in a history, sorted by name.

    If its place is a folder, that is searched for killed and unfiled runs, too.
    """
    counts = run_counts(history)
    known = {one.name: NodeState(node=one, has_run=one.name in counts) for one in history.nodes()}
    by_run: dict[int, NodeState] = {}
    with history.reading() as connection:
        names = node_names(connection)
        for node, standing in standings_of(connection).items():
            name = names.get(node, "")
            by = standing.by
            if name in known and by is not None:
                known[name] = by_run[by.number] = replace(known[name], standing=standing)
        for some in _batches(by_run):
            for number, run in _runs(connection, by_run, some).items():
                node_last = by_run[number]
                known[node_last.node.name] = replace(
                    node_last, last=_with_standing(run, node_last.standing)
                )
        for name, open_ones in _open_warnings(connection, known.values()).items():
            if (last := known[name].last) is not None:
                known[name] = replace(
                    known[name], last=replace(last, verdicts=(*last.verdicts, *open_ones))
                )
        for row in connection.execute(_latest()):
            last = known[row.name].last
            open_yet = row.ended is None and not row.decision  # an import has no end either
            if open_yet and (last is None or row.started >= last.started):
                known[row.name] = replace(known[row.name], open=row.run, open_since=row.started)
        waiting = unfiled(place, connection) if isinstance(place, Path) else {}
    hosts = {name.partition(".")[0]: name for name in known}
    for name, files in waiting.items():
        own = name if name in known else hosts.get(name.partition(".")[0], name)
        before = known.get(own, NodeState(node=NodeRecord(name=own)))
        known[own] = replace(before, unfiled=files)
    for killed in killed_here(place) if isinstance(place, Path) else ():
        one = known.get(killed.node)
        if one is not None and (one.last is None or killed.since >= one.last.started):
            known[killed.node] = replace(one, open=killed.running, open_since=killed.since)
    return tuple(sorted(known.values(), key=lambda one: one.node.name))


def _runs(
    connection: sa.Connection, nodes: Mapping[int, NodeState], numbers: Sequence[int]
) -> dict[int, DecidingRun]:
    """Return number -> run with its judgement and passed benchmarks; `nodes` are the runs' nodes."""
    runs, clocks, verdicts = schema.runs, schema.run_clocks, schema.verdicts
    passed: defaultdict[int, set[str]] = defaultdict(set)
    worst = sa.func.max(sa.case((verdicts.c.outcome.in_(sorted(_SOUND)), 0), else_=1))
    tests = (verdicts.c.run_id, verdicts.c.benchmark)
    good = sa.select(*tests).where(verdicts.c.run_id.in_(numbers)).group_by(*tests)
    for number, benchmark in connection.execute(good.having(worst == 0)):
        passed[number].add(benchmark)
    judged = _judgements(connection, numbers)
    found: dict[int, DecidingRun] = {}
    query = sa.select(runs.c.id, runs.c.run, runs.c.decision, runs.c.headline, clocks.c.known)
    query = query.add_columns(schema.began.label("started"), schema.ended.label("ended"))
    query = query.outerjoin(clocks, clocks.c.run_id == runs.c.id).where(runs.c.id.in_(numbers))
    for row in connection.execute(query):
        judgement = judged.get(row.id, Judgement())
        headline = NodeVerdict(
            node=nodes[row.id].node.name, decision=Decision(row.decision), headline=row.headline
        )
        found[row.id] = DecidingRun(
            run=row.run,
            started=row.started,
            ended=row.ended,
            verdict=judgement.verdict or headline,
            verdicts=judgement.verdicts,
            passed=frozenset(passed[row.id]),
            doubtful=row.known == AT_LEAST,
            cards=judgement.cards,
            devices=judgement.devices,
        )
    return found


def _judgements(connection: sa.Connection, numbers: Sequence[int]) -> dict[int, Judgement]:
    """Return number of a run -> its judgement, of those that can be read."""
    table = schema.judgements
    rows = connection.execute(sa.select(table).where(table.c.run_id.in_(numbers)))
    return {row.run_id: one for row in rows if (one := read_judgement(row.packed)) is not None}


def _open_warnings(
    connection: sa.Connection, nodes: Iterable[NodeState]
) -> dict[str, list[MetricVerdict]]:
    """Return accepted node -> warnings of other runs since 7 days before it that no later run has judged."""
    runs, verdicts, last = schema.runs, schema.verdicts, schema.runs.alias("last")
    accepted = {
        one.standing.by.number: one.node.name
        for one in nodes
        if one.last and one.standing.by and one.last.verdict.decision is Decision.ACCEPTED
    }
    by_last: dict[int, list[int]] = {}  # last run of a node -> its runs of these days, in order
    near = (last.c.node_id == runs.c.node_id) & (
        runs.c.started >= last.c.started - COMPLETING_SECONDS
    )
    query = sa.select(runs.c.id, last.c.id.label("last")).join(last, near)
    for some in _batches(accepted):
        rows = query.where(last.c.id.in_(some)).order_by(runs.c.started, runs.c.id)
        for row in connection.execute(rows):
            by_last.setdefault(row.last, []).append(row.id)
    earlier = [run for number, several in by_last.items() for run in several if run != number]
    marginal = sa.select(verdicts.c.run_id).where(verdicts.c.outcome == Outcome.MARGINAL.value)
    found = {
        run
        for some in _batches(earlier)
        for run in connection.execute(marginal.where(verdicts.c.run_id.in_(some))).scalars()
    }
    found_open = {}
    for number, several in by_last.items():
        if found.isdisjoint(several):
            continue
        judging = sa.select(*_PLACE, verdicts.c.run_id)
        judging = judging.where(verdicts.c.run_id.in_(several), verdicts.c.outcome.in_(_JUDGED))
        ordered = sorted(connection.execute(judging), key=lambda row: several.index(row.run_id))
        latest: dict[_Place, int] = {_Place(*place): run for *place, run in ordered}
        judged = _judgements(connection, several)
        pairs = ((run, one) for run in several if run in judged for one in judged[run].verdicts)
        found_open[accepted[number]] = _warnings_of_other_runs(latest, pairs, number)
    return found_open


def _batches(numbers: Iterable[int]) -> Iterator[list[int]]:
    every = list(numbers)
    size = _RUNS_PER_QUERY
    return (every[start : start + size] for start in range(0, len(every), size))


def _warnings_of_other_runs(
    latest: Mapping[_Place, _Run], found: Iterable[tuple[_Run, MetricVerdict]], last: _Run
) -> list[MetricVerdict]:
    """Return the warnings (`worth_a_look`) by the latest run that judged a metric, if it is not `last`."""
    open_yet = ((run, one) for run, one in found if run != last and one.worth_a_look)
    return [one for run, one in open_yet if latest.get(_place(one)) == run]


def _place(one: MetricVerdict) -> _Place:
    return _Place(one.benchmark, one.metric, one.device, one.scope)


def last_of_runs(runs: Iterable[RunRecord]) -> tuple[NodeState, ...]:
    """Return the last state of every node among collected journals, sorted by name."""
    by_node: dict[str, dict[str, RunRecord]] = {}
    for run in runs:
        by_node.setdefault(run.node, {})[run.run] = run
    return tuple(_of_node(node, by_node[node]) for node in sorted(by_node))


def _of_node(name: str, runs: Mapping[str, RunRecord]) -> NodeState:
    now = time.time()
    began = {one: moment(run.started) or 0.0 for one, run in runs.items()}
    ordered = in_order(dated_run(run, now) for run in runs.values())
    standing = standing_of(ordered, holds_on(day_of(now)))
    latest = runs[ordered[-1].run]
    by = standing.by.run if standing.by else ""
    unfinished = not latest.ended and latest.node_verdict is None
    last = _last_run(began[by], runs[by], standing) if by else None
    if last is not None and last.verdict.decision is Decision.ACCEPTED:
        pairs = [
            (one.run, verdict) for one in ordered for verdict in runs[one.run].effective_verdicts
        ]
        judged = {_place(one): run for run, one in pairs if one.outcome in _JUDGED}
        last = replace(last, verdicts=(*last.verdicts, *_warnings_of_other_runs(judged, pairs, by)))
    return NodeState(
        node=NodeRecord(name=name, hardware_class=latest.hardware_class, since=min(began.values())),
        last=last,
        standing=standing,
        open=latest.run if unfinished else "",
        open_since=began[latest.run] if unfinished else 0.0,
    )


def _last_run(began: float, run: RunRecord, standing: Standing) -> DecidingRun:
    verdict = run.node_verdict or NodeVerdict(
        node=run.node, decision=Decision.UNDECIDED, headline=run.broken_off
    )
    outcomes: dict[str, set[Outcome]] = {}
    for one in run.effective_verdicts:
        outcomes.setdefault(one.benchmark, set()).add(one.outcome)
    last = DecidingRun(
        run=run.run,
        started=began,
        ended=moment(run.ended),
        verdict=verdict,
        verdicts=tuple(run.effective_verdicts),
        passed=frozenset(name for name, found in outcomes.items() if found <= _SOUND),
        cards=run.cards,
        devices=tuple(run.devices),
    )
    return _with_standing(last, standing)


def _with_standing(last: DecidingRun, standing: Standing) -> DecidingRun:
    verdict, metrics = with_standing(last.verdict, last.verdicts, standing)
    return replace(last, verdict=verdict, verdicts=metrics)


def _latest() -> sa.Select[_Rows]:
    """Return the query for each node's latest run, with or without a verdict."""
    runs, nodes = schema.runs, schema.nodes
    last = sa.select(runs.c.node_id, sa.func.max(schema.began).label("started"))
    of_node = last.group_by(runs.c.node_id).subquery()
    same = (of_node.c.node_id == runs.c.node_id) & (of_node.c.started == schema.began)
    columns = (nodes.c.name, runs.c.run, runs.c.decision)
    times = (schema.began.label("started"), schema.ended.label("ended"))
    query = sa.select(*columns, *times).join(nodes, nodes.c.id == runs.c.node_id)
    query = query.join(of_node, same)
    return query.order_by(runs.c.id)
