"""Read the defects that operators have closed, which reports show as precedents; none without a history.

`fleet_source`, `live_run` and `report_command` use it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.history import Defect, earlier_defects
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.history import history_file

Places = Sequence[Path | str]
"""Files and folders of runs, and database URLs."""

TIMEOUT = 5.0
"""Seconds for reading: a report must not wait long for what only informs."""


def closed_defects(place: Path | str, record: RunRecord) -> tuple[Defect, ...]:
    """Return the closed defects of a run's class found before it and by other runs, in time order.

    The record may be of several collected runs of a node.
    """
    return earlier_defects(
        all_closed_defects(place),
        node=record.node,
        hardware_class=record.hardware_class,
        began=moment(record.started),
        runs={record.run, *(verdict.run for verdict in record.verdicts)},
    )


def closed_runs(places: Places, nodes: Container[str]) -> set[tuple[str, str]]:
    """Return (run, node) of the nodes' runs whose defect an operator has closed in their store's history.

    Files and folders are searched upwards for their stores.
    """
    stores = set[Path | str]()
    for place in places:
        above = place.absolute().parents[:3] if isinstance(place, Path) else ()
        stores.update((place, *above))
    return {
        (run, defect.node)
        for place in stores
        for defect in all_closed_defects(place)
        if defect.node in nodes and not defect.passed
        for run in (defect.run, *defect.runs)
    }


def all_closed_defects(place: Path | str) -> tuple[Defect, ...]:
    """Return all closed defects of a history with what failed in them; none if they cannot be read."""
    file = history_file(place)
    if file is not None and not file.is_file():  # reading would create it
        return ()
    from pytest_anubis.store.history.bounded_use import use_history
    from pytest_anubis.store.history.database import HistoryError
    from pytest_anubis.store.history.defect_records import closed_with_metrics

    try:
        return use_history(place, closed_with_metrics, limit=TIMEOUT)
    except HistoryError:
        return ()
