"""Return the path of a history's SQLite file, to check that it exists: opening a missing one creates it."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.store.history import HISTORY_NAME

_SQLITE = "sqlite:///"


def history_file(place: Path | str) -> Path | None:
    """Return the file of a history, which may not exist; None for a database without one."""
    if isinstance(place, Path) or "://" not in place:
        return Path(place) / HISTORY_NAME
    path = place.partition("?")[0].removeprefix(_SQLITE)
    has_file = place.startswith(_SQLITE) and path not in ("", ":memory:")
    return Path(path) if has_file else None
