"""Filing a finished run in the history: summary, benchmarks, verdicts, durations, and its defect."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History, HistoryError, moment_of, node_number
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import RUNS_FOLDER
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, read_journal


def file_run(store: Path | str, journal: Path | str) -> str:
    """Read a journal and record its run in the history.

    Args:
        store: The store's folder or a database URL.
        journal: The journal or its run's folder.

    Returns:
        What went wrong in one line, empty when all is well: the journal is the truth, and a history
        that cannot be written must not cost a run its verdict.
    """
    try:
        return file_record(store, read_journal(Path(journal)), path=str(journal))
    except JournalError as error:
        return f"this run is not in the history: {error}"


def file_record(store: Path | str, record: RunRecord, *, path: str = "") -> str:
    """Record a run in the history; as `file_run`.

    Args:
        store: The store's folder or a database URL.
        record: The run.
        path: Where its journal lies.
    """
    try:
        with History(store) as history:
            record_run(history, record)
    except HistoryError as error:
        return f"this run is not in the history: {error}"
    return ""


def file_all(store: Path, *, progress: Callable[[str], None] | None = None) -> tuple[str, ...]:
    """File every run of a store again, e.g. after its history was lost; return what went wrong.

    Args:
        store: The store's folder.
        progress: Called with each journal's path.
    """
    said: list[str] = []
    for journal in sorted((store / RUNS_FOLDER).glob(f"*/{JOURNAL_NAME}")):
        if progress is not None:
            progress(str(journal))
        if trouble := file_run(store, journal):
            said.append(trouble)
    return tuple(said)


def record_run(history: History, record: RunRecord) -> int:
    """Record a run; recording it again replaces what was known of it.

    A rejected run opens a defect with the benchmarks that failed; one that the operator has closed
    already stays as it is.

    Args:
        history: The history.
        record: The run.

    Returns:
        The run's number in the history.

    Raises:
        HistoryError: The database refuses, or the node's name is not valid.
    """
    started = _moment(record.started)
    started = time.time() if started is None else started
    with history.writing() as connection:
        node = node_number(
            connection, record.node, hardware_class=record.hardware_class, since=started
        )
        run = _put_run(connection, node, record, started)
        for table, rows in (
            (schema.benchmarks, list(_benchmarks(run, record))),
            (schema.verdicts, [_verdict(run, item) for item in record.verdicts]),
            (schema.durations, list(_durations(run, record))),
        ):
            connection.execute(table.delete().where(table.c.run_id == run))
            if rows:
                connection.execute(table.insert(), rows)
        _put_defect(connection, node, run, record, started)
    return run


def _put_run(connection: sa.Connection, node: int, record: RunRecord, started: float) -> int:
    table = schema.runs
    decision = record.node_verdict
    values = {
        "node_id": node,
        "run": record.run,
        "hardware_class": record.hardware_class,
        "profile": record.profile,
        "purpose": record.purpose,
        "started": started,
        "ended": _moment(record.ended),
        "decision": decision.decision.value if decision else "",
        "headline": decision.headline if decision else "",
        "baseline": (decision.baseline if decision else "") or record.baseline,
    }
    known = connection.execute(
        sa.select(table.c.id).where(table.c.node_id == node, table.c.run == record.run)
    ).scalar()
    if known is not None:
        connection.execute(table.update().where(table.c.id == known).values(values))
        return int(known)
    key = connection.execute(table.insert().values(values)).inserted_primary_key
    return int(key[0]) if key else 0


def _benchmarks(run: int, record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield each benchmark that recorded anything, with the components that it spoke for."""
    known = dict.fromkeys((item.benchmark, item.component) for item in record.measurements)
    for benchmark, component in known:
        yield {"run_id": run, "benchmark": benchmark, "component": component}


def _verdict(run: int, item: MetricVerdict) -> dict[str, Any]:
    names = ("benchmark", "metric", "unit", "component", "device", "scope")
    numbers = ("value", "expected", "similarity", "threshold")
    return {
        "run_id": run,
        "outcome": item.outcome.value,
        "reason": item.reason.value,
        "reference": item.reference.value,
        **{name: getattr(item, name) for name in (*names, *numbers)},
    }


def _durations(run: int, record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield each benchmark's duration: that of its longest test, for devices are tested side by side."""
    longest: dict[str, float] = {}
    for result in record.results:
        if (
            result.benchmark
            and result.outcome in ("passed", "failed", "skipped")
            and result.metrics
        ):
            longest[result.benchmark] = max(longest.get(result.benchmark, 0.0), result.seconds)
    for benchmark, seconds in longest.items():
        yield {"run_id": run, "benchmark": benchmark, "seconds": seconds}


def _put_defect(
    connection: sa.Connection, node: int, run: int, record: RunRecord, started: float
) -> None:
    verdict = record.node_verdict
    table = schema.defects
    known = connection.execute(sa.select(table).where(table.c.run_id == run)).first()
    if verdict is None or verdict.decision is not Decision.REJECTED:
        if known is not None and known.state == "open":
            connection.execute(table.delete().where(table.c.id == known.id))
        return
    if known is not None:
        return
    failed = [item for item in record.verdicts if item.outcome is Outcome.FAIL]
    parts = (*verdict.components, *(item.component for item in failed))
    component = next((part for part in parts if part), "")
    key = connection.execute(
        table.insert().values(
            node_id=node,
            run_id=run,
            hardware_class=record.hardware_class,
            found=started,
            component=component,
            kind=component,
            state="open",
            note=verdict.headline,
        )
    ).inserted_primary_key
    exposed = sorted({item.benchmark for item in failed})
    if exposed and key:
        connection.execute(
            schema.defect_benchmarks.insert(),
            [{"defect_id": int(key[0]), "benchmark": benchmark} for benchmark in exposed],
        )


def _moment(text: str) -> float | None:
    try:
        return moment_of(text) if text else None
    except HistoryError:
        return None
