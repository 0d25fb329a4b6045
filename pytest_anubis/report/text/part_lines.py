"""Lines about parts that slow devices share, and memory modules with errors; they decide nothing."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.core.metric import first_of
from pytest_anubis.core.node_map import ModuleErrors, SharedPart, Spread
from pytest_anubis.core.verdict import NodeVerdict
from pytest_anubis.report.text.numbers import percent
from pytest_anubis.report.text.safe_text import plain_line

MAX_NAMED = 8
"""Devices, or components, named in a line."""
_SPREAD: dict[Spread, str] = {
    "row": "one row of one module (repairable: post-package repair)",
    "scattered": "scattered over a module",
}
MAX_SHOWN = 0.99
"""Highest confidence that is printed: a hypothesis is never certain."""


def part_lines(node: NodeVerdict | None) -> list[str]:
    """Return a line for each part that slow devices of a node share, and each module with memory errors."""
    if node is None:
        return []
    return [*map(shared_part_line, node.shared), *map(module_line, node.modules)]


def module_line(one: ModuleErrors) -> str:
    """Return ``DIMM_A1: 12 corrected memory errors, scattered over a module``."""
    return plain_line(f"{one.module}: {one.errors} corrected memory errors, {_SPREAD[one.spread]}")


def shared_part_line(part: SharedPart) -> str:
    """Return ``cuda:2 and cuda:3 share PCIe switch 0000:58:00.0 (98 % likely), ...``."""
    sure = f"({percent(min(part.confidence, MAX_SHOWN))} likely)"
    lost = f"{percent(part.loss)} slower in {first_of(part.components, MAX_NAMED)}"
    whole = "" if part.socket is None else f" (all of NUMA node {part.socket})"
    devices = _listed(part.devices)
    if part.kind == "all":
        text = f"{devices} are slow alike {sure}: {lost}; check {part.called}"
    else:
        alone = ", nothing else is slow there" if part.alone else ""
        text = f"{devices} share {part.called}{whole} {sure}{alone}: {lost}; check that part"
    return plain_line(f"{text} before you replace a device")


def _listed(devices: Sequence[str]) -> str:
    if not 1 < len(devices) <= MAX_NAMED:
        return first_of(devices, MAX_NAMED)
    return f"{', '.join(devices[:-1])} and {devices[-1]}"
