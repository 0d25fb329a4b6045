"""Keep in a small file how many runs and which imports a history had, to notice that it was lost.

A database file that was deleted, or replaced by an empty one, would silently be made anew by the next writer.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from pytest_anubis.codec.json_files import read_document
from pytest_anubis.store.atomic import write_atomically
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History

FILED = "history-filed.json"
"""File in the folder of a history with the number of its runs after the latest filing."""

_FORMAT = "anubis-history-filed"
_MAX_BYTES = 1 << 24  # a file has a hundred, and as many for each import


def lost_runs_line(history: History, place: Path | str) -> str:
    """Return one line if a history without runs had some before; empty if not, or if it is no file."""
    if isinstance(place, str) or not (before := _number(place)):
        return ""
    if _runs(history):
        return ""
    named = shlex.quote(str(place))
    return (
        f"history {place} is new: {before} run{'s' if before != 1 else ''} that it had are not in it, so "
        f"nodes that they rejected are unknown there; file them again: 'anubis push {named} --history "
        f"{named}' those of the store in this folder, 'anubis push STORE --history {named}' those of others"
    )


def note_filed(
    history: History, place: Path | str, imports: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write down how many runs a history has now, and the imports of its folder that were filed."""
    if isinstance(place, str):
        return
    before = noted_imports(place)
    runs = _runs(history)
    noted = before | dict(imports)
    if runs == _number(place) and noted == before:
        return
    text = json.dumps({"format": _FORMAT, "runs": runs} | ({"imports": noted} if noted else {}))
    with contextlib.suppress(OSError):  # this user may not write there: nothing is remembered
        write_atomically(place / FILED, f"{text}\n".encode())


def noted_imports(place: Path) -> dict[str, str]:
    """Return the imports of its folder that a history had: file name -> SHA-256."""
    found = _read(place).get("imports")
    return found if isinstance(found, dict) else {}


def has_run(history: History, node: str, run: str) -> bool:
    """Return whether a history has a run of a node."""
    runs, nodes = schema.runs, schema.nodes
    asked = sa.select(runs.c.id).join(nodes, nodes.c.id == runs.c.node_id)
    with history.reading() as connection:
        found = connection.execute(asked.where(nodes.c.name == node, runs.c.run == run).limit(1))
        return found.first() is not None


def _runs(history: History) -> int:
    with history.reading() as connection:
        return int(
            connection.execute(sa.select(sa.func.count()).select_from(schema.runs)).scalar_one()
        )


def _number(place: Path) -> int:
    """Return how many runs a history had; 0 if that is unknown."""
    known = _read(place).get("runs")
    return known if isinstance(known, int) else 0


def _read(place: Path) -> dict[str, Any]:
    return read_document(place / FILED, _FORMAT, largest=_MAX_BYTES)
