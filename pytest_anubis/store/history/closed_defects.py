"""Read the defects that operators have closed, for reports; without a history there are none."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.history import Defect
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.history.history_place import history_file

TIMEOUT = 5.0
"""Seconds for reading: a report must not wait long for what only informs."""


def closed_defects(place: Path | str, record: RunRecord) -> tuple[Defect, ...]:
    """Return the closed defects of a run's class found before it and by other runs, in time order.

    There are none if they cannot be read.

    Args:
        place: The store's folder or a database URL.
        record: The run, or several collected runs of a node as one.
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
    began = moment(record.started)
    own = {record.run, *(verdict.run for verdict in record.verdicts)}
    return tuple(
        one
        for one in found
        if one.closed is not None
        and one.hardware_class == record.hardware_class
        and (began is None or one.found < began)
        and not (one.node == record.node and not own.isdisjoint(one.runs))
    )
