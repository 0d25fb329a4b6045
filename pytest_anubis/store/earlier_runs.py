"""Find a node's earlier runs in the store, which a new run of it is compared with.

Judging compares metrics with the node's own samples, and the gate its cards with those of its latest run.
`gate_plugin` and `live_run` use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_anubis.core.sample import Population
from pytest_anubis.store.collected_runs import RunsError, read_runs
from pytest_anubis.store.journal.journal_heads import last_written, newest_first

MAX_RUNS = 20
"""Latest runs that are read: enough to know a node's own spread."""


def earlier_populations(
    store: Path, *, node: str, hardware_class: str, profile: str, before: str
) -> tuple[Population, ...]:
    """Return a node's samples from its latest earlier runs of the same class and profile.

    Runs that nothing may be learned from (rejected, broken off, disturbed throughout) and unreadable journals
    are left out, since this run must not fail because of them.
    """
    own = {"node": node, "hardware_class": hardware_class, "profile": profile}
    latest = [path for path, _ in newest_first(store, own, without=before)[:MAX_RUNS]]
    if not latest:
        return ()
    try:
        return read_runs(latest, learning=True).populations
    except RunsError:
        return ()


def earlier_inventories(store: Path, *, node: str, before: str) -> Iterator[Mapping[str, Any]]:
    """Yield a node's inventories in its latest runs other than `before` as plain data, the newest first.

    Recorded ones are left out: they may be of another machine.
    """

    def own(head: Mapping[str, Any]) -> Any:
        settings = head.get("settings")
        recorded = isinstance(settings, Mapping) and settings.get("inventory")
        mine = head.get("node") == node and head.get("run") != before
        return head.get("inventory") if mine and not recorded else None

    found = (one for one in map(own, last_written(store)) if isinstance(one, Mapping) and one)
    yield from islice(found, MAX_RUNS)
