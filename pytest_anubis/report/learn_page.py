"""What was learned, as one HTML page: the distributions of all units and the centre, metric by metric."""

from __future__ import annotations

import html
from collections.abc import Sequence

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.sample import Population
from pytest_anubis.report import blocks
from pytest_anubis.report.headline import baseline_line
from pytest_anubis.report.numbers import percent, similarity_text, value_text
from pytest_anubis.report.style import BLOCKS
from pytest_anubis.report.svg import fan_plot

MOST = 200
"""Metrics with a plot; a page with thousands would not open."""
UNITS = 120
"""Units drawn in one plot, spread evenly over all."""


def learn_page(baseline: Baseline, populations: Sequence[Population]) -> str:
    """Return the page of a baseline and the populations that it was learned from."""
    left_out = {(e.node, e.device, e.benchmark, e.metric): e.reason for e in baseline.exclusions}
    known = {(p.benchmark, p.metric.name, p.group): p for p in populations}
    criteria = [c for c in baseline.criteria if c.scope == "unit"]
    parts = [
        f"<h1>{html.escape(baseline.hardware_class)}</h1>",
        f"<p>{html.escape(baseline_line(baseline))}</p>",
        blocks.lines_block("findings", [f.text for f in baseline.findings], open_=True),
        blocks.lines_block(
            "left out",
            [
                f"{e.node} {e.device} {e.benchmark} {e.metric}: {e.reason}"
                for e in baseline.exclusions
            ],
        ),
    ]
    if len(criteria) > MOST:
        parts.append(
            f"<p>the first {MOST} of {len(criteria)} metrics are drawn; the file has all</p>"
        )
    for criterion in criteria[:MOST]:
        population = known.get((criterion.benchmark, criterion.metric.name, criterion.group))
        parts.append(_section(criterion, population, left_out))
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(baseline.hardware_class)}</title><style>:root{{color-scheme:light dark}}"
        "body{margin:2em auto;max-width:72em;padding:0 1em}"
        f"{BLOCKS}</style></head><body class='anubis'>{''.join(parts)}</body></html>\n"
    )


def _section(
    criterion: Criterion,
    population: Population | None,
    left_out: dict[tuple[str, str, str, str], str],
) -> str:
    metric = criterion.metric
    facts = [
        f"centre {value_text(criterion.centre[len(criterion.centre) // 2], metric.unit)}",
        f"{criterion.nodes} nodes, {criterion.units} units",
        f"repeatability {similarity_text(criterion.repeatability)}",
        f"practical limit {similarity_text(criterion.alpha)}",
        f"learned limit {similarity_text(criterion.limit)}",
        f"smallest detectable loss {percent(criterion.detectable)}",
        *criterion.notes,
    ]
    group = f" ({criterion.group})" if criterion.group else ""
    head = f"{criterion.benchmark} {metric.name}{group}"
    plot = _fan(criterion, population, left_out) if population is not None else ""
    return f"<section><h2>{html.escape(head)}</h2><p>{html.escape('; '.join(facts))}</p>{plot}</section>"


def _fan(
    criterion: Criterion,
    population: Population,
    left_out: dict[tuple[str, str, str, str], str],
) -> str:
    good: list[list[float]] = []
    bad: list[list[float]] = []
    for row in range(len(population)):
        if row in population.problems:
            continue
        key = (
            *(population.nodes[row], population.devices[row]),
            *(population.benchmark, population.metric.name),
        )
        values = population.sample(row).tolist()
        (bad if key in left_out else good).append(values)
    step = max(1, len(good) // UNITS)
    return fan_plot(
        good[::step],
        criterion.centre,
        unit=population.metric.unit,
        bad={str(i): b for i, b in enumerate(bad[:UNITS])},
        label=f"{population.metric.name} of {len(good)} units; orange: left out",
    )
