"""What a fleet's runs said: each node's last decision out of its journal, and who sent none."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pytest_anubis.core.history import CLOCKS_DIFFER
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.report.text.node_text import NodeRow
from pytest_anubis.store.collected_runs import RunSet


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetVerdict:
    """One row a node, and what could not be read.

    Attributes:
        rows: The nodes, the worst first.
        notes: One line each: refused files, machines of one name.
        damaged: Files of which nobody knows whose they are.
    """

    rows: tuple[NodeRow, ...]
    notes: tuple[str, ...]
    damaged: int

    @property
    def exit_code(self) -> int:
        """1 a node is rejected; 20 one is neither, or a file damaged, or there is none; else 0."""
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
) -> FleetVerdict:
    """Return the fleet's verdict: the latest run of each node counts.

    Args:
        runs: What was collected.
        expected: Nodes that must be there; empty: whoever sent a journal.
        why: Node -> why it sent none, as far as it is known.
        now: Seconds since 1970; default: this clock's.
    """
    present = time.time() if now is None else now
    latest: dict[str, RunRecord] = {}
    for run in runs.journals:
        known = latest.get(run.node)
        if known is None or (run.started, run.run) > (known.started, known.run):
            latest[run.node] = run
    why = why or {}
    rows = [_row(run, present) for run in latest.values()]
    rows += [
        NodeRow(verdict=_undecided(node, why.get(node) or "no journal of it is here"))
        for node in expected
        if node not in latest
    ]
    rows.sort(key=lambda row: row.verdict.severity)
    refused = [one.line for one in runs.refused]
    damaged = sum(one.damaged for one in runs.refused)
    return FleetVerdict(rows=tuple(rows), notes=(*runs.warnings, *refused), damaged=damaged)


def _row(run: RunRecord, now: float) -> NodeRow:
    verdict = run.node_verdict
    if verdict is None:
        measured = run.settings.get("mode") == "measure" and not run.broken_off
        why = "was only measured, not judged" if measured else run.broken_off or "has no verdict"
        verdict = _undecided(run.node, f"run {run.run} {why}")
    elif verdict.decision is Decision.ACCEPTED and (early := _begun(run) - now) > CLOCKS_DIFFER:
        # Another run may have been later; a rejection stands whenever it was.
        why = f"accepted by run {run.run}, {early / 3600:.1f} h in the future: the clocks differ"
        verdict = _undecided(run.node, why)
    return NodeRow(
        verdict=verdict,
        told=run.told,
        cards=run.cards,
        hardware_class=run.hardware_class,
        devices=frozenset(run.devices),
    )


def _begun(run: RunRecord) -> float:
    try:
        began = datetime.fromisoformat(run.started)
        return (began if began.tzinfo else began.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        return 0.0  # nobody knows


def _undecided(node: str, why: str) -> NodeVerdict:
    return NodeVerdict(
        node=node,
        decision=Decision.UNDECIDED,
        headline=f"node {node} undecided: {why}",
        blocking=(why,),
    )
