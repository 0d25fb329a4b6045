"""Nodes in the history that nobody needs to have measured: a table of the fleet, healthy ones included."""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from pytest_anubis.core.history import NODE_STATES
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import (
    History,
    HistoryError,
    moment_of,
    node_number,
    past,
)

COLUMNS = ("node", "class", "since", "state", "on", "note")


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
    default: now), ``state``, ``on`` (since when it is in it; default: now) and ``note``.

    Args:
        history: The history.
        path: The file.
        now: The present, seconds since 1970; default this clock's.

    Raises:
        HistoryError: The file cannot be read, lacks the column ``node``, or the database refuses.
    """
    present = time.time() if now is None else now
    good: list[_Node] = []
    wrong: list[str] = []
    for line, row in _lines(path):
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
                latest = connection.execute(
                    sa.select(states.c.state, states.c.at)
                    .where(states.c.node_id == number)
                    .order_by(states.c.at.desc(), states.c.id.desc())
                ).first()
                if latest is not None and latest.state == one.state and one.at in (None, latest.at):
                    continue
                if latest is None and one.state == NODE_STATES[0] and one.at is None:
                    continue  # what a node without any state is taken for
                connection.execute(
                    states.insert().values(
                        node_id=number,
                        at=present if one.at is None else one.at,
                        state=one.state,
                        note=one.note,
                    )
                )
    names = {one.name for one in good}
    return NodeImport(added=len(names - before), known=len(names & before), wrong=tuple(wrong))


def _node(row: Mapping[str, str], now: float) -> _Node:
    name = row["node"].strip()
    if not name or not name.isprintable():
        raise HistoryError(f"node {name[:40]!r} is empty or unprintable")
    cells = {column: row.get(column, "").strip() for column in COLUMNS}
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


def _lines(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.reader(file)
            head = [name.strip().lower() for name in next(reader, [])]
            strange = [name for name in head if name not in COLUMNS]
            if "node" not in head or strange:
                what = (
                    "column 'node' is missing"
                    if "node" not in head
                    else f"no column {strange[0][:40]!r}"
                )
                raise HistoryError(f"{path} line 1: {what}; possible are {', '.join(COLUMNS)}")
            return [
                (
                    reader.line_num,
                    dict(zip(head, row + [""] * (len(head) - len(row)), strict=False)),
                )
                for row in reader
                if row
            ]
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read ({error.strerror})") from error
    except csv.Error as error:
        raise HistoryError(f"{path}: not CSV ({error})") from error
