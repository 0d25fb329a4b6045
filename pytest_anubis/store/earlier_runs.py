"""A node's own earlier runs out of the store, as what a new run of it can be compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError, parse_json
from pytest_anubis.codec.input_limits import LARGEST_JSON
from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.core.sample import Population
from pytest_anubis.store.collected_runs import RunsError, read_runs
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME

MOST = 20
"""The latest runs are enough to know a node's own spread."""


def earlier_populations(
    store: Path, *, node: str, hardware_class: str, profile: str, before: str
) -> tuple[Population, ...]:
    """Return what a node measured in its latest earlier runs of the same class and profile.

    Runs that nothing may be learned from (rejected, broken off, disturbed throughout) take no part; a
    journal that cannot be read takes no part either, since this run must not fail for it.

    Args:
        store: Folder of the store.
        node: Name of the node.
        hardware_class: Key of its class.
        profile: Profile of this run.
        before: Id of this run, which is left out.
    """
    found = []
    for started, path in _journals(store, node, hardware_class, profile, before):
        found.append((started, str(path), path))
    latest = [path for _, _, path in sorted(found, reverse=True)[:MOST]]
    if not latest:
        return ()
    try:
        return read_runs(latest, learning=True).populations
    except RunsError:
        return ()


def earlier_inventory(store: Path, *, node: str, before: str) -> Mapping[str, Any]:
    """Return what a node consisted of in its latest earlier run, as plain data; empty without one.

    Args:
        store: Folder of the store.
        node: Name of the node.
        before: Id of this run, which is left out.
    """
    heads = [head_of(path) for path in (store / "runs").glob(f"*/{JOURNAL_NAME}")]
    known = [
        (str(head.get("started", "")), inventory)
        for head in heads
        if head.get("node") == node
        and head.get("run") != before
        and isinstance(inventory := head.get("inventory"), Mapping)
    ]
    return max(known, key=lambda one: one[0], default=("", {}))[1]


def latest_journals(store: Path, *, hardware_class: str, most: int) -> list[Path]:
    """Return the journals of the latest runs of a hardware class, newest first.

    Args:
        store: Folder of the store; it need not be there.
        hardware_class: Key of the class, which tells the profile too.
        most: How many at most.
    """
    found = [
        (str(head.get("started", "")), str(path), path)
        for path in (store / "runs").glob(f"*/{JOURNAL_NAME}")
        if (head := head_of(path)).get("hardware_class") == hardware_class
    ]
    return [path for _, _, path in sorted(found, reverse=True)[:most]]


def journals_of(store: Path, node: str) -> list[Path]:
    """Return the journals of a node in a store, newest first."""
    heads = ((head_of(path), path) for path in (store / "runs").glob(f"*/{JOURNAL_NAME}"))
    found = [(str(h.get("started", "")), str(p), p) for h, p in heads if h.get("node") == node]
    return [path for _, _, path in sorted(found, reverse=True)]


def _journals(
    store: Path, node: str, hardware_class: str, profile: str, before: str
) -> Iterator[tuple[str, Path]]:
    for path in (store / "runs").glob(f"*/{JOURNAL_NAME}"):
        head = head_of(path)
        same = (
            head.get("node") == node
            and head.get("hardware_class") == hardware_class
            and head.get("profile") == profile
        )
        if same and head.get("run") != before:
            yield str(head.get("started", "")), path


def head_of(path: Path) -> dict[str, Any]:
    """Return the first event of a journal, empty if it cannot be read."""
    try:
        with open_regular(path) as lines:
            event = parse_json(lines.readline(LARGEST_JSON), strict=False)
    except (OSError, CodecError):
        return {}
    return event if isinstance(event, dict) else {}
