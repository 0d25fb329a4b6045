"""Tables below the heat map: what separates nodes, time, components, yield, power of metrics, costs."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_anubis.core.metric import loss_text, size_text
from pytest_anubis.core.survey.fleet_survey import MetricDrift
from pytest_anubis.core.verdict import Decision, Outcome
from pytest_anubis.report.fleet.fleet_view import ClassMetric, FleetMetric, FleetView
from pytest_anubis.report.fleet.glance import (
    NO_DATES,
    STEADY,
    drift_text,
    map_link,
    shift_link,
    shift_name,
    shift_text,
)
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.metric_sections import short
from pytest_anubis.report.plots.fleet_plots import drift_plot
from pytest_anubis.report.text.numbers import count_text, duration_text, share_text, value_text

DRIFTS = 6
"""Metrics over time that are drawn where none drifts, and most that are drawn at all beside those that do."""
VALUES = 40
"""Most values of a trait whose yield is a table: a serial number has one for each node."""
WIDTH = 9
"""Width of a bar that means all, in em: next to the number it needs no more."""
_KINDS = {Decision.ACCEPTED: "good", Decision.UNDECIDED: "open", Decision.REJECTED: "bad"}
"""Decisions as the bars of the yield show them."""


def shifts_section(view: FleetView) -> str:
    """Return what separates nodes of a class: one row a trait."""
    if not view.shifts:
        return ""
    rows = []
    for shift in view.shifts:
        apart = max((one.apart for one in shift.metrics), default=None)
        alias = f"the same nodes as {', '.join(shift.aliases)}" if shift.aliases else ""
        rows.append(
            f"<tr><th scope='row'><a href='{shift_link(view, shift)}'>{html.escape(shift_name(shift))}</a>"
            f"</th>{blocks.cells(shift.hardware_class)}{_number(len(shift.nodes))}"
            f"{blocks.cells('worse' if shift.worse else 'better', shift_text(shift, 6))}"
            f"{blocks.number(share_text(apart))}{blocks.cells(alias)}</tr>"
        )
    heads = ("trait", "class", "nodes", "they are", "in what", "apart", "cannot be told from")
    return (
        "<h2 id='shifts'>What separates nodes</h2><p>A trait is named where its nodes stand apart from the "
        "others of their class by more than chance. <i>Apart</i> is the chance that one of them is worse "
        "than one of the others: 100 % is complete separation.</p>"
        + table(heads, rows, numbers=(2, 5), label="traits that separate nodes")
    )


def drift_section(view: FleetView) -> str:
    """Return metrics over time: those that drift, then those that come nearest to it."""
    dated = [one for one in view.drifts if len(one.moments) > 1]
    if not dated:
        return f"<h2 id='drifts'>Over time</h2><p>{NO_DATES}.</p>"
    drifting = [one for one in dated if one.drifts]
    others = [one for one in dated if not one.drifts][:DRIFTS]
    told = (
        f"{count_text(len(drifting), 'metric')} became worse"
        if drifting
        else "No metric became worse"
    )
    rest = "".join(_drift(one) for one in others)
    return (
        f"<h2 id='drifts'>Over time</h2><p>{told}, of {len(dated)} that were measured over time. The line is "
        "the median of all nodes of a class, 100 % is typical of it, up is better; the band holds the middle "
        f"80 %.</p><div class='fans'>{''.join(map(_drift, drifting[: 2 * DRIFTS]))}</div>"
        f"<details><summary>{count_text(len(others), 'metric')} that did not, for comparison</summary>"
        f"<div class='fans'>{rest}</div></details>"
    )


def _drift(drift: MetricDrift) -> str:
    name = f"{drift.metric.name}, {drift.hardware_class or 'no class'}"
    words = drift_text(drift) if drift.drifts else STEADY
    plot = drift_plot(drift.moments, label=f"{name}: {words}")
    caption = f"<b>{html.escape(name)}</b>: {html.escape(words)}"
    return f"<figure class='case'><figcaption>{caption}</figcaption>{plot}</figure>"


def components_section(view: FleetView) -> str:
    """Return which parts are found bad, and on how many nodes."""
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
        return "<h2 id='components'>Defects by component</h2><p>No component is found bad.</p>"
    most = max([*nodes.values(), 1])
    rows = [
        f"<tr><th scope='row'><a href='{map_link(q=name, decision='REJECTED')}'>{html.escape(name)}</a></th>"
        f"{_number(nodes[name])}<td class='b'>{_bar(nodes[name] / most, 'bad')}</td>"
        f"{_number(devices[name])}{_number(unusual[name])}</tr>"
        for name in names
    ]
    heads = ("component", "nodes rejected for it", "", "failing devices", "nodes that are MARGINAL")
    return "<h2 id='components'>Defects by component</h2>" + table(
        heads, rows, numbers=(1, 3, 4), label="defects by component"
    )


def yield_section(view: FleetView) -> str:
    """Return how many nodes are accepted, by class and by trait."""
    parts = [
        _yield(view, "hardware class", [node.row.hardware_class for node in view.nodes], open_=True)
    ]
    for name in view.traits:
        values = [node.traits.get(name, "") for node in view.nodes]
        if 1 < len(set(values) - {""}) <= VALUES:
            parts.append(_yield(view, name, values, open_=False))
    return f"<h2 id='yield'>Yield</h2>{''.join(parts)}"


def _yield(view: FleetView, title: str, values: Sequence[str], *, open_: bool) -> str:
    counts: dict[str, Counter[Decision]] = {}
    for node, value in zip(view.nodes, values, strict=True):
        counts.setdefault(value, Counter())[node.row.verdict.decision] += 1
    rows = []
    order = sorted(counts, key=lambda v: (counts[v][Decision.ACCEPTED] / counts[v].total(), v))
    for value in order:
        found, whole = counts[value], counts[value].total()
        bar = "".join(_bar(found[decision] / whole, kind) for decision, kind in _KINDS.items())
        share = found[Decision.ACCEPTED] / whole
        rows.append(
            f"<tr><th scope='row'>{html.escape(value or '(unknown)')}</th>{_number(whole)}"
            f"<td class='n' data-v='{share:.4f}'>{100 * share:.1f} %</td><td class='b'>{bar}</td>"
            f"{''.join(_number(found[decision]) for decision in _KINDS)}</tr>"
        )
    heads = (title, "nodes", "accepted", "", "ACCEPTED", "UNDECIDED", "REJECTED")
    inner = table(heads, rows, numbers=(1, 2, 4, 5, 6), label=f"yield by {title}")
    state = " open" if open_ else ""
    return (
        f"<details{state}><summary>by {html.escape(title)} ({len(rows)})</summary>{inner}</details>"
    )


def metrics_section(view: FleetView) -> str:
    """Return every metric with its distribution in numbers, its power and its failures."""
    drifts = {(one.benchmark, one.metric.name): one for one in reversed(view.drifts)}
    rows = [row for one in view.metrics for row in _metric_rows(one, drifts)]
    heads = (
        "metric", "component", "class", "typical", "middle 90 %", "finds a loss of", "nodes that fail",
        "MARGINAL", "largest loss", "over time",
    )  # fmt: skip
    return (
        "<h2 id='metrics'>Metrics: distributions and power</h2><p>Each metric leads to its distribution in "
        "every class. <i>Finds a loss of</i> is the power of its criterion: the smallest uniform loss that "
        "it finds in 95 % of cases.</p>"
        + table(heads, rows, numbers=(3, 4, 5, 6, 7, 8), label="metrics")
    )


def _metric_rows(one: FleetMetric, drifts: dict[tuple[str, str], MetricDrift]) -> Iterable[str]:
    metric = one.metric
    linked = blocks.linked(one.label, one.link)
    drift = drifts.get((one.benchmark, metric.name))
    moved = "" if drift is None or not drift.moments else drift.size if drift.drifts else "steady"
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
            f"<tr><th scope='row'>{linked}</th>"
            f"{blocks.cells(one.component, part.hardware_class + group)}{blocks.numbers(typical, spread)}"
            f"{_sorted(-1 if finds is None else finds, power)}{_number(part.failed)}"
            f"{_number(part.marginal)}{_sorted(_lost(part), lost)}{blocks.cells(moved)}</tr>"
        )


def _lost(part: ClassMetric) -> float:
    """Return by what the largest losses are sorted: those that are not known come first."""
    return -1.0 if part.worst is None else 1 - part.worst


def times_section(view: FleetView) -> str:
    """Return what validating cost, benchmark by benchmark."""
    if not view.times:
        return (
            "<h2 id='times'>Time spent</h2><p>These runs do not say how long their tests took (imports, "
            "tables).</p>"
        )
    whole = sum(one.seconds for one in view.times)
    most = max(one.seconds for one in view.times) or 1.0
    rows = [
        f"<tr><th scope='row'>{html.escape(short(one.benchmark))}</th>{blocks.cells(one.component)}"
        f"{_sorted(one.seconds, duration_text(one.seconds))}"
        f"<td class='b'>{_bar(one.seconds / most, '')}</td>{_number(one.tests)}"
        f"{_sorted(each, duration_text(each))}</tr>"
        for one in view.times
        for each in [one.seconds / max(1, one.nodes)]
    ]
    heads = ("benchmark", "component", "time", "", "tests", "per node")
    told = f"{duration_text(whole)} of tests on {count_text(len(view.nodes), 'node')}"
    inner = table(heads, rows, numbers=(2, 4, 5), label="time spent by benchmark")
    return f"<h2 id='times'>Time spent</h2><p>{told}.</p>{inner}"


def table(heads: Sequence[str], rows: Sequence[str], *, numbers: Sequence[int], label: str) -> str:
    """Return a table that the page's script lets people sort, and that scrolls where the page is narrow.

    Args:
        heads: Names of its columns; an empty one is of a bar beside a number.
        rows: Its rows, each beginning with a heading.
        numbers: Which columns hold numbers.
        label: What it is, for those who cannot see it.
    """
    cells = "".join(blocks.headings(name, number=n in numbers) for n, name in enumerate(heads))
    return (
        f"<div class='wide' role='region' aria-label='{html.escape(label)}' tabindex='0'>"
        f"<table class='sortable'><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _number(count: int) -> str:
    return f"<td class='n' data-v='{count}'>{count}</td>"


def _sorted(value: float, text: str) -> str:
    """Return a cell that says a text and is sorted by a value."""
    return f"<td class='n' data-v='{value:.6g}'>{html.escape(text)}</td>"


def _bar(share: float, kind: str) -> str:
    """Return a bar beside a number that says the same."""
    if share <= 0:
        return ""
    return f"<span class='bar {kind}' style='width:{max(0.1, WIDTH * share):.2f}em'></span>"
