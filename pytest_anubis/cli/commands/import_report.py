"""Lines of ``anubis import`` on a file (counts, dates, units, classes); those of many files are folded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.printing import say
from pytest_anubis.core.metric import first_of, is_known_unit, metric_name
from pytest_anubis.report.text.numbers import count_text

if TYPE_CHECKING:
    from pytest_anubis.store.importers.import_result import Imported


CELLS = {
    "unit": (
        "value",
        "in another unit or direction",
        "; most rows of a metric decide, others are not taken",
    ),
    "invalid": (
        "value",
        "invalid",
        "; values are finite and not below 0, durations not 0, else their sample is none",
    ),
    "failed": ("cell", "failed", ""),
    "missing": ("value", "missing", ""),
}
"""Kinds of cells that support no verdict: what is counted, what is wrong with it, and the rule."""


def counts_line(imported: Imported) -> str:
    """Return one line on what was kept, what failed or is missing, and what was left out."""
    nodes = {node for p in imported.populations for node in p.nodes}
    wrong = count_text(imported.wrong_count, "wrong line")
    causes = [(cause, count) for cause, count in imported.causes.items() if cause]
    if len(causes) > 1:
        wrong += f" ({', '.join(f'{count} {cause}' for cause, count in causes)})"
    parts = [
        f"{imported.values:,} value{'s' if imported.values != 1 else ''} of "
        f"{count_text(len(nodes), 'node')}",
        count_text(len(imported.populations), "metric"),
        *(
            f"{count_text(one.count, CELLS[one.kind][0])} {CELLS[one.kind][1]}"
            for one in imported.lost_cells
        ),
        wrong,
    ]
    if imported.left_out:
        parts.append(f"{count_text(imported.left_out, 'value')} of unknown direction left out")
    return ", ".join(parts)


def date_lines(imported: Imported, *, table: bool) -> list[str]:
    """Return a line on the date of runs without one of their own, and on how to give another."""
    if not imported.file_dated or not imported.runs:
        return []
    started = imported.runs[0].started
    date = f"dated {started}, when it was written" if started else "without a date"
    why = (
        "no column time holds moments (ISO 8601, or seconds since 1970)"
        if table
        else "it has no date"
    )
    return [f"{imported.source}: its runs are {date}: {why}; --date WHEN gives another"]


def unknown_units(imported: Imported, path: Path, own: Path | None) -> list[str]:
    """Return a line for every unit of unknown words: it is more often a typing error than a unit."""
    strange: dict[str, list[str]] = {}
    for population in imported.populations:
        if not is_known_unit(population.metric.unit):
            name = metric_name(population.benchmark, population.metric.name)
            strange.setdefault(population.metric.unit, []).append(name)
    lines = []
    for unit, names in strange.items():
        from pytest_anubis.store.importers.metric_map import read_metric_map

        line = read_metric_map(own).line_of_unit(unit) if own is not None else 0
        if line:  # a map states it, so it is meant
            continue
        more = f" and {len(set(names)) - 1} more" if len(set(names)) > 1 else ""
        lines.append(
            f"{path}: unit {unit!r} of {names[0]}{more} is none that is known, such as GB/s, us or count: "
            "its values are kept under it; mend it there, or say it in --map FILE.csv, and import again "
            "(--lenient: exit code 0)"
        )
    return lines


def in_other_classes(
    nodes: Collection[str], classes: Collection[str], earlier: Iterable[Path]
) -> dict[str, str]:
    """Return the nodes that an earlier import has in none of these hardware classes -> its class."""
    from pytest_anubis.store.samples.columnar_files import runs_in

    return {
        run.node: run.hardware_class
        for path in earlier
        for run in runs_in(path)
        if run.node in nodes and run.hardware_class not in classes
    }


def other_class_lines(elsewhere: Mapping[str, str], classes: Collection[str]) -> list[str]:
    """Return a line on the nodes that are in another hardware class in earlier imports; none without any."""
    if not elsewhere:
        return []
    here, there = (first_of(sorted(set(some)), MAX_EACH) for some in (classes, elsewhere.values()))
    return [
        f"{count_text(len(elsewhere), 'node')} in two hardware classes, each judged by itself: {here} here, "
        f"{there} in earlier imports; import all files of these nodes again with one --class KEY, and the "
        "--run ID that each had"
    ]


MAX_EACH = 3
"""Lines of one kind that are printed one by one, and files that a folded line names."""


class FoldedLines:
    """Lines about many files; those that say the same are printed once, with their number.

    Args:
        all_of_them: Print every line as it comes.
    """

    def __init__(self, *, all_of_them: bool) -> None:
        self._all = all_of_them
        self._lines: dict[str, list[tuple[str, str]]] = {}  # the first few of each kind
        self._counts: dict[str, int] = {}

    def add(self, about: object, text: str, *, kind: str = "") -> None:
        """Take a line about a file, which it may name.

        Lines of one `kind` say the same; without a kind those do that only differ in the file.
        """
        if self._all:
            say(text)
            return
        key = kind or text.replace(str(about), "")
        self._counts[key] = self._counts.get(key, 0) + 1
        known = self._lines.setdefault(key, [])
        if len(known) <= MAX_EACH:
            known.append((str(about), text))

    def flush(self) -> None:
        """Print what was gathered, in the order in which each kind was first met."""
        for key, known in self._lines.items():
            if self._counts[key] <= MAX_EACH:
                say(*(text for _, text in known))
                continue
            (_, first), *others = known
            named = ", ".join(about for about, _ in others[: MAX_EACH - 1])
            more = count_text(self._counts[key] - 1, "more file")
            say(f"{first} (and {more}, such as {named}; -v for each)")
        self._lines, self._counts = {}, {}
