"""Pool the values of all devices of a node in one run as one sample, for criteria of whole nodes.

A run of only some devices is completed from earlier runs. `usual_devices` finds the devices of most nodes.
`column_judging`, `criterion_learning` and `learning_steps` use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from pytest_anubis.core.gather import SampleStorage, reordered
from pytest_anubis.core.sample import IntArray, Population, SampleProblem
from pytest_anubis.validator.similarity.usable_rows import name_codes


def pooled(population: Population, storage: SampleStorage | None = None) -> Population:
    """Return the population with one row per node and run, which holds the values of all its devices.

    Pooling dilutes one bad device of G by the factor G, so the devices are judged by themselves as well. A
    node with an unusable device has no pooled sample, since the other devices would hide the missing one.
    Values that have to be reordered go to the storage, if there is one.
    """
    nodes, runs, owner, order = _by_node(tuple(population.nodes), tuple(population.runs))
    sizes = np.diff(population.offsets)
    if np.array_equal(order, np.arange(len(sizes))):  # gathered populations mostly are: no copy
        values = population.values[: population.offsets[-1]][population.offsets[0] :]
    else:
        begins = np.asarray(population.offsets)[order]
        offsets = np.concatenate([[0], np.cumsum(sizes[order])])
        values = reordered(population.values, begins, offsets, storage)
    lengths = np.bincount(owner, weights=sizes, minlength=len(nodes)).astype(np.int64)
    problems: dict[int, SampleProblem] = {}
    for row, problem in sorted(population.problems.items()):
        problems.setdefault(
            int(owner[row]),
            SampleProblem(kind=problem.kind, text=f"{population.devices[row]}: {problem.text}"),
        )
    return replace(
        population,
        nodes=nodes,
        devices=("node",) * len(nodes),
        runs=runs,
        values=values,
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        problems=problems,
        looks=_looks(population, owner, len(nodes)),
    )


def with_earlier_devices(
    population: Population, started: Mapping[tuple[str, str], str]
) -> Population:
    """Complete runs of some of a node's devices with the other devices' values from earlier runs.

    Some devices alone say nothing about the node as a whole. A run that stays incomplete is left out, but
    not if all runs of the node do. A missing value counts as not measured. A run without a time completes no
    other run.
    """
    nodes = _by_node(tuple(population.nodes), tuple(population.runs))[0]
    if len(set(nodes)) == len(nodes):  # one run each
        return population
    population = _measured(population)
    runs: dict[str, dict[str, dict[str, int]]] = {}  # node -> run -> device -> row
    units = zip(population.nodes, population.runs, population.devices, strict=True)
    for row, (node, run, device) in enumerate(units):
        runs.setdefault(node, {}).setdefault(run, {})[device] = row
    added: list[tuple[int, str]] = []  # row, and the run that it is added to
    left_out: set[int] = set()
    for node, of_run in runs.items():
        every = set[str]().union(*of_run.values())
        if all(len(rows) >= len(every) for rows in of_run.values()):
            continue
        known: dict[str, int] = {}
        partial = []
        for run in sorted(of_run, key=lambda run: (started.get((run, node), ""), run)):
            earlier = {d: row for d, row in known.items() if d not in of_run[run]}
            if len(of_run[run]) + len(earlier) == len(every):
                added += ((row, run) for row in earlier.values())
            else:
                partial.append(run)
            if started.get((run, node)):
                known |= of_run[run]
        if len(partial) < len(of_run):
            left_out.update(row for run in partial for row in of_run[run].values())
    if not added and not left_out:
        return population
    rows = [row for row in range(len(population)) if row not in left_out]
    found = population.only([*rows, *(row for row, _ in added)])
    names = (*(population.runs[row] for row in rows), *(run for _, run in added))
    return replace(found, runs=names)


def _measured(population: Population) -> Population:
    """Return the population without missing rows; nodes with one run, or no other row, keep theirs."""
    missing = {row for row, problem in population.problems.items() if problem.lacks}
    if not missing:
        return population
    runs: dict[str, set[str]] = {}
    there = set[str]()
    for row, (node, run) in enumerate(zip(population.nodes, population.runs, strict=True)):
        runs.setdefault(node, set()).add(run)
        there |= set() if row in missing else {node}
    left = {node for node in there if len(runs[node]) > 1}
    rows = [
        row for row, node in enumerate(population.nodes) if row not in missing or node not in left
    ]
    return population.only(rows)


@lru_cache(maxsize=8)  # metrics of one fleet share their units
def _by_node(
    nodes: tuple[str, ...], runs: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...], IntArray, IntArray]:
    """Return each pooled row's node and run, each unit's pooled row, and the units in their order."""
    names, node_code = name_codes(nodes)
    run_names, run_code = name_codes(runs)
    distinct, owner = np.unique(node_code * len(run_names) + run_code, return_inverse=True)
    order = np.argsort(owner, kind="stable")
    for one in (owner, order):
        one.setflags(write=False)
    return (
        tuple(names[code // len(run_names)] for code in distinct.tolist()),
        tuple(run_names[code % len(run_names)] for code in distinct.tolist()),
        owner,
        order,
    )


def _looks(population: Population, owner: IntArray, count: int) -> dict[int, int]:
    """Return pooled row -> looks, the fewest of its devices, for rows with more than one look."""
    if not population.looks:
        return {}
    each = np.ones(len(population), dtype=np.int64)
    each[list(population.looks)] = list(population.looks.values())
    least = np.full(count, each.max())
    np.minimum.at(least, owner, each)
    return {row: int(least[row]) for row in np.flatnonzero(least > 1).tolist()}


def usual_devices(population: Population) -> tuple[str, ...]:
    """Return the devices on which more than half of the nodes measured a metric, sorted.

    Samples that were left out of learning, for example because of a disturbance, count too.
    """
    absent = (row for row, problem in population.problems.items() if problem.lacks)
    return _usual(tuple(population.nodes), tuple(population.devices), frozenset(absent))


@lru_cache(maxsize=8)  # metrics of one fleet share their units
def _usual(
    nodes_of: tuple[str, ...], devices: tuple[str, ...], absent: frozenset[int]
) -> tuple[str, ...]:
    if len(set(devices)) == 1:
        return (devices[0],)
    rows = zip(nodes_of, devices, strict=True)
    pairs = {pair for row, pair in enumerate(rows) if row not in absent}
    nodes = len({node for node, _ in pairs})
    counts = Counter(device for _, device in pairs)
    return tuple(sorted(device for device, count in counts.items() if 2 * count > nodes))
