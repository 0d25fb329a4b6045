"""The overview above the heat map: all losses of the fleet as one PNG, a column a node, a row a metric."""

from __future__ import annotations

import base64
import itertools
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_view import LEVELS, FleetNode, FleetView
from pytest_anubis.report.text.numbers import count_text, percent

LIGHT = ("#ffffff", "#fdf0e2", "#fbdcbc", "#f4b27c", "#cf5f1c", "#8a2f06")
DARK = ("#16181b", "#33291f", "#523620", "#7d4a20", "#c2621f", "#ffb27a")
"""Background of a cell by the shade of its loss (`fleet_view.LEVELS`), on a light and on a dark page: one hue
whose lightness alone tells the shades apart."""
LIGHT_TEXT = ("#1d1d1f", "#1d1d1f", "#1d1d1f", "#1d1d1f", "#000000", "#ffffff")
DARK_TEXT = ("#e4e4e2", "#e4e4e2", "#e4e4e2", "#ffffff", "#000000", "#000000")
"""Text upon it; a test computes that every pair has a contrast of 4.5 or more."""
SHADES = {
    "light": list(zip(LIGHT, LIGHT_TEXT, strict=True)),
    "dark": list(zip(DARK, DARK_TEXT, strict=True)),
}
"""Background and text of each shade, as ``fleet.css`` takes them."""

MAX_COLUMNS = 360
"""Columns of the picture, as many as a phone has pixels; a column shows the worst of its nodes."""
MIN_SHADE = 2
"""Shade from which a cell is drawn: healthy nodes scatter below it."""
MAX_GROUPS = 16
"""Groups that have room for a name below the picture."""
MIN_NODES = 30
"""Nodes from which on there is a picture: the table shows fewer on one screen."""
MAX_ROW_HEIGHT = 14
"""Pixels of a row, about a line of text."""
HEIGHT = 260
"""Pixels of the picture's height, about: a third of a screen."""


def order_of(view: FleetView) -> list[int]:
    """Return the order of the nodes in the picture: by class, by what separates them, by name."""
    trait = _trait(view)
    keys = [
        (node.row.hardware_class, _natural(node.traits.get(trait, "")), _natural(node.name))
        for node in view.nodes
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


def fleet_picture(view: FleetView, order: Sequence[int]) -> dict[str, Any] | None:
    """Return the picture, light and dark, with its words and the names of its groups; None for few nodes.

    `order` has the nodes from left to right, as `order_of` returns them.
    """
    if not view.metrics or len(view.nodes) < MIN_NODES:
        return None
    rows = _rows(view, order)
    trait = _trait(view)
    by = f", side by side with those of its {trait}" if trait else ""
    rejected = len(view.of(Decision.REJECTED))
    drawn = [row for row in rows if any(row)] or rows[:1]
    rest = len(rows) - len(drawn)
    none = (
        f", which {count_text(rest, 'metric')} {'has' if rest == 1 else 'have'} nowhere"
        if rest
        else ""
    )
    return {
        "light": _png(drawn, LIGHT),
        "dark": _png(drawn, DARK),
        "height": min(MAX_ROW_HEIGHT, max(1, round(HEIGHT / len(drawn)))) * len(drawn),
        "groups": _groups(view, order),
        "alt": f"{count_text(len(view.nodes), 'node')} by class{by}, "
        f"{count_text(len(view.metrics), 'metric')}: {rejected} of the nodes "
        f"{'is' if rejected == 1 else 'are'} rejected; the table below says the same in words",
        "caption": f"The whole fleet: a column is a node{by}, a row a metric, in the order of the table "
        f"below; drawn from a loss of {percent(LEVELS[MIN_SHADE - 1])} on{none}.",
    }


def _trait(view: FleetView) -> str:
    """Return the trait that groups the nodes: one that separates slow ones, else the first one."""
    found = [one.trait for one in view.shifts if one.worse and one.trait in view.traits]
    return next(iter([*found, *view.traits]), "")


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts names as people do: ``n9`` before ``n10``."""
    return [(int(part[:18]) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name)]


def _rows(view: FleetView, order: Sequence[int]) -> list[bytes]:
    """Return the shade of every column in every row."""
    levels = [kind.level if kind.level >= MIN_SHADE else 0 for kind in view.kinds] + [0]
    columns = min(MAX_COLUMNS, len(order))
    cuts = [n * len(order) // columns for n in range(columns + 1)]
    parts = [order[a:b] for a, b in itertools.pairwise(cuts)]
    return [
        bytes(max(levels[view.cells[node][metric]] for node in part) for part in parts)
        for metric in range(len(view.metrics))
    ]


def _png(rows: Sequence[bytes], colours: Sequence[str]) -> str:
    """Return rows of shades as a picture in a line of text (PNG with a palette; ISO/IEC 15948)."""
    palette = b"".join(bytes.fromhex(colour[1:]) for colour in colours)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)  # 8 bits, by palette
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)  # 0: each row as it is
    chunks = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", data), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _groups(view: FleetView, order: Sequence[int]) -> list[tuple[str, str, str]]:
    """Return the width, in percent, the title and the name of each group of nodes."""
    trait = _trait(view)

    def group(node: FleetNode) -> tuple[str, str]:
        return node.row.hardware_class, node.traits.get(trait, "")

    runs = [
        (key, len(list(found)))
        for key, found in itertools.groupby(group(view.nodes[n]) for n in order)
    ]
    if len(runs) > MAX_GROUPS or len(runs) < 2:
        return []
    several = len({key[0] for key, _ in runs}) > 1
    return [
        (
            f"{100 * count / len(order):.3f}",
            f"{trait} {value or 'others'}",
            f"{value or 'others'}, {key}" if several else value or "others",
        )
        for (key, value), count in runs
    ]
