"""Nodes in the history that nobody needs to have measured: a table of the fleet, healthy ones included."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from pytest_anubis.core.history import NODE_STATES
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.csv_rows import read_rows
from pytest_anubis.store.history.database import (
    History,
    HistoryError,
    moment_of,
    node_number,
    past,
)

_MAY_BE = ("class", "since", "state", "on", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImport:
    """What became of a file of nodes.

    Attributes:
        added: How many are new.
        known: How many were in the history already; what the file says of them holds now.
        wrong: One line for each that was left out, with its number.
    """

    added: int
    known: int
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    name: str
    hardware_class: str
    since: float | None
    state: str
    at: float | None
    note: str


def import_nodes(history: History, path: Path, *, now: float | None = None) -> NodeImport:
    """Read nodes from CSV; good lines are kept, wrong ones listed by number. Reading it twice adds nothing.

    Columns: ``node`` and, if wanted, ``class`` (hardware class), ``since`` (when it was put into service;
    default: now), ``state``, ``on`` (since when it is in it; default: since the file was written, so that
    what was entered later holds) and ``note``.

    Args:
        history: The history.
        path: The file.
        now: The present, seconds since 1970; default this clock's.

    Raises:
        HistoryError: The file cannot be read, is too large, lacks the column ``node``, or the database
            refuses.
    """
    present = time.time() if now is None else now
    try:
        written = min(present, path.stat().st_mtime)
    except OSError:
        written = present  # whoever reads it says why it cannot be read
    good: list[_Node] = []
    wrong: list[str] = []
    for line, row in read_rows(path, ("node",), _MAY_BE, others=False):
        try:
            good.append(_node(row, present))
        except HistoryError as error:
            wrong.append(f"{path} line {line}: {error}")
    nodes, states = schema.nodes, schema.states
    with history.writing() as connection:
        before = {row.name for row in connection.execute(sa.select(nodes.c.name))}
        for one in good:
            number = node_number(
                connection, one.name, hardware_class=one.hardware_class, since=one.since
            )
            if one.since is not None:
                connection.execute(
                    nodes.update().where(nodes.c.id == number).values(since=one.since)
                )
            if one.state:
                at = written if one.at is None else one.at
                held = connection.execute(
                    sa.select(states.c.state, states.c.at)
                    .where(states.c.node_id == number, states.c.at <= at)
                    .order_by(states.c.at.desc(), states.c.id.desc())
                ).all()
                # A node without any state is taken for one in service.
                then = held[0].state if held else NODE_STATES[0]
                if (one.state, at) in {(row.state, row.at) for row in held}:
                    continue
                if one.at is None and then == one.state:
                    continue
                connection.execute(
                    states.insert().values(node_id=number, at=at, state=one.state, note=one.note)
                )
    names = {one.name for one in good}
    return NodeImport(added=len(names - before), known=len(names & before), wrong=tuple(wrong))


def _node(row: Mapping[str, str], now: float) -> _Node:
    name = row["node"].strip()
    if not name or not name.isprintable():
        raise HistoryError(f"node {name[:40]!r} is empty or unprintable")
    cells = {column: row.get(column, "").strip() for column in _MAY_BE}
    state = cells["state"].replace("-", " ")
    if state and state not in NODE_STATES:
        raise HistoryError(f"state {state[:40]!r} is none of {', '.join(NODE_STATES)}")
    if cells["on"] and not state:
        raise HistoryError("a date in the column 'on' needs a state")
    return _Node(
        name=name,
        hardware_class=cells["class"],
        since=past(moment_of(cells["since"]), now) if cells["since"] else None,
        state=state,
        at=past(moment_of(cells["on"]), now) if cells["on"] else None,
        note=cells["note"],
    )
