"""The tables and plots below the heat map of the fleet's page.

They show the traits that separate nodes, drift, bad components, yield, metrics with the smallest loss that
each detects, and costs. How well validation itself works is in `validation_tables`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from pytest_anubis.core.fleet_survey import MetricDrift
from pytest_anubis.core.metric import loss_text, size_text
from pytest_anubis.core.verdict import Decision, Outcome
from pytest_anubis.report.fleet.fleet_view import FleetMetric, FleetView
from pytest_anubis.report.fleet.glance import (
    drift_text,
    map_link,
    shift_link,
    shift_name,
    shift_text,
)
from pytest_anubis.report.pages.metric_sections import short
from pytest_anubis.report.pages.rendering import block
from pytest_anubis.report.plots.fleet_plots import drift_plot
from pytest_anubis.report.text.numbers import count_text, duration_text, share_text, value_text

MAX_STEADY = 6
"""Metrics without drift that are drawn for comparison; up to twice as many that drift are drawn."""
MAX_VALUES = 40
"""Values of a trait whose yield is a table: a serial number has one for each node."""
BAR_WIDTH = 9
"""Width of a bar that means all, in em; the number next to it says the same."""
_BARS = {Decision.ACCEPTED: "good", Decision.UNDECIDED: "open", Decision.REJECTED: "bad"}
"""Decision -> class of its bar in the yield."""

Cell = str | int | tuple[float, str]
"""Cell of a table that can be sorted: a text, a number, or the number that sorts it and its text."""


def shifts_table(view: FleetView) -> Markup:
    """Return what separates nodes of a class: one row a trait."""
    rows = []
    for shift in view.shifts:
        apart = max((one.apart for one in shift.metrics), default=None)
        rows.append(
            (
                block("link", shift_name(shift), shift_link(view, shift)),
                shift.hardware_class,
                len(shift.nodes),
                "worse" if shift.worse else "better",
                shift_text(shift, 6),
                share_text(apart),
                f"the same nodes as {', '.join(shift.aliases)}" if shift.aliases else "",
            )
        )
    heads = ("trait", "class", "nodes", "they are", "in what", "apart", "cannot be told from")
    return block("sortable", "traits that separate nodes", heads, rows, numbers=(2, 5))


def drift_figures(view: FleetView) -> dict[str, Any] | None:
    """Return figures of metrics over time, those that drift and some that do not; None with too few days."""
    dated = [one for one in view.drifts if one.searched]
    if not dated:
        return None
    drifting = [one for one in dated if one.drifts]
    steady = [one for one in dated if not one.drifts]
    counted = count_text(len(drifting), "metric") if drifting else "No metric"
    return {
        "summary": f"{counted} became worse",
        "dated": len(dated),
        "drifting": list(map(_drift, drifting[: 2 * MAX_STEADY])),
        "steady": list(map(_drift, steady[:MAX_STEADY])),
    }


def _drift(drift: MetricDrift) -> tuple[str, str, str]:
    name = f"{drift.metric.name}, {drift.hardware_class or 'no class'}"
    words = drift_text(drift)
    return name, words, drift_plot(drift.moments, label=f"{name}: {words}")


def components_table(view: FleetView) -> Markup:
    """Return which parts are found bad, and on how many nodes; empty without any."""
    nodes: Counter[str] = Counter()
    devices: Counter[str] = Counter()
    unusual: Counter[str] = Counter()
    for node in view.nodes:
        if node.row.verdict.decision is Decision.REJECTED:
            nodes.update(node.row.verdict.components)
        failed = {(v.component, v.device) for v in node.row.verdicts if v.outcome is Outcome.FAIL}
        devices.update(component for component, _ in failed)
        unusual.update({v.component for v in node.row.verdicts if v.outcome is Outcome.MARGINAL})
    names = sorted({*nodes, *unusual}, key=lambda name: (-nodes[name], -unusual[name], name))
    if not names:
        return Markup()
    most = max([*nodes.values(), 1])
    rows = [
        (
            block("link", name, map_link(q=name, decision="REJECTED")),
            nodes[name],
            _bar(nodes[name] / most, "bad"),
            devices[name],
            unusual[name],
        )
        for name in names
    ]
    heads = ("component", "nodes rejected for it", "", "failing devices", "nodes that are MARGINAL")
    return block("sortable", "defects by component", heads, rows, numbers=(1, 3, 4))


def yield_tables(view: FleetView) -> list[tuple[str, int, Markup]]:
    """Return how many nodes are accepted, by class and by trait: title, number of rows, table."""
    tables = [_yield(view, "hardware class", [node.row.hardware_class for node in view.nodes])]
    for name in view.traits:
        values = [node.traits.get(name, "") for node in view.nodes]
        if 1 < len(set(values) - {""}) <= MAX_VALUES:
            tables.append(_yield(view, name, values))
    return tables


def _yield(view: FleetView, title: str, values: Sequence[str]) -> tuple[str, int, Markup]:
    counts: dict[str, Counter[Decision]] = {}
    for node, value in zip(view.nodes, values, strict=True):
        counts.setdefault(value, Counter())[node.row.verdict.decision] += 1
    shares = {value: one[Decision.ACCEPTED] / one.total() for value, one in counts.items()}
    rows: list[tuple[Cell, ...]] = []
    for value in sorted(counts, key=lambda v: (shares[v], v)):
        found, whole = counts[value], counts[value].total()
        bars = [_bar(found[decision] / whole, kind) for decision, kind in _BARS.items()]
        rows.append(
            (
                value or "(unknown)",
                whole,
                (shares[value], f"{100 * shares[value]:.1f} %"),
                Markup("").join(bars),
                *(found[decision] for decision in _BARS),
            )
        )
    heads = (title, "nodes", "accepted", "", *map(str, _BARS))
    table = block("sortable", f"yield by {title}", heads, rows, numbers=(1, 2, 4, 5, 6))
    return title, len(rows), table


def metrics_table(view: FleetView) -> Markup:
    """Return every metric with its distribution in numbers, its power and its failures."""
    drifts = {(one.benchmark, one.metric.name): one for one in reversed(view.drifts)}
    rows = [row for one in view.metrics for row in _metric_rows(one, drifts)]
    heads = (
        "metric", "component", "class", "typical", "middle 90 %", "finds a loss of", "nodes that fail",
        "MARGINAL", "largest loss", "over time",
    )  # fmt: skip
    return block("sortable", "metrics", heads, rows, numbers=range(3, 9))


def _metric_rows(
    one: FleetMetric, drifts: dict[tuple[str, str], MetricDrift]
) -> Iterable[tuple[Cell, ...]]:
    metric = one.metric
    linked = block("link", one.label, one.link)
    drift = drifts.get((one.benchmark, metric.name))
    moved = "" if drift is None or not drift.searched else drift.size if drift.drifts else "steady"
    for part in one.classes:
        lost = "-" if part.worst is None else loss_text(part.worst, metric.better, metric.unit)
        every = sorted([*part.healthy, *part.bad.values()])
        if every:
            last = len(every) - 1
            typical = value_text(every[last // 2], metric.unit)
            low, high = every[round(0.05 * last)], every[round(0.95 * last)]
            spread = f"{value_text(low)} to {value_text(high)}"
        else:
            typical = spread = "-"
        finds = part.criterion.detectable if part.criterion is not None else None
        power = "no criterion" if part.criterion is None else "-"
        power = power if finds is None else size_text(finds, metric.better)
        group = f" {part.group}" if part.group else ""
        yield (
            linked,
            one.component,
            part.hardware_class + group,
            typical,
            spread,
            (-1.0 if finds is None else finds, power),
            part.failed,
            part.marginal,
            (-1.0 if part.worst is None else 1 - part.worst, lost),
            moved,
        )


def times_table(view: FleetView) -> Markup:
    """Return what validating cost, benchmark by benchmark; empty where no run says so."""
    if not view.times:
        return Markup()
    most = max(one.seconds for one in view.times) or 1.0
    rows = [
        (
            short(one.benchmark),
            one.component,
            (one.seconds, duration_text(one.seconds)),
            _bar(one.seconds / most, ""),
            one.tests,
            (each := one.seconds / max(1, one.nodes), duration_text(each)),
        )
        for one in view.times
    ]
    heads = ("benchmark", "component", "time", "", "tests", "per node")
    return block("sortable", "time spent by benchmark", heads, rows, numbers=(2, 4, 5))


def _bar(share: float, kind: str) -> Markup:
    """Return a bar; the number next to it says the same."""
    if share <= 0:
        return Markup()
    width = max(0.1, BAR_WIDTH * share)
    return Markup("<span class='bar {}' style='width:{:.2f}em'></span>").format(kind, width)
