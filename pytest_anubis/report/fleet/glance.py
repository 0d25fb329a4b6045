"""The top of a fleet's page: which nodes are sick, what they share, what drifts, each in a box."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import urlencode

from pytest_anubis.core.survey.fleet_survey import MetricDrift, TraitShift
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_view import FleetNode, FleetView
from pytest_anubis.report.plots.fleet_plots import day_text, drift_plot
from pytest_anubis.report.text.numbers import count_text

SICK = 8
"""Sick nodes named in the box; the heat map has all, in the same order."""
SHARED = 5
"""Shifts and drifts named in their boxes; their sections have all."""
METRICS = 3
"""Metrics named of one shift."""


def glance(view: FleetView) -> str:
    """Return the boxes: sick nodes, what many of them share, what drifts."""
    return f"<div class='glance'>{_sick(view)}{_shared(view)}{_drifting(view)}</div>"


def map_link(**fields: str) -> str:
    """Return the address of the heat map with filters set; the page's script reads it."""
    return html.escape("#map?" + urlencode({name: text for name, text in fields.items() if text}))


def shift_name(shift: TraitShift) -> str:
    """Return what a shift's nodes have in common: ``batch B4``."""
    return f"{shift.trait} {shift.value}"


def shift_text(shift: TraitShift, most: int = METRICS) -> str:
    """Return in one sentence how the nodes of a trait differ from the others."""
    told = [
        f"{one.metric.name} {'' if one.worse else 'better: the others are '}{one.size}"
        for one in shift.metrics[:most]
    ]
    more = len(shift.metrics) - most
    told += [f"{count_text(more, 'more metric')}"] if more > 0 else []
    if shift.rejected or shift.rejected_others:
        told.append(
            f"{shift.rejected} of {len(shift.nodes)} rejected, {shift.rejected_others} of {shift.others} others"
        )
    else:
        told.append(f"{count_text(len(shift.nodes), 'node')} against {shift.others}, none rejected")
    return "; ".join(told)


def drift_text(drift: MetricDrift) -> str:
    """Return in one sentence how a metric drifts."""
    first, last = drift.moments[0], drift.moments[-1]
    return f"{drift.size} in the last third of {day_text(first.begin)} to {day_text(last.end)} than in the first"


def explained(view: FleetView) -> dict[str, TraitShift]:
    """Return node -> the shift towards the worse that it belongs to, of those whose nodes are rejected for it."""
    found: dict[str, TraitShift] = {}
    for shift in view.shifts:
        if shift.worse and blamed(shift):
            for name in shift.nodes:
                found.setdefault(name, shift)
    return found


def blamed(shift: TraitShift) -> bool:
    """Say whether the nodes of a trait are rejected more often than the others."""
    return shift.rejected * shift.others > 2 * shift.rejected_others * len(shift.nodes)


def _sick(view: FleetView) -> str:
    rejected = view.of(Decision.REJECTED)
    share = explained(view)
    alone = [node for node in rejected if node.name not in share]
    if not rejected:
        return _box("Sick nodes", "", "<p>no node is rejected</p>")
    items = "".join(
        f"<li>{_linked(node)}: {html.escape(node.row.cause)}</li>" for node in alone[:SICK]
    )
    left = len(alone) - SICK
    more = (
        f"<li><a href='{map_link(decision='REJECTED')}'>and {left} more</a></li>"
        if left > 0
        else ""
    )
    words = f"{count_text(len(rejected), 'node')} rejected"
    if len(alone) < len(rejected):
        words += f": {len(rejected) - len(alone)} share a cause (see beside), {len(alone)} are sick on their own"
    link = map_link(decision="REJECTED")
    return _box(
        "Sick nodes",
        "FAIL",
        f"<p>{words}; <a href='{link}'>show them in the heat map</a></p><ul>{items}{more}</ul>",
    )


def _linked(node: FleetNode) -> str:
    name = html.escape(node.name)
    return f"<a href='{node.link}'>{name}</a>" if node.link else name


def _shared(view: FleetView) -> str:
    bad = [shift for shift in view.shifts if shift.worse]
    if not bad:
        return _box("What they share", "", f"<p>{_nothing_shared(view)}</p>")
    items = "".join(
        f"<li><b>{html.escape(shift_name(one))}</b>{_of_class(view, one)}: {html.escape(shift_text(one))} "
        f"({_show(view, one)})</li>"
        for one in bad[:SHARED]
    )
    left = len(bad) - SHARED
    more = f"<li><a href='#shifts'>and {left} more</a></li>" if left > 0 else ""
    return _box(
        "What they share",
        "FAIL" if any(map(blamed, bad)) else "MARGINAL",
        f"<ul>{items}{more}</ul>",
    )


def _nothing_shared(view: FleetView) -> str:
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


def _show(view: FleetView, shift: TraitShift) -> str:
    return f"<a href='{shift_link(view, shift)}'>show</a>"


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
    found = view.drifting
    if not found:
        dated = any(drift.moments for drift in view.drifts)
        words = "no metric became worse over time" if dated else NO_DATES
        return _box("What drifts", "", f"<p>{words}</p>")
    items = "".join(
        f"<li><b>{html.escape(one.metric.name)}</b>{_class_of(view, one)}: {html.escape(drift_text(one))}</li>"
        for one in found[:SHARED]
    )
    left = len(found) - SHARED
    more = f"<li><a href='#drifts'>and {left} more</a></li>" if left > 0 else ""
    first = found[0]
    plot = drift_plot(first.moments, label=f"{first.metric.name}: {drift_text(first)}")
    return _box("What drifts", "MARGINAL", f"<ul>{items}{more}</ul>{plot}")


NO_DATES = "the runs have no dates, or are of one day: nothing can be said about time"


def _class_of(view: FleetView, drift: MetricDrift) -> str:
    classes: Sequence[str] = sorted({node.row.hardware_class for node in view.nodes})
    return f" in {html.escape(drift.hardware_class)}" if len(classes) > 1 else ""


def _box(title: str, kind: str, inner: str) -> str:
    return f"<section class='card {kind}'><h2>{title}</h2>{inner}</section>"
