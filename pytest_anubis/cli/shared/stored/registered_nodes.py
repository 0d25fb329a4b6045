"""Nodes that a history has registered and that nothing was ever run on: which, and how they are reported."""

from __future__ import annotations

from collections.abc import Collection

from pytest_anubis.cli.shared.history_access import may_be_there, use
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.store.run_filter import RunFilter

NAMED = 3
"""Names that stand in the sentence: a fleet that was just registered has hundreds."""


def registered_without_run(place: str, wanted: RunFilter) -> tuple[str, ...]:
    """Return the nodes of a history that have no run at all, sorted; those that were removed are left out.

    Args:
        place: Its folder or URL.
        wanted: Which nodes, by name and class; its other filters are of runs, which these have none of.

    Raises:
        HistoryError: It cannot be read.
    """
    from pytest_anubis.store.history.fleet_history import nodes_without_run

    found = use(place, nodes_without_run) if may_be_there(place) else ()
    return tuple(
        node.name
        for node in found
        if wanted.wants_node(node.name) and wanted.hardware_class in ("", node.hardware_class)
    )


def without_run_text(names: Collection[str]) -> str:
    """Return in one sentence that registered nodes have no run yet; empty without any."""
    if not names:
        return ""
    shown = ", ".join(sorted(names)[:NAMED])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    have = "has" if len(names) == 1 else "have"
    return f"{count_text(len(names), 'registered node')} {have} no run yet: {shown}{more}"
