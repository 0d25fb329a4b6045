"""An inventory as HTML for the dossier and pytest-html's report: shared readings once, others in a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_anubis.report.pages.rendering import fragment
from pytest_anubis.report.text.shared_lines import inventory_line

_NAMES = ("index", "name", "slot", "pci")
"""Readings that identify a part: each part shows its own, even where all are alike."""
_SHOWN_ELSEWHERE = frozenset({"schema", "node", "taken"})
MAX_DEPTH = 8
"""Levels of nesting shown; a damaged file may hold more."""


def inventory_block(inventory: Mapping[str, Any], *, open_: bool = False) -> Markup:
    """Return an inventory, plain data of any shape, as tables that can be folded; nothing for none."""
    if not inventory:
        return Markup()
    return fragment(
        "inventory.html",
        inventory=inventory,
        when=inventory_line(inventory).removeprefix("inventory "),
        open=open_,
        max_depth=MAX_DEPTH,
        shown_elsewhere=_SHOWN_ELSEWHERE,
        without_empty=_without_empty,
        has_nested=_has_nested,
        is_parts=_is_parts,
        shared_readings=_shared_readings,
        column=lambda parts, key: [part.get(key) for part in parts],
    )


def _without_empty(part: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): item for name, item in part.items() if not _empty(item)}


def _empty(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_empty, value.values()))
    return value is None or (isinstance(value, str | list | tuple) and not value)


def _has_nested(values: Iterable[Any]) -> bool:
    return any(isinstance(value, Mapping | list | tuple) for value in values)


def _is_parts(value: Sequence[Any]) -> bool:
    """Tell whether a list describes several parts of one kind."""
    return len(value) > 1 and all(isinstance(item, Mapping) for item in value)


def _shared_readings(parts: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Return the readings that all parts have alike, and the names of those that differ."""
    keys = list(dict.fromkeys(str(key) for part in parts for key in part))
    filled = [key for key in keys if not all(_empty(part.get(key)) for part in parts)]
    first = parts[0]
    shared = {
        key: first.get(key)
        for key in filled
        if key not in _NAMES and all(part.get(key) == first.get(key) for part in parts)
    }
    return shared, [key for key in filled if key not in shared]
