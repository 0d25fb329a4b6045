"""Read the defects that operators have closed, for reports; without a history there are none."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.core.history import Defect
from pytest_anubis.store.history.history_place import history_file

TIMEOUT = 5.0
"""Seconds for reading: a report must not wait long for what only informs."""


def closed_defects(place: Path | str, hardware_class: str) -> tuple[Defect, ...]:
    """Return the closed defects of a hardware class, in time order; none if they cannot be read.

    Args:
        place: The store's folder or a database URL.
        hardware_class: Key of the class.
    """
    file = history_file(place)
    if file is not None and not file.is_file():  # reading would create it
        return ()
    from pytest_anubis.store.history.bounded_use import use_history
    from pytest_anubis.store.history.database import HistoryError
    from pytest_anubis.store.history.defect_records import defects

    try:
        found = use_history(place, defects, limit=TIMEOUT)
    except HistoryError:
        return ()
    return tuple(
        one for one in found if one.closed is not None and one.hardware_class == hardware_class
    )
