"""An inventory as HTML: what all parts of a kind share is said once, what differs stands side by side."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.text.headlines import inventory_line
from pytest_anubis.report.text.numbers import reading_text

_NAMES = ("index", "name", "slot", "pci")
_KNOWN = frozenset({"schema", "node", "taken"})
"""Said elsewhere on the page."""
DEPTH = 8
"""Levels of nesting shown; a damaged file may hold more."""


def inventory_block(inventory: Mapping[str, Any], *, open_: bool = False) -> str:
    """Return an inventory as tables that can be folded; what the node does not have is left out.

    Args:
        inventory: Plain data of any shape; may be empty, then nothing is returned.
        open_: Whether it starts unfolded.
    """
    if not inventory:
        return ""
    state = " open" if open_ else ""
    when = html.escape(inventory_line(inventory).removeprefix("inventory "))
    parts = blocks.wide(_nested(inventory))
    return f"<details{state}><summary><b>inventory</b> {when}</summary>{parts}</details>"


def _nested(value: Any, key: str = "", depth: int = 0) -> str:
    if depth >= DEPTH:
        return "…"
    if isinstance(value, Mapping):
        known = {str(name): item for name, item in value.items() if not _empty(item)}
        if depth and not any(isinstance(item, Mapping | list | tuple) for item in known.values()):
            return _flat(known)
        rows = "".join(
            f"<tr><th scope='row'>{_label(name)}</th><td>{_nested(item, name, depth + 1)}</td></tr>"
            for name, item in known.items()
            if depth or name not in _KNOWN
        )
        return f"<table>{rows}</table>"
    if isinstance(value, list | tuple):
        if len(value) > 1 and all(isinstance(item, Mapping) for item in value):
            return _parts(value, depth)
        nested = any(isinstance(item, Mapping | list | tuple) for item in value)
        return ("<br>" if nested else ", ").join(_nested(item, key, depth + 1) for item in value)
    return html.escape(reading_text(key, value))


def _empty(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_empty, value.values()))
    return value is None or (isinstance(value, str | list | tuple) and not value)


def _flat(part: Mapping[str, Any]) -> str:
    """Return the readings of one part in lines that flow."""
    return " ".join(
        f"<span class='kv'><i>{_label(name)}</i> {html.escape(reading_text(name, item))}</span>"
        for name, item in part.items()
    )


def _parts(parts: Sequence[Mapping[str, Any]], depth: int) -> str:
    """Return parts of one kind: first what they share, then a table of what differs, a row each."""
    keys = list(dict.fromkeys(str(key) for part in parts for key in part))
    filled = [key for key in keys if not all(_empty(part.get(key)) for part in parts)]
    same = [
        key
        for key in filled
        if key not in _NAMES and all(part.get(key) == parts[0].get(key) for part in parts)
    ]
    shared = {key: parts[0].get(key) for key in same}
    first = f"<div>all {len(parts)}: {_nested(shared, '', depth + 1)}</div>" if same else ""
    differing = [key for key in filled if key not in same]
    if len(differing) == 1:
        return first + _nested({f"{differing[0]}s": [p.get(differing[0]) for p in parts]}, "", 1)
    head = "".join(f"<th scope='col'>{_label(key)}</th>" for key in differing)
    rows = (
        "".join(f"<td>{_nested(part.get(key), key, depth + 1)}</td>" for key in differing)
        for part in parts
    )
    return first + blocks.table(head, rows)


def _label(key: Any) -> str:
    return html.escape(str(key).replace("_", " "))
