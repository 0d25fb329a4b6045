"""Record, read and withdraw incidents in the history: failures that users met, from which risk is learned.

They are entered one by one or from a table. A defect is something else: what validation found.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pytest_anubis.core.history import Incident
from pytest_anubis.core.metric import first_of
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.csv_rows import TableImport, read_rows
from pytest_anubis.store.history.database import History, HistoryError, moment_of, past, shown_time
from pytest_anubis.store.history.node_rows import known_node, node_names, node_number, unknown_node

_DURATION = re.compile(r"(-?\d+(?:\.\d+)?)\s*(s|m|min|h|d)?")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, None: 3600.0}
_NEEDED = ("node", "kind", "started")
_OPTIONAL = ("duration", "component", "note")
_KEPT = ("kind", "started", "duration", "component", "note")
"""Fields of an incident that are columns of its row."""
_MAX_NODES_LISTED = 5
"""Unknown nodes that a line names; all are counted."""


def add_incident(
    history: History, incident: Incident, *, add_node: bool = False, now: float | None = None
) -> bool:
    """Record one incident; a known one gets the duration that it lacked while it lasted.

    With `add_node` an unknown node is added, in service since the incident.

    Returns:
        False when it was known already.

    Raises:
        HistoryError: The node is unknown, the kind empty, the time in the future, or the duration
            negative or longer than the time since.
    """
    present = time.time() if now is None else now
    _check(incident, present)
    with history.writing() as connection:
        number = (
            node_number(connection, incident.node, since=incident.started)
            if add_node
            else known_node(connection, incident.node)
        )
        return _enter(connection, [(number, incident)]) == 1


def import_incidents(
    history: History, path: Path, *, add_nodes: bool = False, now: float | None = None
) -> TableImport:
    """Read incidents from CSV; good lines are kept, wrong ones listed by number, or together by their nodes.

    Columns: ``node, kind, started`` and optionally ``duration`` (hours, or with a unit: ``90s``, ``30m``,
    ``2h``, ``1d``), ``component``, ``note``. Reading a file twice adds nothing but durations that were
    unknown before. With `add_nodes` unknown nodes are added, in service since their first incident here.

    Raises:
        HistoryError: The file cannot be read, lacks a column, or the database refuses.
    """
    present = time.time() if now is None else now
    wrong: list[tuple[int, str]] = []
    good: list[tuple[int, Incident]] = []
    unknown: dict[str, list[int]] = {}  # node -> its lines
    for line, row in read_rows(path, _NEEDED, _OPTIONAL):
        try:
            good.append((line, _incident(row, present)))
        except HistoryError as error:
            wrong.append((line, str(error)))
    with history.writing() as connection:
        nodes = _nodes(connection, [item for _, item in good] if add_nodes else [])
        for line, item in good:
            if item.node not in nodes:
                unknown.setdefault(item.node, []).append(line)
        placed = [(nodes[item.node], item) for _, item in good if item.node in nodes]
        added = _enter(connection, placed)
    if sum(map(len, unknown.values())) == 1:
        ((node, (line,)),) = unknown.items()
        wrong.append((line, unknown_node(node)))
        unknown.clear()
    lines = tuple(f"{path} line {line}: {text}" for line, text in sorted(wrong))
    left_out = len(wrong) + sum(map(len, unknown.values()))
    if unknown:
        lines += (f"{path}: {_unknown(unknown)}",)
    return TableImport(added=added, known=len(placed) - added, wrong=lines, left_out=left_out)


def _enter(connection: sa.Connection, found: Sequence[tuple[int, Incident]]) -> int:
    """Add the incidents that are new, each given with the number of its node; return how many those are.

    A known one gets the duration that it lacked while it lasted.
    """
    table = schema.incidents
    times = [item.started for _, item in found]
    near = table.c.started.between(min(times, default=0.0), max(times, default=0.0))
    there = {
        (row.node_id, row.kind, row.started): row
        for row in connection.execute(sa.select(table).where(near))
    }
    new: dict[tuple[int, str, float], dict[str, Any]] = {}
    for node, item in found:
        key = (node, item.kind, item.started)
        if key not in there:
            new.setdefault(key, {"node_id": node} | {name: getattr(item, name) for name in _KEPT})
        elif there[key].duration is None:
            known = table.update().where(table.c.id == there[key].id)
            connection.execute(known.values(duration=item.duration))
    if new:
        connection.execute(table.insert(), list(new.values()))
    return len(new)


def _unknown(nodes: Mapping[str, Sequence[int]]) -> str:
    """Return one line about all nodes that the history does not know."""
    count = sum(map(len, nodes.values()))
    names = first_of([name[:80] for name in nodes], _MAX_NODES_LISTED)
    return (
        f"{count} line{'s' if count != 1 else ''} left out, of {len(nodes)} unknown "
        f"node{'s' if len(nodes) != 1 else ''}: {names}; --add-nodes adds them, or "
        "'anubis history nodes import' registers all nodes, healthy ones too"
    )


def withdraw_incident(history: History, number: int) -> None:
    """Delete an incident that was entered by mistake.

    Raises:
        HistoryError: There is no such incident.
    """
    table = schema.incidents
    with history.writing() as connection:
        if not connection.execute(table.delete().where(table.c.id == number)).rowcount:
            raise HistoryError(
                f"there is no incident {number}; 'anubis history incident list' lists them"
            )


def _nodes(connection: sa.Connection, more: Sequence[Incident]) -> dict[str, int]:
    """Return node -> number, after adding the unknown nodes of the incidents in `more`."""
    nodes = {name: number for number, name in node_names(connection).items()}
    for item in sorted(more, key=lambda item: item.started):
        if item.node not in nodes:
            nodes[item.node] = node_number(connection, item.node, since=item.started)
    return nodes


def incidents(history: History, *, node: str = "") -> tuple[Incident, ...]:
    """Return all incidents, or those of one node, in time order.

    Raises:
        HistoryError: The node is unknown.
    """
    table, nodes = schema.incidents, schema.nodes
    columns = (table.c[name] for name in _KEPT)
    query = (
        sa.select(nodes.c.name.label("node"), *columns, table.c.id.label("number"))
        .join(nodes, nodes.c.id == table.c.node_id)
        .order_by(table.c.started, table.c.id)
    )
    with history.reading() as connection:
        if node:
            query = query.where(table.c.node_id == known_node(connection, node))
        rows = connection.execute(query).all()
    return tuple(Incident(**row._asdict()) for row in rows)


def seconds_of(text: str) -> float | None:
    """Return a duration in seconds: hours, or with a unit (``90s``, ``30m``, ``2h``, ``1d``); empty: None.

    Raises:
        HistoryError: It is no duration, or negative.
    """
    if not text.strip():
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise HistoryError(f"duration {text[:40]!r} is none; write hours, or 90s, 30m, 2h, 1d")
    found = float(match[1]) * _SECONDS[match[2]]
    if found < 0:
        raise HistoryError(f"duration {text[:40]!r} is negative")
    return found


def _check(incident: Incident, now: float) -> None:
    for what, text in (("node", incident.node), ("kind", incident.kind)):
        if not text.strip() or not text.isprintable():
            raise HistoryError(f"{what} {text[:40]!r} is empty or unprintable")
    past(incident.started, now)
    duration = incident.duration
    if duration is None:
        return
    if not math.isfinite(duration) or duration < 0:
        raise HistoryError(f"duration {duration:g} s is negative or no number")
    if incident.started + duration > now + 60:
        raise HistoryError(
            f"it would last until {shown_time(incident.started + duration)}, in the future; leave the "
            "duration empty while it lasts"
        )


def _incident(row: Mapping[str, str], now: float) -> Incident:
    incident = Incident(
        node=row["node"].strip(),
        kind=row["kind"].strip(),
        started=moment_of(row["started"]),
        duration=seconds_of(row.get("duration", "")),
        component=row.get("component", "").strip(),
        note=row.get("note", "").strip(),
    )
    _check(incident, now)
    return incident
