"""The top of a fleet's page: which nodes are sick, what they share, what drifts, each in a box."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import urlencode

from pytest_anubis.core.survey.fleet_survey import MetricDrift, TraitShift
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_view import FleetNode, FleetView
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.plots.fleet_plots import day_text, drift_plot
from pytest_anubis.report.text.learned_text import ACCEPTED_UNLIKE, UNLIKE
from pytest_anubis.report.text.numbers import count_text

SICK = 8
"""Sick nodes named in the box; the heat map has all, in the same order."""
SHARED = 5
"""Shifts and drifts named in their boxes; their sections have all."""
SEVERAL = 3
"""Nodes from which on a shift is said to be why they are rejected: one may be sick by itself."""
METRICS = 3
"""Metrics named of one shift."""


def glance(view: FleetView) -> str:
    """Return the boxes: sick nodes, what many of them share, what drifts."""
    share = explained(view)
    return f"<div class='glance'>{_sick(view, share)}{_shared(view, share)}{_drifting(view)}</div>"


def map_link(**fields: str) -> str:
    """Return the address of the heat map with filters set; the page's script reads it."""
    return html.escape("#map?" + urlencode({name: text for name, text in fields.items() if text}))


def _alone(count: int) -> str:
    return "1 is sick on its own" if count == 1 else f"{count} are sick on their own"


def shift_name(shift: TraitShift) -> str:
    """Return what a shift's nodes have in common: ``batch B4``."""
    return f"{shift.trait} {shift.value}"


def shift_text(shift: TraitShift, most: int = METRICS, *, counted: bool = True) -> str:
    """Return in one sentence how the nodes of a trait differ from the others, and how many are rejected."""
    told = [
        f"{one.metric.name} {'' if one.worse else 'better: the others are '}{one.size}"
        for one in shift.metrics[:most]
    ]
    more = len(shift.metrics) - most
    told += [f"{count_text(more, 'more metric')}"] if more > 0 else []
    if counted:
        others = f"{shift.rejected_others} of {shift.others} others"
        told.append(f"{shift.rejected} of {len(shift.nodes)} rejected, {others}")
    else:
        told.append(f"{count_text(len(shift.nodes), 'node')} against {shift.others}")
    return "; ".join(told)


def drift_text(drift: MetricDrift) -> str:
    """Return in one sentence how a metric drifts."""
    first, last = drift.moments[0], drift.moments[-1]
    span = f"{day_text(first.begin)} to {day_text(last.end)}"
    return f"{drift.size} in the last third of {span} than in the first"


def explained(view: FleetView) -> dict[tuple[str, str], TraitShift]:
    """Return (node, class) -> the shift that it is rejected for, of shifts that explain several nodes.

    A shift explains a rejected node that has the trait and loses no more than the trait costs all of them.
    """
    found: dict[tuple[str, str], TraitShift] = {}
    rejected = {(node.name, node.row.hardware_class): node for node in view.of(Decision.REJECTED)}
    for shift in view.shifts:
        members = [
            (name, shift.hardware_class)
            for name in shift.nodes
            if (node := rejected.get((name, shift.hardware_class))) is not None
            and (not shift.metrics or shift.explains(node.row.verdicts))
        ]
        if len(members) >= SEVERAL:
            for unit in members:
                found.setdefault(unit, shift)
    return found


def _sick(view: FleetView, share: dict[tuple[str, str], TraitShift]) -> str:
    rejected = view.of(Decision.REJECTED)
    alone = [node for node in rejected if (node.name, node.row.hardware_class) not in share]
    unlike = _unlike(view)
    if not rejected:
        none = "".join(map(blocks.paragraph, view.unjudged)) + _filed(view)
        none = none or "<p>no node is rejected</p>"
        state = "MARGINAL" if unlike or view.unjudged else ""
        return _box("Sick nodes", state, none + unlike)
    link = map_link(decision="REJECTED")
    items = [
        f"{_linked(node)}: {html.escape(node.row.cause + node.row.act)}" for node in alone[:SICK]
    ]
    words = f"{count_text(len(rejected), 'node')} rejected"
    if share:
        shared = len(rejected) - len(alone)
        words += f": {shared} share a cause (next box), {_alone(len(alone))}"
    return _box(
        "Sick nodes",
        "FAIL",
        f"<p>{words}; <a href='{link}'>show them in the heat map</a></p>"
        + _some(items, len(alone), link)
        + unlike
        + "".join(map(blocks.paragraph, view.unjudged)),
    )


def _some(items: Sequence[str], whole: int, link: str) -> str:
    """Return items as a list, and how many more of the whole there are, where a link leads."""
    left = whole - len(items)
    shown = [*items, *([f"<a href='{link}'>and {left} more</a>"] if left > 0 else [])]
    return f"<ul>{''.join(f'<li>{item}</li>' for item in shown)}</ul>"


def _filed(view: FleetView) -> str:
    """Return the nodes that nothing was judged of here and that a history has as rejected."""
    found = [node for node in view.nodes if node.filed.startswith(Decision.REJECTED.value)]
    items = [f"{_linked(node)}: filed {node.filed}" for node in found[:SICK]]
    return _some(items, len(found), map_link(q=f"filed {Decision.REJECTED.value}")) if items else ""


