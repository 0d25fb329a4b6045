"""The fleet's page of one metric: distribution by class, traits that separate nodes, drift, slow nodes.

`site_writing` uses it.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from pytest_anubis.core.metric import found_from
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.report.fleet.fleet_picture import SHADES
from pytest_anubis.report.fleet.fleet_view import ClassMetric, FleetMetric, FleetNode, FleetView
from pytest_anubis.report.fleet.glance import drift_text, shift_name
from pytest_anubis.report.fleet.heat_map import columns_of
from pytest_anubis.report.pages.rendering import block, render
from pytest_anubis.report.plots.fleet_plots import drift_plot, units_plot
from pytest_anubis.report.text.numbers import count_text, value_text

MAX_ROWS = 200
"""Nodes in the table of the slow ones, the worst first."""
HOME = "../index.html"
"""The page of the fleet, seen from that of a metric or a node."""


def metric_page(view: FleetView, number: int) -> str:
    """Return the page of one metric, named by its number in the view."""
    one = view.metrics[number]
    metric = one.metric
    facts = (
        one.benchmark,
        f"component {one.component}" if one.component else "",
        "must be exact" if metric.better == "equal" else f"{metric.better} is better",
    )
    slow = _slow(view, number)
    return render(
        "metric_page.html",
        title=f"{one.label} in the fleet",
        shades=SHADES,
        home=HOME,
        metric=metric,
        counted=f"{count_text(one.failed, 'node')} FAIL, {one.marginal} MARGINAL",
        facts="; ".join(filter(None, facts)),
        classes=[_class(one, part) for part in one.classes],
        traits=_traits(view, one),
        drifts=_drifts(view, one),
        slow=_table(view, number, slow[:MAX_ROWS]) if slow else "",
        left=len(slow) - MAX_ROWS,
    )


def _class(one: FleetMetric, part: ClassMetric) -> tuple[str, str, str]:
    """Return the figure of the metric in a class: name, words, plot."""
    criterion = part.criterion
    name = part.hardware_class or "no class"
    name += f", {part.group}" if part.group else ""
    lines = ["no criterion: it is not judged by the fleet"]
    if criterion is not None:
        lines = [f"criterion from {count_text(criterion.nodes, 'node')}"]
        if criterion.detectable is not None:
            coarse = ", and is coarse: it carries no acceptance" if criterion.coarse else ""
            found = found_from(criterion.detectable, one.metric.better)
            lines.append(f"finds a loss of {found}{coarse}")
    if part.limit is not None:
        lines.append(f"rejects beyond a median of {value_text(part.limit, one.metric.unit)}")
    plot = units_plot(
        part.healthy,
        part.bad,
        unit=one.metric.unit,
        better=one.metric.better,
        expected=criterion.typical if criterion is not None and criterion.centre else None,
        limit=part.limit,
        label=f"{one.metric.name} in {name}: medians of all units, {len(part.bad)} of them bad",
    )
    return name, "; ".join(lines), plot


def _traits(view: FleetView, one: FleetMetric) -> list[str]:
    lines = []
    for shift in view.shifts:
        for found in shift.metrics:
            if (found.benchmark, found.metric.name) == (one.benchmark, one.metric.name):
                how = found.size if found.worse else f"better: the others are {found.size}"
                lines.append(
                    f"{shift_name(shift)} in {shift.hardware_class or 'no class'}: {how} "
                    f"({count_text(len(shift.nodes), 'node')} against {shift.others})"
                )
    return lines


def _drifts(view: FleetView, one: FleetMetric) -> list[tuple[str, str, str]]:
    """Return the figures of the metric over time: class, words, plot."""
    figures = []
    for drift in view.drifts:
        same = (drift.benchmark, drift.metric.name) == (one.benchmark, one.metric.name)
        if same and len(drift.moments) >= 2:
            words = drift_text(drift)
            plot = drift_plot(drift.moments, label=f"{drift.metric.name} over time: {words}")
            figures.append((drift.hardware_class or "no class", words, plot))
    return figures


def _slow(view: FleetView, number: int) -> list[tuple[int, FleetNode]]:
    """Return the nodes that are FAIL or MARGINAL in a metric with their kinds of cell, the worst first."""
    bad = (Outcome.FAIL, Outcome.MARGINAL)
    found = [
        (cells[number], node)
        for node, cells in zip(view.nodes, view.cells, strict=True)
        if cells[number] >= 0 and view.kinds[cells[number]].outcome in bad
    ]
    return sorted(found, key=lambda pair: pair[0])


def _table(view: FleetView, number: int, slow: Sequence[tuple[int, FleetNode]]) -> Markup:
    columns = columns_of(view)
    rows = [
        (
            block("link", node.name, f"../{node.place_of(number)}" if node.link else ""),
            block("badge", view.kinds[code].outcome),
            view.kinds[code].text.partition(", ")[2],
            *(node.traits.get(name, "") for name in columns),
        )
        for code, node in slow
    ]
    return block("sortable", "bad nodes", ("node", "verdict", "loss", *columns), rows)
