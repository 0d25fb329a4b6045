"""Find the latest journals of a node in a store by their first events, without reading the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_anubis.codec.input_limits import LARGEST_JSON
from pytest_anubis.codec.moments import moment
from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.core.events import RunStarted
from pytest_anubis.store.journal.journal_file import RUNS_FOLDER
from pytest_anubis.store.journal.journal_lines import parse_line
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME
from pytest_anubis.store.namesakes import kept_names

Head = tuple[Path, Mapping[str, Any]]
"""A journal and its first event."""


def newest_first(
    store: Path, wanted: Mapping[str, str], *, without: str = "", after: float = -1.0
) -> list[Head]:
    """Return journals with their first events, newest first.

    Args:
        store: Folder of the store.
        wanted: Fields of the first event and their values.
        without: Id of a run that is left out.
        after: When they began at the earliest, seconds since 1970; what was last written before is not read.
    """
    found = []
    for path in _written_after(store, after):
        head = head_of(path)
        own = head and all(head.get(key) == value for key, value in wanted.items())
        if own and head.get("run") != without and began_of(head) > after:
            found.append((path, head))
    return sorted(
        found, key=lambda one: (str(one[1].get("started", "")), str(one[0])), reverse=True
    )


def headless(store: Path, *, without: str = "", after: float = -1.0) -> list[tuple[Path, float]]:
    """Return the journals whose first event cannot be read, and when they were last written, newest first.

    As of `newest_first`, and what was last written before `after` is left out, whenever its run began.
    """
    found = [
        (path, path.stat().st_mtime)
        for path in _written_after(store, after)
        if path.parent.name != without and not head_of(path)
    ]
    return sorted(found, key=lambda one: one[1], reverse=True)


def last_written(store: Path) -> Iterator[dict[str, Any]]:
    """Yield the first events of the journals of a store, that of the last written one first."""
    paths = {path: path.stat().st_mtime for path in _written_after(store, -1.0)}
    yield from map(head_of, sorted(paths, key=paths.__getitem__, reverse=True))


def _written_after(store: Path, after: float) -> Iterator[Path]:
    for path in (store / RUNS_FOLDER).glob(f"*/{JOURNAL_NAME}"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime > after:
                yield path


def of_node(heads: Sequence[Head], node: str, names: Iterable[str]) -> list[Head]:
    """Return the journals of a node under all its names; `names` are other known nodes."""
    nodes = [str(head.get("node")) for _, head in heads]
    same = kept_names({*nodes, *names, node})
    own = same.get(node, node)
    return [one for one, name in zip(heads, nodes, strict=True) if same.get(name, name) == own]


def began_of(head: Mapping[str, Any]) -> float:
    """Return when a run began by the first event of its journal, seconds since 1970; 0 if unknown."""
    return moment(str(head.get("started"))) or 0.0


def head_of(path: Path) -> dict[str, Any]:
    """Return the first event of a journal, empty if it cannot be read, is damaged or lost."""
    try:
        with open_regular(path) as lines:
            found = parse_line(lines.readline(LARGEST_JSON))
    except (OSError, ValueError):
        return {}
    return found if found.get("event") == RunStarted.kind else {}
