"""Derive the standing of every node of a history, as of today, from the rows of its runs.

A standing, what follows from all runs of a node, is in no table: later runs, states and waivers change it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from pytest_anubis.codec.moments import day_of, moment
from pytest_anubis.core.standing.recorded_run import judged_run, model_of, speaking
from pytest_anubis.core.standing.standing_of import JudgedRun, Said, Standing, standing_of
from pytest_anubis.core.verdict import Decision, Outcome, Reason, Reference, Waiver
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.run_clocks import AT_LEAST, UNDATED
from pytest_anubis.store.history.tables import AGAIN, CAMPAIGN, KILLED, MARKS, NOISY, REPLAYED

_DECISIONS = [one.value for one in Decision]
_REFERENCES = [one.value for one in Reference]
_REJECTING = (Outcome.FAIL.value, Outcome.MARGINAL.value)
_WAIVED = Reason.WAIVED.value


def standings_of(connection: sa.Connection) -> dict[int, Standing]:
    """Return number of a node -> its standing today; `JudgedRun.number` is the run's.

    Only nodes on which something failed, waived or not, have all their verdicts read. A node with an
    undecided cycle of a soak has its runs read without verdicts, any other its latest run with a verdict.
    """
    holds = holds_on(day_of(time.time()))
    findings, states = schema.findings, schema.states
    marks: dict[str, dict[int, str]] = {reason: {} for reason in MARKS}  # run -> why, by reason
    marking = sa.select(findings.c.reason, findings.c.run_id, findings.c.why)
    for reason, run, why in connection.execute(marking.where(findings.c.reason.in_(MARKS))):
        marks[reason][run] = why
    found: defaultdict[int, list[JudgedRun]] = defaultdict(list)
    for query in _runs_of_sound_nodes():
        for row in connection.execute(query):
            campaign = marks[CAMPAIGN].get(row.id, "")
            found[row.node_id].append(_judged(row, (), (), answered=False, campaign=campaign))
    for node, one in _runs_of_failing_nodes(connection, marks):
        found[node].append(one)
    changed: dict[int, float | None] = {}
    columns = (states.c.node_id, states.c.state, states.c.at)
    for node, state, at in connection.execute(
        sa.select(*columns).order_by(states.c.at, states.c.id)
    ):
        changed[node] = at if state == "in service" else None
    return {
        node: standing_of(several, holds, in_service=changed.get(node))
        for node, several in found.items()
    }


def _marked(reason: str) -> sa.Select[Any]:
    """Select the runs with a finding of this reason."""
    return sa.select(schema.findings.c.run_id).where(schema.findings.c.reason == reason)


def _judged_runs() -> sa.Select[Any]:
    """Select the runs with a verdict; a run with a recorded inventory accepts nothing."""
    runs = schema.runs
    columns = (runs.c.run, runs.c.decision, runs.c.profile, runs.c.hardware_class)
    query = sa.select(runs.c.id, runs.c.node_id, *columns)
    query = query.add_columns(schema.began.label("started"), schema.ended.label("ended"))
    counts = (runs.c.decision != Decision.ACCEPTED.value) | runs.c.id.not_in(_marked(REPLAYED))
    return query.where(runs.c.decision.in_(_DECISIONS), counts)


def _failing_nodes() -> sa.Select[Any]:
    """Select the nodes on which something failed, waived or not."""
    runs, verdicts = schema.runs, schema.verdicts
    broken_off = sa.select(verdicts.c.run_id).join(runs, runs.c.id == verdicts.c.run_id)
    broken_off = broken_off.where(runs.c.decision == Decision.UNDECIDED.value)
    broken_off = broken_off.where(verdicts.c.outcome == Outcome.FAIL.value)
    failed = runs.c.id.in_(_marked(_WAIVED).union(broken_off))
    return sa.select(runs.c.node_id).where((runs.c.decision == Decision.REJECTED.value) | failed)


def _runs_of_sound_nodes() -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Select the latest run of nodes without a failure, and all runs of those with an undecided soak."""
    runs = schema.runs
    judged = _judged_runs()
    sound = runs.c.node_id.not_in(_failing_nodes())
    last = judged.with_only_columns(runs.c.node_id, sa.func.max(schema.began).label("started"))
    newest = last.where(sound).group_by(runs.c.node_id).subquery()
    same = (newest.c.node_id == runs.c.node_id) & (newest.c.started == schema.began)
    undecided = runs.c.decision == Decision.UNDECIDED.value
    cycles = sa.select(runs.c.node_id).where(undecided, runs.c.id.in_(_marked(CAMPAIGN)))
    soaked = runs.c.node_id.in_(cycles)
    return judged.join(newest, same).where(~soaked), judged.where(sound, soaked)


