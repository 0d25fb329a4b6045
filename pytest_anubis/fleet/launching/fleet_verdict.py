"""The verdict on a fleet: what each node's journals say of it, and which nodes sent none.

`anubis fleet verdict` and `fleet run` print it. Unlike `anubis judge`, it judges no value anew.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_anubis.codec.moments import day_of, moment
from pytest_anubis.core.asking.next_step import STEP
from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.history import CLOCK_TOLERANCE
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import said_of_node
from pytest_anubis.core.standing.standing_of import Holds, in_order, standing_of
from pytest_anubis.core.standing.standing_verdict import with_standing
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.store.collected_runs import RunSet
from pytest_anubis.store.namesakes import kept_names
from pytest_anubis.store.run_set import dated_run


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetVerdict:
    """The verdicts on a fleet's nodes, and what could not be read."""

    rows: tuple[NodeRow, ...]  # one for each node, the worst first
    notes: tuple[str, ...]  # one line each: refused files, machines of one name
    damaged: int  # damaged files of unknown nodes

    @property
    def exit_code(self) -> int:
        """1 if a node is rejected; 20 if one is undecided, a file is damaged or there is no node; else 0."""
        decisions = {row.verdict.decision for row in self.rows}
        if Decision.REJECTED in decisions:
            return Decision.REJECTED.exit_code
        fine = decisions == {Decision.ACCEPTED} and not self.damaged
        return (Decision.ACCEPTED if fine else Decision.UNDECIDED).exit_code


def fleet_verdict(
    runs: RunSet,
    expected: Sequence[str] = (),
    why: Mapping[str, str] | None = None,
    *,
    now: float | None = None,
    answered: Collection[tuple[str, str]] = (),
) -> FleetVerdict:
    """Return the verdict on each node from all its runs.

    Args:
        runs: What was collected.
        expected: Nodes that must be there; empty: all that sent a journal.
        why: Node -> why it sent none, as far as it is known.
        now: Seconds since 1970; default: this clock's.
        answered: (run, node) of the runs whose defect was closed.
    """
    present = time.time() if now is None else now
    by_node: dict[str, list[RunRecord]] = {}
    for run in runs.journals:
        by_node.setdefault(run.node, []).append(run)
    holds = holds_on(day_of(present))
    latest = {node: _standing_run(several, holds, answered) for node, several in by_node.items()}
    why = why or {}
    imported = runs.unjudged
    same = kept_names({*expected, *latest, *imported})
    there = {same.get(node, node) for node in (*latest, *imported)}
    rows = [_row(run, present, imported[node]) for node, run in latest.items()]
    rows += [
        NodeRow(verdict=_unjudged(node, imported[node])) for node in imported.keys() - latest.keys()
    ]
    rows += [
        NodeRow(verdict=_undecided(node, why.get(node) or "no journal of it is here"))
        for node in expected
        if same.get(node, node) not in there
    ]
    rows.sort(key=lambda row: row.verdict.severity)
    refused = [one.line for one in runs.refused]
    damaged = sum(one.damaged for one in runs.refused)
    return FleetVerdict(rows=tuple(rows), notes=(*runs.warnings, *refused), damaged=damaged)


def _row(run: RunRecord, now: float, imported: int) -> NodeRow:
    verdict = run.node_verdict
    if verdict is None:
        measured = run.settings.get("mode") == "measure" and not run.broken_off
        why = "was only measured, not judged" if measured else run.broken_off or "has no verdict"
        verdict = _undecided(run.node, f"run {run.run} {why}")
    elif not said_of_node(run):
        why = (
            f"run {run.run} used a recorded inventory, not known to be of the machine that measured"
        )
        verdict = _undecided(run.node, why)
    elif (
        verdict.decision is Decision.ACCEPTED
        and (early := (moment(run.started) or 0.0) - now) > CLOCK_TOLERANCE
    ):
        # Its real time is unknown, so another run may be later; a rejection counts whenever it was.
        why = f"accepted by run {run.run}, {early / 3600:.1f} h in the future: the clocks differ"
        verdict = _undecided(run.node, why)
    if imported and verdict.decision is not Decision.REJECTED:
        verdict = _unjudged(run.node, imported)
    return NodeRow(
        verdict=verdict,
        verdicts=run.effective_verdicts,
        cards=run.cards,
        hardware_class=run.hardware_class,
        devices=frozenset(run.devices),
    )


def _standing_run(
    runs: Sequence[RunRecord], holds: Holds, answered: Collection[tuple[str, str]]
) -> RunRecord:
    """Return the run that rejects a node, or its latest one, with the decision that applies today."""
    runs = [run for run in runs if said_of_node(run) or not run.replayed] or runs
    ordered = in_order(
        replace(dated_run(run, time.time()), answered=(run.run, run.node) in answered)
        for run in runs
    )
    standing = standing_of(ordered, holds)
    settled = standing.by and (standing.failures or ordered[-1].decision)
    by = standing.by if standing.by and settled else ordered[-1]
    found = next(run for run in runs if run.run == by.run)
    if not said_of_node(found):
        return found
    if standing.answered:
        why = f"run {found.run} rejected it, and its defect was closed since"
        return replace(found, node_verdict=_undecided(found.node, why))
    why = f"run {found.run} {found.broken_off or 'has no verdict'}"
    verdict = found.node_verdict or _undecided(found.node, why)
    verdict, verdicts = with_standing(verdict, found.effective_verdicts, standing)
    return replace(found, node_verdict=verdict, verdicts=verdicts)


def _unjudged(node: str, imported: int) -> NodeVerdict:
    why = f"{count_text(imported, 'imported run')} of it here without a verdict"
    return _undecided(node, why, "'anubis judge' judges them")


def _undecided(node: str, why: str, act: str = "measure it again") -> NodeVerdict:
    return NodeVerdict(
        node=node,
        decision=Decision.UNDECIDED,
        headline=f"node {node} undecided: {why}{STEP}{act}",
        blocking=(Blocker(cause=why, act=act),),
    )
