"""The baseline of one hardware class, and what of it comes from the runs as a whole."""

from __future__ import annotations

import argparse
import datetime as dt
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.shared.class_split import facts_of
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.core.baseline import UnlikeNode
from pytest_anubis.hardware.inventory.golden_inventory import golden_inventory
from pytest_anubis.hardware.inventory.inventory_reading import (
    InventoryError,
    inventory_from_plain,
    inventory_to_plain,
)

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.gather import SampleStorage
    from pytest_anubis.core.sample import Population
    from pytest_anubis.store.collected_runs import RunSet


def learned_class(
    options: argparse.Namespace,
    key: str,
    populations: Sequence[Population],
    runs: RunSet,
    *,
    progress: Callable[[int, int], None] | None = None,
    engine: Executor | None = None,
    storage: SampleStorage | None = None,
) -> Baseline:
    """Learn the baseline of one class.

    Args:
        options: Those of the command.
        key: The class.
        populations: Its own.
        runs: What was read of all classes.
        progress: Called with (done, all) after every criterion.
        engine: Learns metrics in parallel; None: one after the other.
        storage: Where the values lie.

    Raises:
        LearnError: The populations contradict each other.
    """
    from pytest_anubis.cli.learning.kept_decisions import decisions_in
    from pytest_anubis.validator import learn_baseline

    return learn_baseline(
        populations,
        hardware_class=key,
        attributes=runs.classes.get(key, {}),
        node_attributes=_node_attributes(runs, key),
        created=_moment(),
        alpha=options.alpha,
        method=options.method,
        error_rate=options.error_rate,
        promises=dict(options.promise),
        progress=progress,
        executor=engine,
        storage=storage,
        failed=_failed(runs, key),
        decide=decisions_in(options.output, key),
    )


def _failed(runs: RunSet, key: str) -> dict[str, UnlikeNode]:
    """Return the nodes of a class that failed a test without a metric, as judging will find them."""
    from pytest_anubis.validator.deciding.run_decision import failed_checks

    mine = [run for run in runs.runs if run.hardware_class == key]
    return {
        node: UnlikeNode(
            node=node,
            benchmark=verdict.benchmark,
            metric=verdict.metric,
            device=verdict.device,
            component=verdict.component,
            similarity=0.0,
            failure=verdict.text,
        )
        for (node, _), verdict in failed_checks(mine, runs.unmeasured).items()
    }


def _moment() -> str:
    """Return now, or the moment of SOURCE_DATE_EPOCH where it is set, so that the same runs give one file."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    try:
        now = dt.datetime.fromtimestamp(int(stated), dt.UTC) if stated else dt.datetime.now(dt.UTC)
    except (ValueError, OverflowError, OSError):
        raise CommandError(
            f"SOURCE_DATE_EPOCH: {stated[:40]!r} is no moment in seconds since 1970"
        ) from None
    return now.isoformat(timespec="seconds")


def _node_attributes(runs: RunSet, key: str) -> dict[str, dict[str, str]]:
    """Return node -> what could tell it from other nodes of its class: versions, firmware, settings."""
    found: dict[str, dict[str, str]] = {}
    for run in runs.runs:
        if run.hardware_class == key:
            found.setdefault(run.node, {}).update(facts_of(run))
    return found


def golden_of(runs: RunSet, key: str) -> dict[str, Any]:
    """Return the inventory that most nodes of the class have; empty if no run has one that can be read."""
    inventories = []
    for run in runs.runs:
        if run.hardware_class == key and run.inventory:
            try:
                inventories.append(inventory_from_plain(run.inventory, where=f"run {run.run}"))
            except InventoryError as error:
                say(f"note: {error}")
    return inventory_to_plain(golden_inventory(inventories)) if inventories else {}
