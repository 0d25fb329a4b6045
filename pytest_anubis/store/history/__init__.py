"""The database of all nodes (runs, verdicts, incidents, defects), and the small files next to it.

Samples have no rows: ``contents`` keeps journals and imports whole and compressed. Open ``tables.py`` for the
schema, ``database.py`` for its use, ``bounded_use.py`` for how callers use it within a time limit.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from pathlib import Path

HISTORY_NAME = "history.sqlite"
"""Name of a history's file in its folder."""

_SQLITE = "sqlite:///"


def history_file(place: Path | str) -> Path | None:
    """Return the SQLite file of a history, to see whether it exists, since opening a missing one creates it.

    A folder has one, a database URL only if it names one.
    """
    if isinstance(place, Path) or "://" not in place:
        return Path(place) / HISTORY_NAME
    path = place.partition("?")[0].removeprefix(_SQLITE)
    has_file = place.startswith(_SQLITE) and path not in ("", ":memory:")
    return Path(path) if has_file else None
