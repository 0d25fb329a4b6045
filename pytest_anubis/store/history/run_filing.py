"""Filing a finished run in the history: summary, sketches, verdicts, durations, and its defect."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import FloatArray, quantiles
from pytest_anubis.core.verdict import Decision, MetricVerdict, Outcome
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History, HistoryError, moment_of, node_number
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import RUNS_FOLDER
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, read_journal

SKETCH_SIZE = 101


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
            record_run(history, record, path=path)
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


def record_run(history: History, record: RunRecord, *, path: str = "") -> int:
    """Record a run; recording it again replaces what was known of it.

    A rejected run opens a defect with the benchmarks that failed; one that the operator has closed
    already stays as it is.

    Args:
        history: The history.
        record: The run.
        path: Where its journal lies.

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
        run = _put_run(connection, node, record, started, path)
        for table, rows in (
            (schema.samples, [_sample(run, item) for item in record.measurements]),
            (schema.verdicts, [_verdict(run, item) for item in record.verdicts]),
            (schema.durations, list(_durations(run, record))),
        ):
            connection.execute(table.delete().where(table.c.run_id == run))
            if rows:
                connection.execute(table.insert(), rows)
        _put_defect(connection, node, run, record, started)
    return run


def read_sketch(sketch: bytes) -> FloatArray:
    """Return the quantiles of a stored sample, ascending, shape (at most 101,), in its unit.

    Raises:
        HistoryError: The bytes are no sketch.
    """
    if len(sketch) % 8:
        raise HistoryError(f"a sketch of {len(sketch)} bytes is damaged")
    return np.frombuffer(sketch, dtype="<f8").astype(np.float64)


def make_sketch(values: tuple[float, ...]) -> bytes:
    """Return at most 101 quantiles of the finite values as little-endian 8-byte floats."""
    finite = np.array([value for value in values if np.isfinite(value)], dtype=np.float64)
    if not len(finite):
        return b""
    return quantiles(finite, min(SKETCH_SIZE, len(finite))).astype("<f8").tobytes()


def _put_run(
    connection: sa.Connection, node: int, record: RunRecord, started: float, path: str
) -> int:
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
        "exit_status": record.exit_status,
        "decision": decision.decision.value if decision else "",
        "headline": decision.headline if decision else "",
        "baseline": (decision.baseline if decision else "") or record.baseline,
        "inventory": json.dumps(dict(record.inventory), sort_keys=True),
        "path": path,
    }
    known = connection.execute(
        sa.select(table.c.id).where(table.c.node_id == node, table.c.run == record.run)
    ).scalar()
    if known is not None:
        connection.execute(table.update().where(table.c.id == known).values(values))
        return int(known)
    key = connection.execute(table.insert().values(values)).inserted_primary_key
    return int(key[0]) if key else 0


def _sample(run: int, item: Measurement) -> dict[str, Any]:
    return {
        "run_id": run,
        "benchmark": item.benchmark,
        "metric": item.metric.name,
        "unit": item.metric.unit,
        "better": item.metric.better,
        "component": item.component,
        "device": item.device,
        "group_label": item.group,
        "count": len(item.values),
        "sketch": make_sketch(item.values),
        "disturbance": "; ".join(item.disturbance),
    }


def _verdict(run: int, item: MetricVerdict) -> dict[str, Any]:
    names = ("benchmark", "metric", "unit", "component", "device", "scope", "text")
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
