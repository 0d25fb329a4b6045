"""Find the machine behind a node's name when its run is filed: the first one keeps it, others get another.

Otherwise the runs of two machines would answer each other. `join_node` joins two, as after a new mainboard.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from pytest_anubis.codec import without_surrogates
from pytest_anubis.core.machine_marks import (
    another_machine,
    is_of_another_name,
    marks_of,
    name_mark,
    what_differs,
)
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.node_rows import held_node, known_node
from pytest_anubis.store.namesakes import (
    Machine,
    NodeNames,
    kept_names,
    machine_of,
    names_of_another,
)

_MAX_RUNS_LISTED = 3
"""Ids of runs that an error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FiledName:
    """The name under which a run is filed."""

    name: str
    # Marks of the run that the history does not know of this machine yet
    new_marks: frozenset[str] = frozenset()
    line: str = ""  # one line for people if the name is not the run's own, else empty


@dataclass(frozen=True, slots=True)
class _Machine:
    """A machine among those that use one name."""

    number: int
    name: str
    marks: frozenset[str]


def filed_name(
    connection: sa.Connection, base: int, record: RunRecord, *, started: float | None, digest: str
) -> FiledName:
    """Return the name under which a run is filed.

    The caller has locked the row of the run's own name, so machines of one name come one after another. A run
    that is filed already stays under its name, so sending it twice leaves one.
    """
    marks = marks_of(record)
    if not marks:  # an import, or an inventory without identity
        return FiledName(name=record.node)
    family = _family(connection, base)
    found = machine_of([(one.name, one.marks) for one in family], marks)
    if found is None or len(family) > 1:
        at = _filed(connection, family, found, record.run, marks, started, digest)
        found = at if at is not None else found
    if found is None:
        name = _free_name(connection, record.node, marks)
        line = _namesake_line(record.node, name, family[0], marks)
        return FiledName(name=name, new_marks=marks, line=line)
    one = family[found]
    # A run with this content may have been filed under another machine: then nothing is learned from it.
    new_marks = frozenset() if what_differs(one.marks, marks) else marks - one.marks
    line = _namesake_line(record.node, one.name, family[0], marks) if found else ""
    return FiledName(name=one.name if found else record.node, new_marks=new_marks, line=line)


def host_name(
    connection: sa.Connection, node: str, marks: frozenset[str], others: Collection[str] = ()
) -> str:
    """Return a node's name, or another one under which the history knows its machine (`kept_names`).

    `others` are the nodes of runs that are filed together with this one.
    """
    own = without_surrogates(node)
    column = schema.nodes.c.name
    short = own.partition(".")[0]
    query = sa.select(column, schema.nodes.c.id)
    if connection.execute(query.where(column == own)).first() is not None:
        return node
    host = sa.func.lower(column) == short.lower()
    like = host | column.istartswith(f"{short}.", autoescape=True)
    there = {row.name: row.id for row in connection.execute(query.where(like))}
    if short in there and name_mark(own) in _family(connection, there[short])[0].marks:
        return short
    for replaced, name in kept_names({*there, own, *others}).items():
        other = name if own == replaced else replaced
        if own in (replaced, name) and other in there:
            known = _family(connection, there[other])[0].marks
            named = own == replaced and "." in own and is_of_another_name(known, own)
            if not (named or another_machine(known, marks)):
                return other
    return node


def keep_marks(connection: sa.Connection, base: int, node: int, new_marks: frozenset[str]) -> None:
    """Store the marks of the machine of a run that are new."""
    owned = schema.node_machines
    known = sa.select(owned.c.mark).where(owned.c.node_id == node)
    new_marks = new_marks.difference(connection.execute(known).scalars() if new_marks else ())
    if not new_marks:
        return
    if node != base:
        table = schema.namesakes
        there = sa.select(table.c.node_id).where(table.c.node_id == node)
        if connection.execute(there).first() is None:
            connection.execute(table.insert().inline().values(node_id=node, first_id=base))
    rows = [{"node_id": node, "mark": mark} for mark in sorted(new_marks)]
    connection.execute(schema.node_machines.insert().inline(), rows)


