"""Select the runs of a node that complete each other: its latest one, and those of the days before it.

Only these accept a node; a failure counts however old it is (`collected_judging`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.history import COMPLETING_SECONDS
from pytest_anubis.store.collected_runs import RunSet

Unit = tuple[str, str]
"""Node and hardware class."""
RunNode = tuple[str, str]
"""Run and node."""


def of_latest_days(runs: RunSet, ahead: Collection[RunNode]) -> tuple[RunSet, set[Unit]]:
    """Return the runs that complete each node's latest one, and the nodes that have older runs.

    A run without a date is never too old, and the runs in `ahead`, whose clock was, make no other run old.
    """
    began = {(run.run, run.node, run.hardware_class): moment(run.started) for run in runs.runs}
    latest: dict[Unit, float] = {}
    for (run, *unit), when in began.items():
        one: Unit = (unit[0], unit[1])
        if when is not None and (run, unit[0]) not in ahead:
            latest[one] = max(when, latest.get(one, when))
    old = {
        (run, node, key)
        for (run, node, key), when in began.items()
        if when is not None and latest.get((node, key), when) - when > COMPLETING_SECONDS
    }
    near = {(run, node) for run, node, _ in began.keys() - old}
    return only(runs, near) if old else runs, {(node, key) for _, node, key in old}


def only(runs: RunSet, units: Collection[RunNode]) -> RunSet:
    """Return the part of a set of runs that belongs to some runs, each named by its id and node."""
    kept = []
    for one in runs.populations:
        units_of_rows = zip(one.runs, one.nodes, strict=True)
        rows = [row for row, unit in enumerate(units_of_rows) if unit in units]
        if rows:
            kept.append(one.only(rows))
    return replace(
        runs,
        runs=tuple(run for run in runs.runs if (run.run, run.node) in units),
        journals=tuple(run for run in runs.journals if (run.run, run.node) in units),
        populations=tuple(kept),
    )
