"""Register the nodes of a fleet and their traits (rack, batch ...) in the history from a table.

So a history knows nodes without a run as well, healthy or not measured yet.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from pytest_anubis.core.history import NODE_STATES
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.csv_rows import TableImport, read_rows
from pytest_anubis.store.history.database import History, HistoryError, check_state, moment_of, past
from pytest_anubis.store.history.node_rows import node_names, node_number

_OPTIONAL = ("class", "since", "state", "on", "note")
_MAX_TEXT_LENGTH = 200
"""Characters of a trait's name or value: racks, batches and serial numbers have some tens."""
_MAX_TRAITS = 64
"""Columns of a table that are traits: registers of fleets have ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    name: str
    hardware_class: str
    since: float | None
    state: str
    at: float | None
    note: str
    traits: Mapping[str, str] = field(default_factory=dict)


def import_nodes(history: History, path: Path) -> TableImport:
    """Read nodes from CSV; good lines are kept, wrong ones listed by number. Reading it twice adds nothing.

    Columns: ``node`` and optionally ``class`` (hardware class; the class of a node's runs overrides it),
    ``since`` (when it was put into service; default: now), ``state``, ``on`` (since when it has this state;
    default: the file's date, so later entries override it) and ``note``. Every other column becomes a trait
    of the nodes (``rack``, ``position``, ``batch``, ``serial``, ...). An empty cell changes nothing.

    Raises:
        HistoryError: The file cannot be read, is too large, lacks the column ``node``, or the database
            refuses.
    """
    rows = read_rows(path, ("node",), _OPTIONAL)
    present = time.time()
    written = present
    with contextlib.suppress(OSError):  # removed since
        written = min(present, path.stat().st_mtime)
    good: list[_Node] = []
    wrong: list[str] = []
    names = tuple(n for n in (rows[0][1] if rows else ()) if n and n not in ("node", *_OPTIONAL))
    if len(names) > _MAX_TRAITS or any(_is_bad(name) for name in names):
        raise HistoryError(
            f"{path} line 1: more than {_MAX_TRAITS} further columns, or one with a name that is "
            f"unprintable or longer than {_MAX_TEXT_LENGTH} characters; is it a table of nodes?"
        )
    for line, row in rows:
        try:
            good.append(_node(row, present))
        except HistoryError as error:
            wrong.append(f"{path} line {line}: {error}")
    nodes, states = schema.nodes, schema.states
    with history.writing() as connection:
        before = set(node_names(connection).values())
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
                then = held[0].state if held else NODE_STATES[0]  # without a state it is in service
                if (one.state, at) in {(row.state, row.at) for row in held}:
                    continue
                if one.at is None and then == one.state:
                    continue
                connection.execute(
                    states.insert().values(node_id=number, at=at, state=one.state, note=one.note)
                )
        _keep_traits(connection, good)
    listed = {one.name for one in good}
    return TableImport(
        added=len(listed - before),
        known=len(listed & before),
        wrong=tuple(wrong),
        left_out=len(wrong),
        traits=names,
    )


def node_traits(history: History) -> dict[str, dict[str, str]]:
    """Return the traits of each node that has any: node -> name -> value."""
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
    """Return the nodes whose class is known from a run: a register's name for it would match no baseline."""
    nodes, runs = schema.nodes, schema.runs
    query = (
        sa.select(nodes.c.name)
        .join(runs, runs.c.node_id == nodes.c.id)
        .where(runs.c.hardware_class != "")
        .distinct()
    )
    return set(connection.execute(query).scalars())


def _keep_traits(connection: sa.Connection, listed: Sequence[_Node]) -> None:
    """Write the traits that are new or have changed, with a few statements for all nodes."""
    kept = schema.node_traits
    numbers = {name: number for number, name in node_names(connection).items()}
    held = {(row.node_id, row.name): row.value for row in connection.execute(sa.select(kept)).all()}
    wanted = {
        (numbers[one.name], name): value for one in listed for name, value in one.traits.items()
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


def _is_bad(text: str) -> bool:
    return len(text) > _MAX_TEXT_LENGTH or not text.isprintable()


def _node(row: Mapping[str, str], now: float) -> _Node:
    name = row["node"].strip()
    if not name or not name.isprintable():
        raise HistoryError(f"node {name[:40]!r} is empty or unprintable")
    cells = {column: row.get(column, "").strip() for column in _OPTIONAL}
    state = cells["state"].replace("-", " ")
    if state:
        check_state(state, NODE_STATES)
    traits = {
        column: text.strip()
        for column, text in row.items()
        if column and column not in ("node", *_OPTIONAL) and text.strip()
    }
    for column, text in traits.items():
        if _is_bad(text):
            raise HistoryError(
                f"{column} {text[:40]!r} is unprintable or longer than {_MAX_TEXT_LENGTH} characters"
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
