"""What is known last of every node: its last verdict with the worst finding, and a run that never ended."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pytest_anubis.codec.moments import day_of, moment
from pytest_anubis.core.history import TOGETHER, NodeRecord
from pytest_anubis.core.metric import measured_text
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.standing_of import Standing, in_order, standing_of
from pytest_anubis.core.standing.standing_verdict import with_standing
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Triage,
)
from pytest_anubis.core.waivers.waiving import holds_on
from pytest_anubis.store.fleet.stored_runs import StoredRun, record_of
from pytest_anubis.store.fleet.unfiled import unfiled
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.judged_runs import outcome_of, standings_of
from pytest_anubis.store.history.contents.run_clocks import AT_LEAST
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.fleet_history import run_counts
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.node_standing import dated_run, killed_here

MAX_JOURNALS = 200
"""Rejected nodes whose journals are read for the very words of their run: some ten milliseconds each. Beyond,
the history's rows say the same without the limit."""

_BAD = (Outcome.FAIL.value, Outcome.MARGINAL.value, Outcome.INCONCLUSIVE.value)
_JUDGED = (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL)
_SOUND = frozenset({Outcome.PASS, Outcome.MARGINAL})
_AT_ONCE = 500  # runs that one question names
_Row = Any
_Rows = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The run with a verdict that a node stands by.

    Attributes:
        started: When it began, seconds since 1970.
        ended: When it ended; None if unknown.
        verdict: What was decided; of a history only decision and headline.
        verdicts: Those that prevent acceptance, with device and values; all of them if it is a journal.
        passed: Benchmarks of which nothing failed or was unclear.
        doubtful: Its clock was ahead, nobody knows by how much: others may have been later.
        cards: Device -> slot and serial number of its card, as far as a journal tells them.
    """

    run: str
    started: float
    ended: float | None
    verdict: NodeVerdict
    verdicts: tuple[MetricVerdict, ...] = ()
    passed: frozenset[str] = frozenset()
    doubtful: bool = False
    cards: Mapping[str, str] = field(default_factory=dict)

    @property
    def at(self) -> float:
        """When the verdict was reached, as far as it is known."""
        return self.started if self.ended is None else self.ended


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLast:
    """A node, and what is known last of it.

    Attributes:
        node: The node; its state is that of the history, ``in service`` where none is known.
        last: The run that it stands by: its last one with a verdict, or an earlier one that rejected it and
            still counts; None before the first.
        standing: What follows from all its runs.
        open: Id of a later run that has not ended; empty if there is none.
        open_since: When that one began, seconds since 1970.
        unfiled: Imports and runs of it that lie in the history's folder and are not in it.
        has_run: Whether anything was ever run on it, also what came to no verdict; a node may be registered
            long before.
    """

    node: NodeRecord
    last: LastRun | None = None
    standing: Standing = field(default_factory=Standing)
    open: str = ""
    open_since: float = 0.0
    unfiled: tuple[Path, ...] = ()
    has_run: bool = True


def last_of_history(history: History, place: Path | str) -> tuple[NodeLast, ...]:
    """Return what a history knows last of every node, sorted by name.

    Args:
        history: The history.
        place: Its folder or URL; journals that lie in the folder are read there, and what was killed.

    Raises:
        HistoryError: The database refuses.
    """
    counts = run_counts(history)
    known = {one.name: NodeLast(node=one, has_run=one.name in counts) for one in history.nodes()}
    by_run: dict[int, NodeLast] = {}
    with history.reading() as connection:
        nodes = schema.nodes
        names = {
            row.id: row.name for row in connection.execute(sa.select(nodes.c.id, nodes.c.name))
        }
        for node, standing in standings_of(connection).items():
            name, by = names.get(node, ""), standing.by
            if name in known and by is not None:
                known[name] = by_run[by.number] = replace(known[name], standing=standing)
        for some in _at_once(by_run):
            for number, run in _runs(connection, by_run, some).items():
                of = by_run[number]
                known[of.node.name] = replace(of, last=_with_standing(run, of.standing))
        for name, looks in _looks(connection, known.values()).items():
            if (last := known[name].last) is not None:
                known[name] = replace(
                    known[name], last=replace(last, verdicts=(*last.verdicts, *looks))
                )
        for row in connection.execute(_latest()):
            last = known[row.name].last
            open_yet = row.ended is None and not row.decision  # imports do not say when they ended
            if open_yet and (last is None or row.started >= last.started):
                known[row.name] = replace(known[row.name], open=row.run, open_since=row.started)
        lying = unfiled(place, connection) if isinstance(place, Path) else {}
    hosts = {name.partition(".")[0]: name for name in known}
    for name, files in lying.items():
        own = name if name in known else hosts.get(name.partition(".")[0], name)
        before = known.get(own, NodeLast(node=NodeRecord(name=own)))
        known[own] = replace(before, unfiled=files)
    for killed in killed_here(place) if isinstance(place, Path) else ():
        one = known.get(killed.node)
        if one is not None and (one.last is None or killed.since >= one.last.started):
            known[killed.node] = replace(one, open=killed.running, open_since=killed.since)
    return tuple(_in_full(history, place, sorted(known.values(), key=lambda one: one.node.name)))


def _runs(
    connection: sa.Connection, nodes: Mapping[int, NodeLast], numbers: Sequence[int]
) -> dict[int, LastRun]:
    """Return runs by their numbers, with what was bad in them and what was good; `nodes` are their nodes."""
    found: dict[int, LastRun] = {}
    failures: defaultdict[int, list[MetricVerdict]] = defaultdict(list)
    passed: defaultdict[int, set[str]] = defaultdict(set)
    runs, clocks, verdicts = schema.runs, schema.run_clocks, schema.verdicts
    urgent, known = schema.urgencies, set(Triage)
    query = sa.select(runs.c.id, runs.c.run, runs.c.decision, runs.c.headline, clocks.c.known)
    query = query.add_columns(schema.began.label("started"), schema.ended.label("ended"))
    query = query.add_columns(urgent.c.triage, urgent.c.lowest)
    query = query.outerjoin(clocks, clocks.c.run_id == runs.c.id)
    query = query.outerjoin(urgent, urgent.c.run_id == runs.c.id)
    for row in connection.execute(query.where(runs.c.id.in_(numbers))):
        found[row.id] = LastRun(
            run=row.run,
            started=row.started,
            ended=row.ended,
            verdict=NodeVerdict(
                node=nodes[row.id].node.name,
                decision=Decision(row.decision),
                headline=row.headline,
                triage=Triage(row.triage) if row.triage in known else Triage.NONE,
                lowest=row.lowest,
            ),
            doubtful=row.known == AT_LEAST,
        )
    marks = schema.findings.c
    names = (marks.run_id, marks.benchmark, marks.metric, marks.device)
    again = sa.select(*names, marks.why).where(marks.reason == schema.RETEST)
    retests = {
        (*place,): why for *place, why in connection.execute(again.where(marks.run_id.in_(numbers)))
    }
    bad = sa.select(verdicts).where(verdicts.c.run_id.in_(numbers), verdicts.c.outcome.in_(_BAD))
    for row in connection.execute(bad.order_by(verdicts.c.id)):
        last = found.get(row.run_id)
        if last is not None:
            why = retests.get((row.run_id, row.benchmark, row.metric, row.device), "")
            one = _verdict(row)
            one = replace(one, retest=why) if one.outcome is Outcome.FAIL else one
            failures[row.run_id].append(one)
            if one.reason is Reason.GONE and last.verdict.decision is not Decision.ACCEPTED:
                gone = replace(last.verdict, gone=(*last.verdict.gone, one.device))
                found[row.run_id] = replace(last, verdict=gone)
    worst = sa.func.max(sa.case((verdicts.c.outcome.in_(sorted(_SOUND)), 0), else_=1))
    tests = (verdicts.c.run_id, verdicts.c.benchmark)
    good = sa.select(*tests).where(verdicts.c.run_id.in_(numbers)).group_by(*tests)
    for number, benchmark in connection.execute(good.having(worst == 0)):
        passed[number].add(benchmark)
    return {
        number: replace(last, verdicts=tuple(failures[number]), passed=frozenset(passed[number]))
        for number, last in found.items()
    }


def _looks(connection: sa.Connection, nodes: Iterable[NodeLast]) -> dict[str, list[MetricVerdict]]:
    """Return accepted node -> what is MARGINAL by a run before its last one, and was not measured since."""
    runs, verdicts, last = schema.runs, schema.verdicts, schema.runs.alias("last")
    accepted = {
        one.standing.by.number: one.node.name
        for one in nodes
        if one.last and one.standing.by and one.last.verdict.decision is Decision.ACCEPTED
    }
    by_last: dict[int, list[int]] = {}  # the last run of a node -> its runs of these days, in order
    near = (last.c.node_id == runs.c.node_id) & (runs.c.started >= last.c.started - TOGETHER)
    query = sa.select(runs.c.id, last.c.id.label("last")).join(last, near)
    for some in _at_once(accepted):
        rows = query.where(last.c.id.in_(some)).order_by(runs.c.started, runs.c.id)
        for row in connection.execute(rows):
            by_last.setdefault(row.last, []).append(row.id)
    earlier = [run for number, several in by_last.items() for run in several if run != number]
    marginal = sa.select(verdicts.c.run_id).where(verdicts.c.outcome == Outcome.MARGINAL.value)
    found = {
        run
        for some in _at_once(earlier)
        for run in connection.execute(marginal.where(verdicts.c.run_id.in_(some))).scalars()
    }
    looks = {}
    for number, several in by_last.items():
        if found.isdisjoint(several):
            continue
        rows = sa.select(verdicts).where(verdicts.c.run_id.in_(several))
        pairs = [(row.run_id, _verdict(row)) for row in connection.execute(rows)]
        pairs.sort(key=lambda pair: several.index(pair[0]))
        looks[accepted[number]] = _unanswered_looks(pairs, number)
    return looks


def _at_once(numbers: Iterable[int]) -> Iterator[list[int]]:
    every = list(numbers)
    return (every[start : start + _AT_ONCE] for start in range(0, len(every), _AT_ONCE))


def _unanswered_looks(
    judged: Iterable[tuple[object, MetricVerdict]], last: object
) -> list[MetricVerdict]:
    """Return what is worth a look by the latest run that judged it, where that is another than `last`.

    Args:
        judged: Run and verdict, in the order of the runs.
        last: The run whose own verdicts are known.
    """
    latest = {}
    for run, one in judged:
        if one.outcome in _JUDGED:
            latest[one.benchmark, one.metric, one.device, one.scope] = run, one
    return [one for run, one in latest.values() if run != last and one.worth_a_look]


def last_of_runs(runs: Iterable[RunRecord]) -> tuple[NodeLast, ...]:
    """Return what journals that were collected say last of every node, sorted by name."""
    by_node: dict[str, dict[str, RunRecord]] = {}
    for run in runs:
        by_node.setdefault(run.node, {})[run.run] = run
    return tuple(_of_node(node, by_node[node]) for node in sorted(by_node))


def _of_node(name: str, runs: Mapping[str, RunRecord]) -> NodeLast:
    now = time.time()
    began = {one: moment(run.started) or 0.0 for one, run in runs.items()}
    ordered = in_order(dated_run(run, now) for run in runs.values())
    standing, latest = standing_of(ordered, holds_on(day_of(now))), runs[ordered[-1].run]
    by = standing.by.run if standing.by else ""
    unfinished = not latest.ended and latest.node_verdict is None
    last = _last_run(began[by], runs[by], standing) if by else None
    if last is not None and last.verdict.decision is Decision.ACCEPTED:
        pairs = (
            (one.run, verdict) for one in ordered for verdict in runs[one.run].effective_verdicts
        )
        last = replace(last, verdicts=(*last.verdicts, *_unanswered_looks(pairs, by)))
    return NodeLast(
        node=NodeRecord(name=name, hardware_class=latest.hardware_class, since=min(began.values())),
        last=last,
        standing=standing,
        open=latest.run if unfinished else "",
        open_since=began[latest.run] if unfinished else 0.0,
    )


def _last_run(began: float, run: RunRecord, standing: Standing) -> LastRun:
    verdict = run.node_verdict or NodeVerdict(
        node=run.node, decision=Decision.UNDECIDED, headline=run.broken_off
    )
    outcomes: dict[str, set[Outcome]] = {}
    for one in run.effective_verdicts:
        outcomes.setdefault(one.benchmark, set()).add(one.outcome)
    last = LastRun(
        run=run.run,
        started=began,
        ended=moment(run.ended),
        verdict=verdict,
        verdicts=tuple(run.effective_verdicts),
        passed=frozenset(name for name, found in outcomes.items() if found <= _SOUND),
        cards=run.cards,
    )
    return _with_standing(last, standing)


def _with_standing(last: LastRun, standing: Standing) -> LastRun:
    verdict, metrics = with_standing(last.verdict, last.verdicts, standing)
    return replace(last, verdict=verdict, verdicts=metrics)


def _in_full(history: History, place: Path | str, found: Sequence[NodeLast]) -> Iterator[NodeLast]:
    """Give the nodes, the rejected ones with all that their journals say, as far as these can be read."""
    room = MAX_JOURNALS
    for one in found:
        by = one.standing.by
        if one.last is None or by is None or not by.rejected or not room:
            yield one
            continue
        room -= 1
        stored = StoredRun(
            number=by.number,
            run=one.last.run,
            node=one.node.name,
            started=one.last.started,
        )
        try:
            record = record_of(history, place, stored)
        except (HistoryError, JournalError):
            record = None  # the rows have to do
        if record is None or record.node_verdict is None:
            yield one
        else:
            full = replace(
                one.last,
                verdict=record.node_verdict,
                verdicts=record.effective_verdicts,
                cards=record.cards,
            )
            yield replace(one, last=_with_standing(full, one.standing))


def _latest() -> sa.Select[_Rows]:
    """Ask for each node's latest run, with a verdict or without."""
    runs, nodes = schema.runs, schema.nodes
    last = sa.select(runs.c.node_id, sa.func.max(schema.began).label("started"))
    of_node = last.group_by(runs.c.node_id).subquery()
    same = (of_node.c.node_id == runs.c.node_id) & (of_node.c.started == schema.began)
    columns = (nodes.c.name, runs.c.run, runs.c.decision)
    times = (schema.began.label("started"), schema.ended.label("ended"))
    query = sa.select(*columns, *times).join(nodes, nodes.c.id == runs.c.node_id)
    query = query.join(of_node, same)
    return query.order_by(runs.c.id)


def _verdict(row: _Row) -> MetricVerdict:
    outcome, reason = outcome_of(row.outcome, row.reason)
    measured = row.value is not None
    return MetricVerdict(
        outcome=outcome,
        reason=reason,
        text=measured_text(row.value, row.expected, row.unit) if measured else reason.value,
        benchmark=row.benchmark,
        metric=row.metric,
        unit=row.unit,
        component=row.component,
        device=row.device,
        scope=row.scope,
        value=row.value,
        expected=row.expected,
        better="equal" if row.expected == 0 else "",  # only of what is counted 0 is right
        similarity=row.similarity,
        threshold=row.threshold,
    )
