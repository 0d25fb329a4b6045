"""Write the journals of runs, as a session does, and let several be filed at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_anubis.codec.moments import iso_of
from pytest_anubis.core.events import Event, Judged, NodeDecided, RunFinished, RunStarted
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason, Waiver
from pytest_anubis.core.waiving import WaiversRead
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.node_standing import keep_begun, keep_ended


def write_events(store: Path, run: str, *events: Event) -> Path:
    """Write the journal of a run and return its file."""
    with Journal.create(store, run) as journal:
        for event in events:
            journal.write(event)
    return journal.path


def verdict(outcome: Outcome = Outcome.PASS, **more: Any) -> MetricVerdict:
    """Return the verdict on one metric; what did not pass is beyond its limit."""
    reason = Reason.WITHIN if outcome is Outcome.PASS else Reason.BEYOND
    given: dict[str, Any] = {"benchmark": "t", "metric": "m", "device": "cpu", "text": ""}
    return MetricVerdict(outcome=outcome, **{"reason": reason, **given, **more})


def decided(node: str, decision: Decision, headline: str = "") -> NodeDecided:
    """Return the event that decides of a node."""
    return NodeDecided(verdict=NodeVerdict(node=node, decision=decision, headline=headline))


def at_once(count: int, work: Callable[[int], object]) -> None:
    """Call `work` with each number below `count`, in threads that begin at the same moment."""
    start = threading.Barrier(count)

    def begin(number: int) -> None:
        start.wait()
        work(number)

    threads = [threading.Thread(target=begin, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


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
    with Journal.create(store, run) as journal:
        keep_begun(store, node, run, began=began)
        for event in (
            RunStarted(run=run, node=node, started=iso_of(began), purpose="acceptance"),
            WaiversRead(waivers=waivers),
            Judged(verdict=verdict(Outcome.FAIL if bad else Outcome.PASS)),
            decided(node, decision),
            RunFinished(exit_status=decision.exit_code, ended=iso_of(began + 10)),
        ):
            journal.write(event)
    assert not keep_ended(store, read_journal(journal.path), ended=began + 10, reason="")
