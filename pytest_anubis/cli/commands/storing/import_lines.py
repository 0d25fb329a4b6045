"""Lines that ``anubis import`` says of a file besides its counts: strange units, and its date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.core.metric import is_known_unit, metric_name

if TYPE_CHECKING:
    from pytest_anubis.store.importers.import_result import Imported


def date_lines(imported: Imported, *, table: bool) -> list[str]:
    """Say which date the runs got and how to give another, where the file has none."""
    if not imported.file_dated or not imported.runs:
        return []
    started = imported.runs[0].started
    date = f"dated {started}, when it was written" if started else "without a date"
    why = (
        "no column time holds moments (ISO 8601, or seconds since 1970)"
        if table
        else "it tells no date"
    )
    return [f"{imported.source}: its runs are {date}: {why}; --date WHEN gives another"]


def unknown_units(imported: Imported, path: Path, own: Path | None) -> list[str]:
    """Return a line for every unit that is made of no known words: more often a slip than a unit."""
    strange: dict[str, list[str]] = {}
    for population in imported.populations:
        if not is_known_unit(population.metric.unit):
            name = metric_name(population.benchmark, population.metric.name)
            strange.setdefault(population.metric.unit, []).append(name)
    lines = []
    for unit, names in strange.items():
        from pytest_anubis.store.importers.metric_map import read_metric_map

        line = read_metric_map(own).line_of_unit(unit) if own is not None else 0
        if line:  # somebody has said it with thought
            continue
        more = f" and {len(set(names)) - 1} more" if len(set(names)) > 1 else ""
        lines.append(
            f"{path}: unit {unit!r} of {names[0]}{more} is none that is known, such as GB/s, us or count: "
            "its values are kept under it; mend it there, or say it in --map FILE.csv, and import again "
            "(--lenient: exit code 0)"
        )
    return lines
