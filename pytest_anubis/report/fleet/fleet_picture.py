"""The whole fleet in one picture: a column a node, beside those of its batch, a row a metric."""

from __future__ import annotations

import base64
import html
import itertools
import re
import struct
import zlib
from collections.abc import Sequence

from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_style import DARK, LIGHT
from pytest_anubis.report.fleet.fleet_view import LEVELS, FleetNode, FleetView
from pytest_anubis.report.text.numbers import count_text, percent

COLUMNS = 360
"""Columns of the picture: as many as a phone has pixels. Of more nodes a column is the worst of its nodes."""
FIRST = 2
"""Shade from which a cell is drawn: below it lies what healthy nodes scatter by."""
GROUPS = 16
"""Most groups that are named below the picture: more have no room for a name."""
LEAST = 30
"""Nodes from which on there is a picture: fewer stand in the table on one screen."""
THICK = 14
"""Most pixels of a row: about a line of text."""
HEIGHT = 260
"""Pixels of the picture's height, about: a third of a screen."""


def order_of(view: FleetView) -> list[int]:
    """Return the nodes as they stand in the picture: by class, by what separates them, by name."""
    trait = _trait(view)
    keys = [
        (node.row.hardware_class, _natural(node.traits.get(trait, "")), _natural(node.name))
        for node in view.nodes
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


def fleet_picture(view: FleetView, order: Sequence[int]) -> str:
    """Return the picture, light and dark, with the names of its groups; `order` from `order_of`."""
    if not view.metrics or len(view.nodes) < LEAST:
        return ""
    rows = _rows(view, order)
    trait = _trait(view)
    by = f", side by side with those of its {html.escape(trait)}" if trait else ""
    rejected = len(view.of(Decision.REJECTED))
    alt = (
        f"{count_text(len(view.nodes), 'node')} by class{by}, {count_text(len(view.metrics), 'metric')}: "
        f"{rejected} of the nodes {'is' if rejected == 1 else 'are'} rejected; the table below says the same "
        "in words"
    )
    drawn = [row for row in rows if any(row)] or rows[:1]
    light, dark = (_png(drawn, colours) for colours in (LIGHT, DARK))
    height = min(THICK, max(1, round(HEIGHT / len(drawn)))) * len(drawn)
    rest = len(rows) - len(drawn)
    none = (
        f", which {count_text(rest, 'metric')} {'has' if rest == 1 else 'have'} nowhere"
        if rest
        else ""
    )
    return (
        "<figure class='whole'><picture>"
        f"<source media='screen and (prefers-color-scheme:dark)' srcset='{dark}'>"
        f"<img class='map' id='strip' src='{light}' alt='{alt}' style='height:{height}px'></picture>"
        f"{_groups(view, order)}<figcaption class='faint'>The whole fleet: a column is a node{by}, a row a "
        f"metric, in the order of the table below; drawn from a loss of {percent(LEVELS[FIRST - 1])} on"
        f"{none}.</figcaption></figure>"
    )


def _trait(view: FleetView) -> str:
    """Return the trait by which nodes stand together: what separates the slow ones, else the first one."""
    found = [one.trait for one in view.shifts if one.worse and one.trait in view.traits]
    return next(iter([*found, *view.traits]), "")


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts names as people do: ``n9`` before ``n10``."""
    return [(int(part[:18]) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name)]


def _rows(view: FleetView, order: Sequence[int]) -> list[bytes]:
    """Return the shade of every column in every row."""
    levels = [kind.level if kind.level >= FIRST else 0 for kind in view.kinds] + [0]
    columns = min(COLUMNS, len(order))
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


def _groups(view: FleetView, order: Sequence[int]) -> str:
    trait = _trait(view)

    def group(node: FleetNode) -> tuple[str, str]:
        return node.row.hardware_class, node.traits.get(trait, "")

    runs = [
        (key, len(list(found)))
        for key, found in itertools.groupby(group(view.nodes[n]) for n in order)
    ]
    if len(runs) > GROUPS or len(runs) < 2:
        return ""
    several = len({key[0] for key, _ in runs}) > 1
    items = []
    for (key, value), count in runs:
        name = value or "others"
        words = html.escape(f"{name}, {key}" if several else name)
        full = html.escape(f"{trait} {name}")
        items.append(
            f"<li style='width:{100 * count / len(order):.3f}%' title='{full}'>{words}</li>"
        )
    return f"<ul class='groups'>{''.join(items)}</ul>"