def known_machines(history: History) -> NodeNames:
    """Return the machines of all names as the history distinguishes them, for reading runs out of it."""
    nodes, marks, others = schema.nodes, schema.node_machines, schema.namesakes
    query = (
        sa.select(nodes.c.id, nodes.c.name, marks.c.mark, others.c.first_id)
        .join(marks, marks.c.node_id == nodes.c.id)
        .outerjoin(others, others.c.node_id == nodes.c.id)
        .order_by(nodes.c.id)
    )
    with history.reading() as connection:
        rows = connection.execute(query).all()
    names = {row.id: row.name for row in rows}
    found: dict[str, dict[str, frozenset[str]]] = {}
    for own in (True, False):  # the one that keeps the name comes first
        for row in rows:
            name = row.name if own else names.get(row.first_id)
            if name is not None:
                machines = found.setdefault(name, {})
                machines[row.name] = machines.get(row.name, frozenset()) | {row.mark}
    return NodeNames({name: list(machines.items()) for name, machines in found.items()})


def name_here(history: History, name: str, marks: frozenset[str]) -> str:
    """Return the name in the history under which a machine's runs are."""
    nodes = schema.nodes
    with history.reading() as connection:
        name = host_name(connection, name, marks)
        if not marks:
            return name
        base = connection.execute(sa.select(nodes.c.id).where(nodes.c.name == name)).scalar()
        family = [] if base is None else _family(connection, int(base))
    machines: list[Machine] = [(one.name, one.marks) for one in family]
    found = machine_of(machines, marks)
    if found is not None:
        return machines[found][0]
    return names_of_another(name, marks)[0] if machines else name


def _family(connection: sa.Connection, base: int) -> list[_Machine]:
    """Return the machines that use a name, the one that keeps it first."""
    nodes, marks, others = schema.nodes, schema.node_machines, schema.namesakes
    further = sa.select(others.c.node_id).where(others.c.first_id == base)
    query = (
        sa.select(nodes.c.id, nodes.c.name, marks.c.mark)
        .outerjoin(marks, marks.c.node_id == nodes.c.id)
        .where((nodes.c.id == base) | nodes.c.id.in_(further))
        .order_by(nodes.c.id)
    )
    found: dict[int, tuple[str, set[str]]] = {}
    for row in connection.execute(query):
        found.setdefault(row.id, (row.name, set()))[1].update([row.mark] if row.mark else [])
    machines = [_Machine(number, name, frozenset(known)) for number, (name, known) in found.items()]
    return sorted(machines, key=lambda one: (one.number != base, one.number))


def _filed(
    connection: sa.Connection,
    family: list[_Machine],
    found: int | None,
    run: str,
    marks: frozenset[str],
    started: float | None,
    digest: str,
) -> int | None:
    """Return the place of the machine that this very run is filed under; None if it is not filed."""
    runs, contents = schema.runs, schema.contents
    query = (
        sa.select(runs.c.node_id, runs.c.started, contents.c.digest)
        .outerjoin(contents, contents.c.run_id == runs.c.id)
        .where(runs.c.node_id.in_([one.number for one in family]))
        .where(runs.c.run == without_surrogates(run))
    )
    there: dict[int, Any] = {row.node_id: row for row in connection.execute(query)}
    alike = None
    for i, one in enumerate(family):
        row = there.get(one.number)
        if row is None:
            continue
        if digest and row.digest == digest:
            return i
        # Different machines may have a run of one id that began at one moment.
        other = digest and row.digest and i != found and what_differs(one.marks, marks)
        if started == row.started and not other and (alike is None or i == found):
            alike = i
    return alike