def _runs_of_failing_nodes(
    connection: sa.Connection, marks: Mapping[str, Mapping[int, str]]
) -> Iterator[tuple[int, JudgedRun]]:
    """Yield number of a node and run, with all verdicts, of the nodes on which something failed."""
    runs, table, orders = schema.runs, schema.benchmarks, schema.run_orders
    failing = runs.c.node_id.in_(_failing_nodes())
    outcomes = _outcomes(connection, _failing_nodes())
    benchmarks: dict[int, set[str]] = {}
    query = sa.select(table.c.run_id, table.c.benchmark).join(runs, runs.c.id == table.c.run_id)
    for run, benchmark in connection.execute(query.where(failing)):
        benchmarks.setdefault(run, set()).add(benchmark)
    query = sa.select(orders.c.run_id, orders.c.after).join(runs, runs.c.id == orders.c.run_id)
    after = {row.run_id: row.after for row in connection.execute(query.where(failing))}
    clocks = {row.run_id: row.known for row in connection.execute(sa.select(schema.run_clocks))}
    closed = sa.select(schema.defects.c.run_id).where(schema.defects.c.state != "open")
    answered = set(connection.execute(closed).scalars())
    for row in connection.execute(_judged_runs().where(failing)):
        clears = row.id not in marks[REPLAYED] and row.ended is not None  # else it was killed
        lasted = marks[KILLED].get(row.id)
        one = _judged(
            row,
            speaking(outcomes.get(row.id, ()), clears=clears),
            benchmarks.get(row.id, ()),
            answered=row.id in answered,
            after=after.get(row.id, ""),
            undated=clocks.get(row.id) == UNDATED,
            campaign=marks[CAMPAIGN].get(row.id, ""),
            noisy=row.id in marks[NOISY],
            retest=row.id in marks[AGAIN],
            ended=row.ended if lasted is None else row.started + (moment(lasted) or 0.0),
        )
        if clocks.get(row.id) == AT_LEAST:  # its time is unknown, so it clears nothing
            one = replace(one, passed=())
        yield row.node_id, one


def _outcomes(connection: sa.Connection, rejected: sa.Select[Any]) -> dict[int, list[Said]]:
    """Return run -> its verdicts on the benchmarks that ever failed on its node, for nodes in `rejected`."""
    runs, verdicts, findings = schema.runs, schema.verdicts, schema.findings
    open_yet = runs.c.decision.in_((Decision.REJECTED.value, Decision.UNDECIDED.value))
    failed = open_yet & verdicts.c.outcome.in_(_REJECTING)
    bad = (
        sa.select(runs.c.node_id, verdicts.c.benchmark)
        .join(verdicts, verdicts.c.run_id == runs.c.id)
        .where(failed | (verdicts.c.reason == _WAIVED))
        .distinct()
        .subquery()
    )
    names = ("run_id", "benchmark", "metric", "device", "outcome", "reason", "reference")
    groups: dict[int, set[tuple[str, str, str]]] = {}
    found: dict[int, list[Said]] = {}
    for table, more in ((findings, ("units", "owner", "why", "expires")), (verdicts, ())):
        query = (
            sa.select(*(table.c[name] for name in (*names, *more)))
            .join(runs, runs.c.id == table.c.run_id)
            .join(bad, (bad.c.node_id == runs.c.node_id) & (bad.c.benchmark == table.c.benchmark))
            .where(runs.c.node_id.in_(rejected), table.c.outcome != "")  # else it marks the run
        )
        for row in connection.execute(query):
            place = (row.benchmark, row.metric, row.device)
            if more:
                groups.setdefault(row.run_id, set()).add(place)
                waiver = Waiver(owner=row.owner, reason=row.why, expires=row.expires)
            elif place in groups.get(row.run_id, ()):
                continue  # the findings have this verdict with its group
            # An unknown reference of a later version counts fully against the node, and little in its favour.
            unknown = Reference.NONE if row.outcome in _REJECTING else Reference.SELF
            known = row.reference in _REFERENCES
            said = (
                (*place, row.units if more else ""),
                *outcome_of(row.outcome, row.reason),
                Reference(row.reference) if known else unknown,
                waiver if more else None,
            )
            found.setdefault(row.run_id, []).append(said)
    return found


def outcome_of(outcome: str, reason: str) -> tuple[Outcome, Reason]:
    """Return a row's outcome and reason; unknown ones of a later version are inconclusive, not a pass."""
    try:
        return Outcome(outcome), Reason(reason)
    except ValueError:
        return Outcome.INCONCLUSIVE, Reason.NOT_REPORTED


def _judged(row: Any, outcomes: Any, benchmarks: Any, **more: Any) -> JudgedRun:
    known = {
        "run": row.run,
        "began": row.started,
        "ended": row.ended,
        "decision": row.decision,
        "benchmarks": benchmarks,
        "number": row.id,
        "profile": row.profile,
        "model": model_of(row.hardware_class),
    }
    return judged_run(outcomes, **(known | more))
