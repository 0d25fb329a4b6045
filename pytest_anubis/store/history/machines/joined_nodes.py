"""Making one node of two in the history: a machine that got new parts, and was taken for another one."""

from __future__ import annotations

import sqlalchemy as sa

from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.history.nodes.node_rows import held_node, known_node

_LISTED = 3
"""Ids of runs that a line names."""


def join_node(history: History, called: str) -> tuple[str, int]:
    """Make a further machine of a name the same node as the one that keeps the name, for now and later.

    Its runs, defects, states, incidents and traits become that node's; what both have stays once. Runs of
    either machine are filed there from now on.

    Args:
        history: The history.
        called: What the further machine is called here, e.g. ``n1~3f2a``.

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
        first, row = held_node(connection, name), held_node(connection, called)
        mine = sa.select(runs.c.run).where(runs.c.node_id == first.id)
        both = connection.execute(
            sa.select(runs.c.run).where(runs.c.node_id == other, runs.c.run.in_(mine))
        )
        if twice := sorted(both.scalars()):
            more = ", ..." if len(twice) > _LISTED else ""
            raise HistoryError(
                f"{name} and {called} both have a run {', '.join(twice[:_LISTED])}{more}: these are two "
                "machines that measured at once, or runs without ids of their own; nothing was joined"
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
    """Give a node's rows to another one, but for those of which that has one of the same key."""
    own = table.alias()
    same = sa.and_(own.c.node_id == first, *(own.c[name] == table.c[name] for name in key))
    double = sa.exists(sa.select(own.c.node_id).where(same).correlate(table))
    connection.execute(table.delete().where(table.c.node_id == other, double))
    connection.execute(table.update().where(table.c.node_id == other).values(node_id=first))
