"""File runs in the history: summary, benchmarks, verdicts, durations, content, and the defect of a rejection.

A run files itself at its end (`file_finished`), and those that wait; `anubis push` files collected ones.
`live_run` and `pushing` use it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Literal

import sqlalchemy as sa

from pytest_anubis.codec import without_surrogates
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.machine_marks import marks_of, name_mark
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import said_of_node
from pytest_anubis.core.verdict import Decision, Outcome, Triage
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.bounded_use import HISTORY_TIMEOUT, use_history
from pytest_anubis.store.history.connections import retried
from pytest_anubis.store.history.contents.content_rows import (
    Content,
    begins_with,
    content_row,
    journal_content,
    put_content,
    remove_content,
    stored_parts,
)
from pytest_anubis.store.history.contents.run_clocks import (
    ClockOffset,
    clock_line,
    keep_order,
    run_clock,
)
from pytest_anubis.store.history.contents.run_rows import exposing_benchmarks, rows_of
from pytest_anubis.store.history.database import History, HistoryError, shown_time
from pytest_anubis.store.history.filed_before import lost_runs_line, note_filed
from pytest_anubis.store.history.machine_owners import filed_name, host_name, keep_marks
from pytest_anubis.store.history.node_rows import held_node, put_class
from pytest_anubis.store.history.waiting_runs import WAITING, forget, keep, waiting, waiting_for
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import journal_path
from pytest_anubis.store.journal.journal_reading import journal_file, read_journal
from pytest_anubis.store.namesakes import renamed

_HALF = HISTORY_TIMEOUT / 2
"""Seconds after which filing of a further waiting run is not started; a started one has as long to end."""

_FINAL = (Decision.ACCEPTED, Decision.REJECTED)

News = Literal["new", "known", "changed"]
"""Result of filing a run: it was unknown, known in full, or known and is replaced."""


def file_finished(place: Path | str, store: Path, record: RunRecord, *, journal: Path | str) -> str:
    """File a run that has just ended, and those that wait for this history; a run that fails to be waits.

    Returns:
        What went wrong in one line, else an empty text. It is not raised, since a history that cannot be
        written must not cost a run its verdict, and the journal has everything.
    """
    name = Path(journal).parent.name
    filed: list[str] = []
    said: list[str] = []
    problem = ""
    begin = time.monotonic()
    content = _content(place, store, Path(journal))

    def file(history: History) -> list[str]:
        said.extend(filter(None, [lost_runs_line(history, place)]))
        record_run(history, record, content, tell=said.append, just_ended=True)
        note_filed(history, place)
        filed.append(name)
        forget(store, name)
        due = waiting_for(store, place)
        return [
            trouble
            for one in takewhile(lambda _: time.monotonic() - begin < _HALF, due)
            if (trouble := _file_waiting(history, place, store, one))
        ]

    try:
        problem = next(iter(use_history(place, file)), "")
    except HistoryError as error:
        problem = str(error)
    finally:  # also after Ctrl-C the run is filed later
        kept = "" if filed else keep(store, name, place, why=problem)
    line = _unfiled(place, store, problem, kept, filed=bool(filed))
    return "; ".join([*said, line] if line else said)


def _unfiled(place: Path | str, store: Path, problem: str, kept: str, *, filed: bool) -> str:
    """Return one line about the runs that are not in the history: the new one, and waiting ones."""
    left = len(waiting(store))
    many = (
        f"{left} run{'s' if left != 1 else ''} wait{'s' if left == 1 else ''} in {store / WAITING}"
    )
    how = "; the next run files them, or 'anubis push'"
    if not filed:
        return f"this run is not in the history: {problem}; {kept or many + how}"
    if left:
        other = "" if waiting_for(store, place) else " for another history"
        return many + (f": {problem}" if problem else other) + how
    return f"this run is in the history, but: {problem}" if problem else ""


def _content(place: Path | str, store: Path, journal: Path) -> Content | None:
    """Return a journal's content for the history; None if both are in the same store.

    It is also None if the journal cannot be read, which reading its events reports.
    """
    if not isinstance(place, str) and place.resolve() == store.resolve():
        return None
    try:
        return journal_content(journal_file(journal))
    except OSError:
        return None


def _file_waiting(history: History, place: Path | str, store: Path, name: str) -> str:
    """File a run that waits; return an error in one line, else an empty text."""
    journal = journal_path(store, name)
    if not journal.exists():  # deleted meanwhile
        forget(store, name)
        return ""
    try:
        record_run(history, read_journal(journal), _content(place, store, journal))
    except (JournalError, HistoryError) as error:
        return str(error)
    forget(store, name)
    return ""


def record_run(
    history: History,
    record: RunRecord,
    content: Content | None = None,
    *,
    tell: Callable[[str], object] = lambda _: None,
    just_ended: bool = False,
) -> News:
    """File a run. Filing it again, also at the same moment from elsewhere, leaves one run.

    Node, id and beginning identify a run; two machines with one name are two nodes. Filing replaces the known
    run, unless its content is given and the history has that already, or a longer journal that begins with
    it. A journal that does not begin with the filed one is another run, and refused. A rejected run opens a
    defect with the benchmarks that failed, unless it has one already.

    Args:
        history: The history.
        record: The run.
        content: Its full journal or samples, for a history that is not in the same store.
        tell: Called with a line if the run is filed under another name than its node's, or its clock was off.
        just_ended: It ended on this machine a moment ago, so its clock can be compared.

    Raises:
        HistoryError: The database refuses, the node's name is not valid, or another run has this id and node.
    """
    (found,) = record_together(history, [(record, content)], just_ended=just_ended)
    if isinstance(found, HistoryError):
        raise found
    news, lines = found
    for line in lines:
        tell(line)
    return news


def record_together(
    history: History,
    runs: Sequence[tuple[RunRecord, Content | None]],
    *,
    just_ended: bool = False,
) -> list[tuple[News, list[str]] | HistoryError]:
    """File several runs in one transaction, which costs a fraction of one for each; as `record_run`.

    Returns:
        For each run the result and the lines for people, or why it was refused.

    Raises:
        HistoryError: The database refuses: nothing was filed.
    """
    clocks = [run_clock(history, record, just_ended=just_ended) for record, _ in runs]
    nodes = {record.node for record, _ in runs}

    def write() -> list[tuple[News, list[str]] | HistoryError]:
        found: list[tuple[News, list[str]] | HistoryError] = []
        with history.writing() as connection:
            for (record, content), clock in zip(runs, clocks, strict=True):
                try:
                    with connection.begin_nested():
                        found.append(_record(connection, record, content, clock, nodes))
                except HistoryError as error:
                    found.append(error)
        return found

    return retried(write)


def _record(
    connection: sa.Connection,
    record: RunRecord,
    content: Content | None,
    clock: ClockOffset,
    nodes: Collection[str],
) -> tuple[News, list[str]]:
    began = moment(record.started)
    started = time.time() if began is None else began
    since = started - clock.ahead
    name = host_name(connection, record.node, marks_of(record), nodes)
    alias = f"{record.node} is {name} in the history: one machine" if name != record.node else ""
    full = frozenset({name_mark(record.node)} if alias and "." in record.node else ())
    record = renamed(record, name)
    row = held_node(connection, record.node, since=since)
    base = int(row.id)
    digest = content.digest if content is not None else ""
    filed = filed_name(connection, base, record, started=began, digest=digest)
    if filed.name != record.node:
        record = renamed(record, filed.name)
        row = held_node(connection, filed.name, since=since)
    put_class(connection, row, record.hardware_class)
    node = int(row.id)
    keep_marks(connection, base, node, filed.new_marks | full)
    known = _known_run(connection, node, record, content)
    if known is not None and known[1]:
        return "known", []
    run = _put_run(connection, node, known and known[0], record, started)
    for table, rows in rows_of(run, record):
        if known is not None:  # a role that may only append must not try to delete
            connection.execute(table.delete().where(table.c.run_id == run))
        if rows:  # inline: the role may not read them back
            connection.execute(table.insert().inline(), rows)
    _put_defect(connection, node, run, record, since, new=known is None)
    if known is None:
        keep_order(connection, run, record, clock)
    if content is not None:
        if known is not None:
            remove_content(connection, run)
        put_content(connection, run, content)
    lines = [alias, filed.line, clock_line(record, clock) if known is None else ""]
    return "new" if known is None else "changed", [line for line in lines if line]


def _known_run(
    connection: sa.Connection, node: int, record: RunRecord, content: Content | None
) -> tuple[int, bool] | None:
    """Return the number of a filed run, and whether the history has all of it; None: it is new.

    Raises:
        HistoryError: Another run is filed under its node and id.
    """
    table = schema.runs
    row = connection.execute(
        sa.select(table.c.id, table.c.started, table.c.decision, table.c.headline).where(
            table.c.node_id == node, table.c.run == without_surrogates(record.run)
        )
    ).first()
    if row is None:
        return None
    there = content_row(connection, row.id) if content is not None else None
    said = record.node_verdict.decision.value if record.node_verdict else ""
    if content is not None and there is not None and there.digest == content.digest:
        # An import may be judged only later, or together with others.
        verdict = record.node_verdict
        shared = verdict is not None and verdict.triage is Triage.SHARED and said == row.decision
        if verdict is not None and shared and verdict.headline != row.headline:
            return row.id, False
        return row.id, row.decision in _FINAL or said in ("", row.decision)
    began = moment(record.started)
    imported = there is not None and content is not None and content.kind == "columns"
    if began is not None and began != row.started and not imported:
        raise HistoryError(
            f"another run {record.run} of {record.node} is in the history, begun {shown_time(row.started)}, "
            f"this one {shown_time(began)}: are these two hosts of one name? Nothing was filed"
        )
    if content is None:
        return row.id, False
    other = f"that one is {row.decision}, this one {said or 'without a verdict'}"
    if there is None:
        if row.decision in _FINAL and said != row.decision:
            raise _another(record, other)
        return row.id, False
    if there.kind != content.kind or content.kind == "columns":
        raise HistoryError(
            f"another import of run {record.run} of {record.node} is in the history, and this one differs: "
            "import it as a run of its own (--run ID)"
        )
    more = content.size > there.bytes
    shorter, longer = (
        (there.digest, content.parts_whole())
        if more
        else (content.digest, stored_parts(connection, row.id))
    )
    if not begins_with(longer, min(content.size, there.bytes), shorter):
        raise _another(record, "neither of the two journals goes on with the other")
    if more and said != row.decision == Decision.REJECTED:  # it has ended: no resumption
        raise _another(record, other)
    return row.id, not more


def _another(record: RunRecord, why: str) -> HistoryError:
    return HistoryError(
        f"another run {record.run} of {record.node}, begun in the same moment, is in the history: {why}. "
        "The one there stays; give each run an id of its own (--anubis-run-id)"
    )


def _put_run(
    connection: sa.Connection, node: int, known: int | None, record: RunRecord, started: float
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
        "ended": moment(record.ended),
        "decision": decision.decision.value if decision else said_of_node(record),
        "headline": decision.headline if decision else record.broken_off,
        "baseline": (decision.baseline if decision else "") or record.baseline,
    }
    if known is not None:
        connection.execute(table.update().where(table.c.id == known).values(values))
        return known
    key = connection.execute(table.insert().values(values)).inserted_primary_key
    return int(key[0]) if key else 0


def _put_defect(
    connection: sa.Connection, node: int, run: int, record: RunRecord, started: float, *, new: bool
) -> None:
    verdict = record.node_verdict
    table = schema.defects
    query = sa.select(table).where(table.c.run_id == run)
    known = None if new else connection.execute(query).first()
    if verdict is None or verdict.decision is not Decision.REJECTED:
        if known is not None and known.state == "open":
            connection.execute(table.delete().where(table.c.id == known.id))
        return
    if known is not None:
        return
    marginal = record.settings.get("fail_on") == "marginal"
    rejecting = (Outcome.FAIL, Outcome.MARGINAL) if marginal else (Outcome.FAIL,)
    failed = [item for item in record.effective_verdicts if item.outcome in rejecting]
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
    if key and (exposed := exposing_benchmarks(record, failed)):
        connection.execute(
            schema.defect_benchmarks.insert().inline(),
            [{"defect_id": int(key[0]), "benchmark": benchmark} for benchmark in exposed],
        )