def _free_name(connection: sa.Connection, name: str, marks: frozenset[str]) -> str:
    column = schema.nodes.c.name
    names = names_of_another(without_surrogates(name), marks)
    taken = set(connection.execute(sa.select(column).where(column.in_(names))).scalars())
    return next(one for one in names if one not in taken)


def _namesake_line(name: str, called: str, first: _Machine, marks: frozenset[str]) -> str:
    why = what_differs(first.marks, marks)
    other = f" (another {why})" if why else ""
    return (
        f"another machine{other} is called {name} too: this one is {called} in the history, and nothing of "
        "the two is mixed; give each a name of its own (--anubis-node), or, if it is the same node with new "
        f"parts, 'anubis history nodes join {called}'"
    )


def join_node(history: History, called: str) -> tuple[str, int]:
    """Join a machine, e.g. ``n1~3f2a``, with the one that keeps its name, as after a change of its mainboard.

    Its runs, defects, states, incidents and traits move to that node, equal ones only once. Later runs of
    either machine are filed there.

    Returns:
        The name, and how many runs moved.

    Raises:
        HistoryError: The node is unknown or keeps its own name, or both have a run of one id.
    """
    nodes, runs, others = schema.nodes, schema.runs, schema.namesakes
    with history.writing() as connection:
        other = known_node(connection, called)
        query = sa.select(nodes.c.name).join(others, others.c.first_id == nodes.c.id)
        name = connection.execute(query.where(others.c.node_id == other)).scalar()
        if name is None:
            raise HistoryError(
                f"{called[:80]}: no other machine keeps this name; 'anubis history nodes list' shows what "
                "shares one (NAME~LETTERS)"
            )
        first = held_node(connection, name)
        row = held_node(connection, called)
        mine = sa.select(runs.c.run).where(runs.c.node_id == first.id)
        both = connection.execute(
            sa.select(runs.c.run).where(runs.c.node_id == other, runs.c.run.in_(mine))
        )
        if twice := sorted(both.scalars()):
            more = ", ..." if len(twice) > _MAX_RUNS_LISTED else ""
            raise HistoryError(
                f"{name} and {called} both have a run {', '.join(twice[:_MAX_RUNS_LISTED])}{more}: these are "
                "two machines that measured at once, or runs without ids of their own; nothing was joined"
            )
        moved = connection.execute(
            sa.select(sa.func.count()).select_from(runs).where(runs.c.node_id == other)
        ).scalar_one()
        _move(connection, schema.incidents, other, first.id, "kind", "started")
        _move(connection, schema.node_traits, other, first.id, "name")
        _move(connection, schema.node_machines, other, first.id, "mark")
        for table in (runs, schema.defects, schema.states):
            connection.execute(
                table.update().where(table.c.node_id == other).values(node_id=first.id)
            )
        latest = connection.execute(
            sa.select(runs.c.hardware_class)
            .where(runs.c.node_id == first.id, runs.c.hardware_class != "")
            .order_by(runs.c.started.desc(), runs.c.id.desc())
            .limit(1)
        ).scalar()
        values = {"since": min(first.since, row.since)}
        known = {"hardware_class": latest} if latest else {}
        connection.execute(nodes.update().where(nodes.c.id == first.id).values(**values, **known))
        connection.execute(others.delete().where(others.c.node_id == other))
        connection.execute(nodes.delete().where(nodes.c.id == other))
    return name, moved


def _move(connection: sa.Connection, table: sa.Table, other: int, first: int, *key: str) -> None:
    """Move a node's rows to another one, and delete those whose key that has already."""
    own = table.alias()
    same = sa.and_(own.c.node_id == first, *(own.c[name] == table.c[name] for name in key))
    double = sa.exists(sa.select(own.c.node_id).where(same).correlate(table))
    connection.execute(table.delete().where(table.c.node_id == other, double))
    connection.execute(table.update().where(table.c.node_id == other).values(node_id=first))