def _unlike(view: FleetView) -> str:
    """Return the accepted nodes that learning found to be no part of the healthy ones, with what it means."""
    found = [node for node in view.of(Decision.ACCEPTED) if node.row.unlike]
    if not found:
        return ""
    items = [f"{_linked(node)}: {html.escape(node.row.unlike)}" for node in found[:SICK]]
    link = map_link(q=UNLIKE)
    who = f"{count_text(len(found), 'accepted node')} {'are' if len(found) > 1 else 'is'}"
    return (
        f"<p>{who} <a href='{link}'>{UNLIKE}</a>: {html.escape(ACCEPTED_UNLIKE)}</p>"
        f"{_some(items, len(found), link)}"
    )


def _linked(node: FleetNode) -> str:
    return blocks.linked(node.name, node.link)


def _shared(view: FleetView, share: dict[tuple[str, str], TraitShift]) -> str:
    causes = [shift for shift in view.shifts if any(shift is one for one in share.values())]
    others = [shift for shift in view.shifts if shift.worse and shift not in causes]
    if not causes and not others:
        return _box("What they share", "", f"<p>{_nothing_shared(view)}</p>")
    inner = _items(view, causes)
    if not causes:
        inner = "<p>nothing that is known separates rejected nodes from the others</p>"
    if others:
        inner += f"<p>Slower than the others, not rejected for it:</p>{_items(view, others, counted=False)}"
    return _box("What they share", "FAIL" if causes else "MARGINAL", inner)


def _items(view: FleetView, shifts: Sequence[TraitShift], *, counted: bool = True) -> str:
    if not shifts:
        return ""
    items = []
    for one in shifts[:SHARED]:
        same = f"; the same nodes as {', '.join(one.aliases)}" if one.aliases else ""
        items.append(
            f"<b>{html.escape(shift_name(one))}</b>{_of_class(view, one)}: "
            f"{html.escape(shift_text(one, counted=counted) + same)} "
            f"(<a href='{shift_link(view, one)}'>show</a>)"
        )
    return _some(items, len(shifts), "#shifts")


def _nothing_shared(view: FleetView) -> str:
    if view.unjudged and not view.of(Decision.REJECTED):
        return "without a baseline nothing was judged that nodes could share"
    if not view.traits:
        return (
            "nobody knows racks, batches or drivers of these nodes: give a table of them with "
            "<code>--nodes-file nodes.csv</code>"
        )
    return (
        "no rack, batch, driver or other trait that is known separates slow nodes from the others"
    )


def _of_class(view: FleetView, shift: TraitShift) -> str:
    classes = {node.row.hardware_class for node in view.nodes}
    return f" in {html.escape(shift.hardware_class)}" if len(classes) > 1 else ""


def shift_link(view: FleetView, shift: TraitShift) -> str:
    """Return the address of the heat map with the nodes of a shift and what they differ in first."""
    fields = {"cls": shift.hardware_class}
    if shift.trait in view.traits:
        fields["trait"] = f"{view.traits.index(shift.trait)} {shift.value}"
    places = view.places
    if shift.metrics:
        first = shift.metrics[0]
        fields["order"] = f"m{places[first.benchmark, first.metric.name]}"
        fields["m"] = first.metric.name if len(shift.metrics) == 1 else ""
    return map_link(**fields)


def _drifting(view: FleetView) -> str:
    found: dict[tuple[str, str], list[MetricDrift]] = {}
    for one in view.drifting:
        found.setdefault((one.benchmark, one.metric.name), []).append(one)
    if not found:
        dated = any(drift.moments for drift in view.drifts)
        words = "no metric became worse over time" if dated else NO_DATES
        return _box("What drifts", "", f"<p>{words}</p>")
    several = len({node.row.hardware_class for node in view.nodes}) > 1
    items = [_drift_item(view, same, several) for same in list(found.values())[:SHARED]]
    first = view.drifting[0]
    plot = drift_plot(first.moments, label=f"{first.metric.name}: {drift_text(first)}")
    return _box("What drifts", "MARGINAL", _some(items, len(found), "#drifts") + plot)


def _drift_item(view: FleetView, same: Sequence[MetricDrift], several: bool) -> str:
    sizes = ", ".join(
        f"{one.size} in {one.hardware_class}" if several else one.size for one in same
    )
    first, last = same[0].moments[0], same[0].moments[-1]
    number = view.places.get((same[0].benchmark, same[0].metric.name))
    link = "" if number is None else view.metrics[number].link
    name = html.escape(same[0].metric.name)
    linked = f"<a href='{link}'>{name}</a>" if link else f"<b>{name}</b>"
    return (
        f"{linked}: {html.escape(sizes)} (the last third of {day_text(first.begin)} to "
        f"{day_text(last.end)} against the first)"
    )


STEADY = "no drift beyond chance"
NO_DATES = "the runs have no dates, or are of one day: nothing can be said about time"


def _box(title: str, kind: str, inner: str) -> str:
    return f"<section class='card {kind}'><h2>{title}</h2>{inner}</section>"
