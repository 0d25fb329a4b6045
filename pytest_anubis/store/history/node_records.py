"""Nodes in the history that nobody needs to have measured: a table of the fleet, healthy ones included."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from pytest_anubis.core.history import NODE_STATES
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.csv_rows import read_rows
from pytest_anubis.store.history.database import (
    History,
    HistoryError,
    moment_of,
    past,
)
from pytest_anubis.store.history.node_rows import node_number

_MAY_BE = ("class", "since", "state", "on", "note")
_LONGEST = 200
"""Characters of a trait's name or value: racks, batches and serial numbers have some tens."""
_MOST_TRAITS = 64
"""Columns of a table that are traits: registers of fleets have ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImport:
    """What became of a file of nodes.

    Attributes:
        added: How many are new.
        known: How many were in the history already; what the file says of them holds now.
        wrong: One line for each that was left out, with its number.
        traits: The columns that were kept as traits, as the file has them.
    """

    added: int
    known: int
    wrong: tuple[str, ...] = ()
    traits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    name: str
    hardware_class: str
    since: float | None
    state: str
    at: float | None
    note: str
    traits: Mapping[str, str] = field(default_factory=dict)


def import_nodes(history: History, path: Path, *, now: float | None = None) -> NodeImport:
    """Read nodes from CSV; good lines are kept, wrong ones listed by number. Reading it twice adds nothing.

    Columns: ``node`` and, if wanted, ``class`` (hardware class; of a node that has runs theirs holds),
    ``since`` (when it was put into service; default: now), ``state``, ``on`` (since when it is in it;
    default: since the file was written, so that what was entered later holds) and ``note``. Every other
    column is kept as a trait of the nodes (``rack``, ``position``, ``batch``, ``serial``, ...); an empty cell
    changes nothing.

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
    rows = read_rows(path, ("node",), _MAY_BE, others=True)
    names = tuple(n for n in (rows[0][1] if rows else ()) if n and n not in ("node", *_MAY_BE))
    if len(names) > _MOST_TRAITS or any(len(n) > _LONGEST or not n.isprintable() for n in names):
        raise HistoryError(
            f"{path} line 1: more than {_MOST_TRAITS} further columns, or one with a name that is "
            f"unprintable or longer than {_LONGEST} characters; is it a table of nodes?"
        )
    for line, row in rows:
        try:
            good.append(_node(row, present))
        except HistoryError as error:
            wrong.append(f"{path} line {line}: {error}")
    nodes, states = schema.nodes, schema.states
    with history.writing() as connection:
        before = {row.name for row in connection.execute(sa.select(nodes.c.name))}
        measured = _measured(connection)
        for one in good:
            kept = "" if one.name in measured else one.hardware_class
            number = node_number(connection, one.name, hardware_class=kept, since=one.since)
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
        _keep_traits(connection, good)
    told = {one.name for one in good}
    return NodeImport(
        added=len(told - before), known=len(told & before), wrong=tuple(wrong), traits=names
    )


def node_traits(history: History) -> dict[str, dict[str, str]]:
    """Return what the register says of each node that it says anything of: node -> name -> value.

    Args:
        history: The history.

    Raises:
        HistoryError: The database refuses.
    """
    nodes, kept = schema.nodes, schema.node_traits
    query = sa.select(nodes.c.name.label("node"), kept.c.name, kept.c.value).join(
        kept, kept.c.node_id == nodes.c.id
    )
    found: dict[str, dict[str, str]] = {}
    with history.reading() as connection:
        for node, name, value in connection.execute(query.order_by(nodes.c.name, kept.c.name)):
            found.setdefault(node, {})[name] = value
    return found


def _measured(connection: sa.Connection) -> set[str]:
    """Return the nodes whose class a run has told: what a register calls it would match no baseline."""
    nodes, runs = schema.nodes, schema.runs
    query = (
        sa.select(nodes.c.name)
        .join(runs, runs.c.node_id == nodes.c.id)
        .where(runs.c.hardware_class != "")
        .distinct()
    )
    return set(connection.execute(query).scalars())


def _keep_traits(connection: sa.Connection, told: Sequence[_Node]) -> None:
    """Write the traits that are new or have changed, however many nodes there are, in three statements."""
    nodes, kept = schema.nodes, schema.node_traits
    numbers = {row.name: row.id for row in connection.execute(sa.select(nodes.c.id, nodes.c.name))}
    held = {(row.node_id, row.name): row.value for row in connection.execute(sa.select(kept)).all()}
    wanted = {
        (numbers[one.name], name): value for one in told for name, value in one.traits.items()
    }
    new = [
        {"node_id": node, "name": name, "value": value}
        for (node, name), value in wanted.items()
        if (node, name) not in held
    ]
    changed = [
        {"of": node, "called": name, "value": value}
        for (node, name), value in wanted.items()
        if held.get((node, name), value) != value
    ]
    if new:
        connection.execute(kept.insert(), new)
    if changed:
        which = (kept.c.node_id == sa.bindparam("of")) & (kept.c.name == sa.bindparam("called"))
        connection.execute(kept.update().where(which), changed)


def _node(row: Mapping[str, str], now: float) -> _Node:
    name = row["node"].strip()
    if not name or not name.isprintable():
        raise HistoryError(f"node {name[:40]!r} is empty or unprintable")
    cells = {column: row.get(column, "").strip() for column in _MAY_BE}
    state = cells["state"].replace("-", " ")
    if state and state not in NODE_STATES:
        raise HistoryError(f"state {state[:40]!r} is none of {', '.join(NODE_STATES)}")
    traits = {
        column: text.strip()
        for column, text in row.items()
        if column and column not in ("node", *_MAY_BE) and text.strip()
    }
    for column, text in traits.items():
        if len(text) > _LONGEST or not text.isprintable():
            raise HistoryError(
                f"{column} {text[:40]!r} is unprintable or longer than {_LONGEST} characters"
            )
    if cells["on"] and not state:
        raise HistoryError("a date in the column 'on' needs a state")
    return _Node(
        name=name,
        hardware_class=cells["class"],
        since=past(moment_of(cells["since"]), now) if cells["since"] else None,
        state=state,
        at=past(moment_of(cells["on"]), now) if cells["on"] else None,
        note=cells["note"],
        traits=traits,
    )
