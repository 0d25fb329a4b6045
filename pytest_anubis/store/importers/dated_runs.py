"""Tell runs of one id apart by their dates, since tools write each day's results under the same name.

`of_one_class` separates those of a node in several classes, for a history.

`import_folder`, `collected_runs` and `unfiled` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population

RunNode = tuple[str, str]
"""Run and node."""

_MIN_PAUSE = 4 * 3600.0
"""Seconds between the beginnings of two runs; as between two runs in one table (`grouping`)."""
_DAY, _MINUTE, _SECOND = 10, 16, 19
"""Characters of an ISO 8601 date up to these units."""


def are_apart(run: RunRecord, other: RunRecord) -> bool:
    """Return whether two runs of one id began at different times, so that neither replaces the other.

    Several files may hold parts of one run. A file without dates may be corrected on the day on which it was
    written.
    """
    began, before = moment(run.started), moment(other.started)
    if began is None or before is None:
        return False
    if run.file_dated or other.file_dated:
        return run.started[:_DAY] != other.started[:_DAY]
    return abs(began - before) > _MIN_PAUSE


def dated_names(
    runs: Iterable[RunRecord], known: Callable[[RunNode], RunRecord | None]
) -> dict[RunNode, str]:
    """Return (run, node) -> another id, with its date, of runs whose id a known run of another time has."""
    found = {}
    for run in runs:
        name = run.run
        for length in (_DAY, _MINUTE, _SECOND):
            other = known((name, run.node))
            if other is None or not are_apart(run, other):
                break
            name = f"{run.run}.{run.started[:length].replace(':', '')}"
        if name != run.run:
            found[run.run, run.node] = name
    return found


def of_one_class(
    populations: Iterable[Population], runs: Sequence[RunRecord]
) -> tuple[tuple[Population, ...], tuple[RunRecord, ...]]:
    """Return populations and runs, each run in one class: a node's run in further ones is named by them."""
    first: dict[RunNode, str] = {}
    for run in runs:
        first.setdefault((run.run, run.node), run.hardware_class)
    if len(first) == len(runs):
        return tuple(populations), tuple(runs)

    def named(unit: RunNode, key: str) -> str:
        return unit[0] if first.get(unit, key) == key else f"{unit[0]}.{key}"

    def of_population(one: Population) -> Population:
        units = zip(one.runs, one.nodes, strict=True)
        return replace(one, runs=tuple(named(unit, one.hardware_class) for unit in units))

    return (
        tuple(map(of_population, populations)),
        tuple(replace(r, run=named((r.run, r.node), r.hardware_class)) for r in runs),
    )


def with_names(
    populations: Iterable[Population], runs: Iterable[RunRecord], names: Mapping[RunNode, str]
) -> tuple[tuple[Population, ...], tuple[RunRecord, ...]]:
    """Return populations and runs with other ids: (run, node) -> id."""
    if not names:
        return tuple(populations), tuple(runs)

    def named(one: Population) -> Population:
        units = zip(one.runs, one.nodes, strict=True)
        return replace(one, runs=tuple(names.get(unit, unit[0]) for unit in units))

    return (
        tuple(map(named, populations)),
        tuple(replace(run, run=names.get((run.run, run.node), run.run)) for run in runs),
    )
