"""Keep a node's rejection that `anubis health` found only in a history, in case that history is lost.

There is one small file for each node in the store, written when the answer has changed.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import NamedTuple

from pytest_anubis.codec import without_surrogates
from pytest_anubis.codec.json_files import read_document
from pytest_anubis.store.atomic import write_atomically
from pytest_anubis.store.history import HISTORY_NAME
from pytest_anubis.store.journal.journal_file import journal_path
from pytest_anubis.store.journal.journal_heads import head_of
from pytest_anubis.store.node_standing import standing_file

FOLDER = "history-rejected"

_FORMAT = "anubis-history-rejected"
_MAX_BYTES = 1 << 16  # a file has a few hundred


class KeptRejection(NamedTuple):
    """A node's rejection: the reason as it was shown, the run's id, and when that run began."""

    reason: str
    run: str
    began: float = 0.0


def kept_rejection(store: Path, node: str) -> KeptRejection | None:
    """Return the rejection that the history had when it was last asked; None if it had none."""
    found = read_document(_file(store, node), _FORMAT, largest=_MAX_BYTES)
    reason, run, began = (found.get(name) for name in ("reason", "run", "began"))
    if not (isinstance(reason, str) and isinstance(run, str)):
        return None
    return KeptRejection(reason, run, began if isinstance(began, float) else 0.0)


def keep_rejection(store: Path, node: str, rejection: KeptRejection | None) -> None:
    """Write down the rejection of a node in the history; None deletes it."""
    if rejection == kept_rejection(store, node):
        return
    path = _file(store, node)
    # A user without write access can run health checks too.
    with contextlib.suppress(OSError, ValueError):
        if rejection is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(exist_ok=True)
        plain = {"format": _FORMAT, **rejection._asdict()}
        write_atomically(path, without_surrogates(json.dumps(plain) + "\n").encode())


def _file(store: Path, node: str) -> Path:
    return store / FOLDER / standing_file(store, node).name


def has_foreign_verdict(store: Path, node: str) -> bool:
    """Return whether a store's history has a run that may reject a node and has no journal in the store.

    It does not accept the node, or accepts it by a waiver, which may have ended since.

    It asks SQLite itself, since loading SQLAlchemy takes a third of a second, longer than a health check.
    """
    place = (store / HISTORY_NAME).absolute()
    if not place.is_file():
        return False
    node = node.lower()
    short = node.partition(".")[0]
    query = (
        "SELECT runs.run FROM runs JOIN nodes ON nodes.id = runs.node_id WHERE (runs.decision != 'ACCEPTED' "
        "OR runs.id IN (SELECT run_id FROM findings WHERE reason = 'waived')) "
        "AND (lower(nodes.name) IN (?, ?) OR substr(lower(nodes.name), 1, ?) = ?)"
    )
    words = (node, short, len(short) + 1, f"{short}.")
    try:
        with contextlib.closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True)) as there:
            runs = [str(run) for (run,) in there.execute(query, words)]
    except sqlite3.Error:
        return True  # reading it in full says why

    def is_own(run: str) -> bool:
        name = str(head_of(journal_path(store, run)).get("node")).lower()
        return name in (node, short) or name.startswith(f"{short}.")

    return not all(map(is_own, runs))
