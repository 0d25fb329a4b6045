"""Runs of a node that complete each other: the latest one, and those of the days before it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.history import TOGETHER
from pytest_anubis.store.collected_runs import RunSet

Unit = tuple[str, str]
"""Node and hardware class."""


def of_latest_days(runs: RunSet, ahead: Collection[tuple[str, str]]) -> tuple[RunSet, set[Unit]]:
    """Return the runs that complete each node's latest one, and of which nodes there are older ones.

    Args:
        runs: What was collected; a run whose date is unknown is never too old.
        ahead: (run, node) of runs whose clock was ahead of the present: they make no other one old.
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
        if when is not None and latest.get((node, key), when) - when > TOGETHER
    }
    near = {(run, node) for run, node, _ in began.keys() - old}
    return only(runs, near) if old else runs, {(node, key) for _, node, key in old}


def only(runs: RunSet, units: Collection[tuple[str, str]]) -> RunSet:
    """Return what was collected in some runs, each named by its id and node."""
    rows = [
        (
            one,
            [
                row
                for row, unit in enumerate(zip(one.runs, one.nodes, strict=True))
                if unit in units
            ],
        )
        for one in runs.populations
    ]
    return replace(
        runs,
        runs=tuple(run for run in runs.runs if (run.run, run.node) in units),
        journals=tuple(run for run in runs.journals if (run.run, run.node) in units),
        populations=tuple(one.only(mine) for one, mine in rows if mine),
    )
