"""Write the journals of runs that judged one thing, as a session does."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.codec.moments import iso_of
from pytest_anubis.core.events import Judged, NodeDecided, RunFinished, RunStarted
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason, Waiver
from pytest_anubis.core.waiving import WaiversRead
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.node_standing import keep_begun, keep_ended


def written(
    store: Path,
    run: str,
    node: str,
    began: float,
    decision: Decision,
    *,
    waivers: tuple[Waiver, ...] = (),
) -> None:
    """Write the journal of a run, and keep what it said of the node; with waivers the thing failed."""
    bad = decision is Decision.REJECTED or waivers
    found = MetricVerdict(
        outcome=Outcome.FAIL if bad else Outcome.PASS,
        reason=Reason.BEYOND if bad else Reason.WITHIN,
        text="",
        benchmark="t",
        metric="m",
        device="cpu",
    )
    with Journal.create(store, run) as journal:
        keep_begun(store, node, run, began=began)
        for event in (
            RunStarted(run=run, node=node, started=iso_of(began), purpose="acceptance"),
            WaiversRead(waivers=waivers),
            Judged(verdict=found),
            NodeDecided(verdict=NodeVerdict(node=node, decision=decision, headline="")),
            RunFinished(exit_status=decision.exit_code, ended=iso_of(began + 10)),
        ):
            journal.write(event)
    record = read_journal(store / "runs" / run)
    assert not keep_ended(store, record, ended=began + 10, reason="")
