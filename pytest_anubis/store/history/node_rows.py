"""Find or add the row of a node in the history by its name; all other rows refer to it by number."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from pytest_anubis.codec import without_surrogates
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.connections import HistoryError


def node_number(
    connection: sa.Connection, name: str, *, hardware_class: str = "", since: float | None = None
) -> int:
    """Return the number of a node, which is added if it is new, by default in service since now.

    An empty class leaves a known one as it is.

    Raises:
        HistoryError: The name is empty or unprintable.
    """
    row = held_node(connection, name, since=since)
    put_class(connection, row, hardware_class)
    return int(row.id)


def held_node(connection: sa.Connection, name: str, *, since: float | None = None) -> Any:
    """Return the locked row of a node, which is added if it is new; as `node_number`.

    The lock makes two filings of one run come one after the other.

    Raises:
        HistoryError: The name is empty or unprintable.
    """
    table = schema.nodes
    name = without_surrogates(name)
    if not name.strip() or not name.isprintable():
        raise HistoryError(f"node name {name[:40]!r} is empty or unprintable")
    query = sa.select(table).where(table.c.name == name).with_for_update()
    row = connection.execute(query).one_or_none()
    if row is None:
        since = time.time() if since is None else since
        values = {"name": name, "hardware_class": "", "since": since}
        with contextlib.suppress(IntegrityError), connection.begin_nested():  # added meanwhile
            connection.execute(table.insert().values(values))
        row = connection.execute(query).one()
    return row


def put_class(connection: sa.Connection, row: Any, hardware_class: str) -> None:
    """Set the hardware class of a node whose row is locked; an empty one changes nothing."""
    table = schema.nodes
    if hardware_class and hardware_class != row.hardware_class:
        connection.execute(
            table.update().where(table.c.id == row.id).values(hardware_class=hardware_class)
        )


def node_names(connection: sa.Connection) -> dict[int, str]:
    """Return number -> name of all nodes."""
    query = sa.select(schema.nodes.c.id, schema.nodes.c.name)
    return {row.id: row.name for row in connection.execute(query)}


def known_node(connection: sa.Connection, name: str) -> int:
    """Return the number of a node that must be known.

    Raises:
        HistoryError: It is not.
    """
    table = schema.nodes
    number = connection.execute(sa.select(table.c.id).where(table.c.name == name)).scalar()
    if number is None:
        raise HistoryError(unknown_node(name))
    return int(number)


def unknown_node(name: str) -> str:
    """Return the message about a node that the history does not know."""
    if "," in name:
        return f"node {name[:80]!r} is unknown: name one node here, without a comma"
    return (
        f"node {name[:80]!r} is unknown ('anubis history' lists the nodes); measuring it makes it known, as "
        "do 'anubis history nodes import' and --add-nodes of 'incident add', 'incident import' and 'state'"
    )
