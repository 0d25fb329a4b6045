"""The boxes at the top of a fleet's page: rejected nodes, what many of them share, what drifts.

Other sections and pages use its texts about traits and drifts, and its links into the heat map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from pytest_anubis.core.fleet_survey import (
    MIN_MOMENTS,
    MIN_NODES,
    MetricDrift,
    TraitShift,
)
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.fleet.fleet_view import FleetView
from pytest_anubis.report.pages.rendering import fragment
from pytest_anubis.report.plots.fleet_plots import day_text, drift_plot
from pytest_anubis.report.text.learned_text import ACCEPTED_UNLIKE, UNLIKE
from pytest_anubis.report.text.numbers import count_text

MAX_SICK_LISTED = 8
"""Sick nodes named in the box; the heat map has all, in the same order."""
MAX_SHARED = 5
"""Shifts and drifts named in their boxes; their sections have all."""
MIN_EXPLAINED = 3
"""Rejected nodes from which on a shift is said to be the reason: fewer may be sick by themselves."""
MAX_METRICS = 3
"""Metrics named of one shift."""
STEADY = "no drift beyond chance"
NO_DATES = (
    f"nothing can be said about time: that takes {MIN_MOMENTS} periods of a day or more, each with dated "
    f"runs of {MIN_NODES} nodes"
)


def glance(view: FleetView) -> Markup:
    """Return the boxes: sick nodes, what many of them share, what drifts."""
    reasons = explained(view)
    rejected = view.of(Decision.REJECTED)
    alone = [node for node in rejected if (node.name, node.row.hardware_class) not in reasons]
    summary = f"{count_text(len(rejected), 'node')} rejected" if rejected else ""
    if reasons:
        own = "1 is sick on its own" if len(alone) == 1 else f"{len(alone)} are sick on their own"
        summary += f": {len(rejected) - len(alone)} share a cause (next box), {own}"
    filed = [node for node in view.nodes if node.filed.startswith(Decision.REJECTED.value)]
    unlike = [node for node in view.of(Decision.ACCEPTED) if node.row.unlike]
    causes = [shift for shift in view.shifts if any(shift is one for one in reasons.values())]
    others = [shift for shift in view.shifts if shift.worse and shift not in causes]
    drifts: dict[tuple[str, str], list[MetricDrift]] = {}
    for one in view.drifting:
        drifts.setdefault((one.benchmark, one.metric.name), []).append(one)
    first = view.drifting[0] if drifts else None
    return fragment(
        "glance.html",
        sick_kind="FAIL" if rejected else "MARGINAL" if unlike or view.unjudged else "",
        rejected=summary,
        alone=_cut(
            [(node, node.row.cause + node.row.act) for node in alone],
            map_link(decision="REJECTED"),
        ),
        unjudged=view.unjudged,
        filed=_cut(
            [(node, f"filed {node.filed}") for node in filed],
            map_link(q=f"filed {Decision.REJECTED.value}"),
        ),
        unlike=_cut([(node, node.row.unlike) for node in unlike], map_link(q=UNLIKE)),
        who_is_unlike=f"{count_text(len(unlike), 'accepted node')} {'are' if len(unlike) > 1 else 'is'}",
        unlike_word=UNLIKE,
        unlike_means=ACCEPTED_UNLIKE,
        shared_kind="FAIL" if causes else "MARGINAL" if others else "",
        causes=_cut([_shift_item(view, one) for one in causes], "#shifts", MAX_SHARED),
        others=_cut(
            [_shift_item(view, one, counted=False) for one in others], "#shifts", MAX_SHARED
        ),
        has_traits=bool(view.traits),
        drifts=_cut([_drift_item(view, same) for same in drifts.values()], "#drifts", MAX_SHARED),
        drift_plot=drift_plot(first.moments, label=f"{first.metric.name}: {drift_text(first)}")
        if first
        else "",
        no_drift="no metric became worse over time"
        if any(drift.searched for drift in view.drifts)
        else NO_DATES,
    )


def _cut(items: Sequence[Any], link: str, most: int = MAX_SICK_LISTED) -> dict[str, Any]:
    """Return the first items, how many are left, and the place that shows all."""
    return {"shown": items[:most], "left": max(0, len(items) - most), "link": link}


def map_link(**fields: str) -> str:
    """Return the address of the heat map with filters set; the page's script reads it."""
    return "#map?" + urlencode({name: text for name, text in fields.items() if text})


def shift_name(shift: TraitShift) -> str:
    """Return what a shift's nodes have in common: ``batch B4``."""
    return f"{shift.trait} {shift.value}"


def shift_text(shift: TraitShift, most: int = MAX_METRICS, *, counted: bool = True) -> str:
    """Return in one sentence how the nodes of a trait differ from the others; `counted` adds rejections."""
    parts = [
        f"{one.metric.name} {'' if one.worse else 'better: the others are '}{one.size}"
        for one in shift.metrics[:most]
    ]
    more = len(shift.metrics) - most
    parts += [f"{count_text(more, 'more metric')}"] if more > 0 else []
    if counted:
        others = f"{shift.rejected_others} of {shift.others} others"
        parts.append(f"{shift.rejected} of {len(shift.nodes)} rejected, {others}")
    else:
        parts.append(f"{count_text(len(shift.nodes), 'node')} against {shift.others}")
    return "; ".join(parts)


def drift_text(drift: MetricDrift) -> str:
    """Return in one sentence whether and how a metric drifts."""
    if not drift.drifts:
        return STEADY if drift.searched else NO_DATES
    return f"{drift.size} in the last third of {_span(drift)} than in the first"


def _span(drift: MetricDrift) -> str:
    return f"{day_text(drift.moments[0].begin)} to {day_text(drift.moments[-1].end)}"


def explained(view: FleetView) -> dict[tuple[str, str], TraitShift]:
    """Return (node, class) -> the shift that the node is rejected for.

    A shift explains a rejected node that has the trait and loses no more than the trait costs all its nodes,
    if it explains several nodes.
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
        if len(members) >= MIN_EXPLAINED:
            for unit in members:
                found.setdefault(unit, shift)
    return found


def _shift_item(view: FleetView, shift: TraitShift, *, counted: bool = True) -> dict[str, str]:
    same = f"; the same nodes as {', '.join(shift.aliases)}" if shift.aliases else ""
    return {
        "name": shift_name(shift),
        "where": f" in {shift.hardware_class}" if view.has_several_classes else "",
        "text": shift_text(shift, counted=counted) + same,
        "link": shift_link(view, shift),
    }


def shift_link(view: FleetView, shift: TraitShift) -> str:
    """Return the address of the heat map with the nodes of a shift, ordered by what they differ in most."""
    fields = {"cls": shift.hardware_class}
    if shift.trait in view.traits:
        fields["trait"] = f"{view.traits.index(shift.trait)} {shift.value}"
    places = view.places
    if shift.metrics:
        first = shift.metrics[0]
        fields["order"] = f"m{places[first.benchmark, first.metric.name]}"
        fields["m"] = first.metric.name if len(shift.metrics) == 1 else ""
    return map_link(**fields)


def _drift_item(view: FleetView, same: Sequence[MetricDrift]) -> dict[str, str]:
    """Return one metric that drifts, in all its classes."""
    sizes = ", ".join(
        f"{one.size} in {one.hardware_class}" if view.has_several_classes else one.size
        for one in same
    )
    number = view.places.get((same[0].benchmark, same[0].metric.name))
    return {
        "name": same[0].metric.name,
        "link": "" if number is None else view.metrics[number].link,
        "text": f"{sizes} (the last third of {_span(same[0])} against the first)",
    }
