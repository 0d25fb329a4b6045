"""Split the hardware classes of collected runs by a version or a setting of their nodes (``--split``).

`fleet_source` also searches a run's versions and settings (`run_facts`) for what slow nodes share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import few
from pytest_anubis.core.metric import first_of
from pytest_anubis.hardware.inventory.hardware_classes import node_facts, split_by, split_key
from pytest_anubis.hardware.inventory.inventory_reading import InventoryError, inventory_from_plain
from pytest_anubis.report.text.numbers import count_text

if TYPE_CHECKING:
    from pytest_anubis.core.run import RunRecord
    from pytest_anubis.core.sample import Population
    from pytest_anubis.store.collected_runs import RunSet

MAX_NAMES_LISTED = 12
"""Names of attributes or classes in one line."""


def run_facts(run: RunRecord) -> dict[str, str]:
    """Return what may differ between a run's node and others of its class: versions, firmware, settings."""
    facts = {**run.traits, **run.attributes}
    with contextlib.suppress(InventoryError):  # the part that needs the inventory reports it
        if run.inventory:
            facts |= node_facts(inventory_from_plain(run.inventory, where=run.run))
    return facts


def class_lines(runs: RunSet) -> list[str]:
    """Return a line that names the hardware classes of some runs, if there are several."""
    from pytest_anubis.store.importers.import_result import UNCLASSIFIED

    nodes: dict[str, set[str]] = {}
    for population in runs.populations:
        nodes.setdefault(population.hardware_class, set()).update(population.nodes)
    if len(nodes) < 2:
        return []
    most = sorted(nodes, key=lambda key: (-len(nodes[key]), key))
    named = [f"{key or '(unnamed)'} ({count_text(len(nodes[key]), 'node')})" for key in most]
    shown = first_of(named, MAX_NAMES_LISTED)
    forgotten = (
        f"; class {UNCLASSIFIED!r} has the imports without a class: import these files again with --class KEY"
        if UNCLASSIFIED in nodes
        else ""
    )
    return [f"{len(nodes)} hardware classes, each with limits of its own: {shown}{forgotten}"]


def split_classes(runs: RunSet, names: Sequence[str]) -> RunSet:
    """Return the runs with hardware classes split by attributes, with the keys of ``--anubis-split``."""
    if not names:
        return runs
    from pytest_anubis.core.gather import Gather

    # A table may hold one node in two classes, so the class is part of a run's key.
    every = {_run_key(run): run_facts(run) for run in (*runs.runs, *runs.journals)}
    for name in names:
        if not any(name in facts for facts in every.values()):
            known = sorted({name for facts in every.values() for name in facts})
            choices = f"choose one of: {few(known, MAX_NAMES_LISTED)}"
            raise CommandError(
                f"--split {name}: no run has this attribute; {choices if known else 'no run has any'}"
            )

    def split(run: RunRecord) -> RunRecord:
        own = split_by([n for n in names if n not in run.attributes], every[_run_key(run)])
        key = split_key(run.hardware_class, run.attributes, own) if own else run.hardware_class
        return replace(run, hardware_class=key, attributes={**run.attributes, **own})

    changed = tuple(map(split, runs.runs))
    keys = {_run_key(old): new.hardware_class for old, new in zip(runs.runs, changed, strict=True)}
    # Join runs that are split here with runs already split by ``--anubis-split``.
    gather = Gather()
    for one in runs.populations:
        for part in _parts(one, keys):
            gather.add_population(part)
    return replace(
        runs,
        runs=changed,
        journals=tuple(map(split, runs.journals)),
        populations=gather.populations(),
    )


def _run_key(run: RunRecord) -> tuple[str, str, str]:
    return (run.run, run.node, run.hardware_class)


def _parts(population: Population, keys: dict[tuple[str, str, str], str]) -> list[Population]:
    """Return a population's rows, grouped by the class of their run."""
    by_class: dict[str, list[int]] = {}
    was = population.hardware_class
    for row, (run, node) in enumerate(zip(population.runs, population.nodes, strict=True)):
        by_class.setdefault(keys.get((run, node, was), was), []).append(row)
    if list(by_class) == [was]:
        return [population]
    return [replace(population.only(rows), hardware_class=key) for key, rows in by_class.items()]
