"""What was learned, as one HTML page: the distributions of all units and the centre, metric by metric."""

from __future__ import annotations

import html
import statistics
from collections.abc import Sequence

from pytest_anubis.core.baseline import Baseline, Criterion, Exclusion, Finding
from pytest_anubis.core.metric import found_from, metric_name
from pytest_anubis.core.sample import Population
from pytest_anubis.report.pages import html_blocks as blocks
from pytest_anubis.report.pages.metric_sections import short
from pytest_anubis.report.pages.style_sheets import BLOCKS, PAGE
from pytest_anubis.report.plots.distribution_plots import fan_plot
from pytest_anubis.report.text.headlines import baseline_line
from pytest_anubis.report.text.learned_text import UNLIKE, coarse_lines, unlike_line
from pytest_anubis.report.text.numbers import count_text, similarity_text, value_text

PLOTS = 150
"""Metrics with a plot; a page with thousands would not open."""
UNITS = 400
"""Units that one plot takes into account, spread evenly over all."""
VALUES = 400
"""Values of one unit that a plot takes into account."""
LINES = 300
"""Exclusions and findings listed; the file has all."""

Key = tuple[str, str]
"""Benchmark and metric."""


def learn_page(baseline: Baseline, populations: Sequence[Population]) -> str:
    """Return the page of a baseline and the populations that it was learned from.

    Metrics that people should look at (a finding, units left out, few units) are drawn first.

    Args:
        baseline: What was learned.
        populations: The samples that it was learned from; a metric without one is shown without plot.
    """
    excluded: dict[Key, list[Exclusion]] = {}
    for exclusion in baseline.exclusions:
        excluded.setdefault((exclusion.benchmark, exclusion.metric), []).append(exclusion)
    findings: dict[Key, list[Finding]] = {}
    for finding in baseline.findings:
        findings.setdefault((finding.benchmark, finding.metric), []).append(finding)
    known = {(p.benchmark, p.metric.name, p.group): p for p in populations}

    def interest(criterion: Criterion) -> int:
        key = (criterion.benchmark, criterion.metric.name)
        return -2 * (key in excluded) - (key in findings) - criterion.weak

    criteria = sorted((c for c in baseline.criteria if c.scope == "unit"), key=interest)
    pooled = len(baseline.criteria) - len(criteria)
    body = [
        f"<header class='banner'><h1>{html.escape(baseline.hardware_class)}</h1>",
        f"{blocks.paragraph(baseline_line(baseline))}</header>",
        *map(blocks.paragraph, coarse_lines(baseline.criteria)),
        _lists(baseline),
        f"<h2>All metrics</h2>{_table(criteria)}",
        "<p class='faint'>Besides, a node's pooled values are judged by "
        f"{pooled} criteri{'on' if pooled == 1 else 'a'}.</p>"
        if pooled
        else "",
        f"<h2>Distributions</h2>{_capped(len(criteria))}<div class='fans'>",
    ]
    for number, criterion in enumerate(criteria[:PLOTS]):
        key = (criterion.benchmark, criterion.metric.name)
        population = known.get((*key, criterion.group))
        own = findings.get(key, [])
        body.append(_section(number, criterion, population, excluded.get(key, []), own))
    body.append("</div>")
    title = f"{baseline.hardware_class}: baseline {baseline.digest}".removesuffix(": baseline ")
    return blocks.document(title, BLOCKS + PAGE, "".join(body))


def _capped(count: int) -> str:
    if count <= PLOTS:
        return ""
    return (
        f"<p><b>{PLOTS} of {count} metrics are drawn</b>: those with findings or units left out "
        "first. The table above and the baseline's file have all.</p>"
    )


def _lists(baseline: Baseline) -> str:
    out = [
        f"{e.node} {e.device}: {metric_name(short(e.benchmark), e.metric)}: {e.reason}"
        for e in baseline.exclusions
    ]
    found = [
        f"{metric_name(short(f.benchmark), f.metric)}: {f.text}" if f.benchmark else f.text
        for f in baseline.findings
    ]
    check = baseline.self_check
    unlike = list(map(unlike_line, check.unlike)) if check is not None else []
    return (
        _list(f"nodes that are {UNLIKE}, worst first", unlike, open_=True)
        + _list("findings", found)
        + _list("left out of the learning", out)
        + _list("learned from nodes", baseline.nodes)
        + _list("learned from runs", baseline.runs)
    )


def _list(title: str, lines: Sequence[str], *, open_: bool = False) -> str:
    if not lines:
        return ""
    shown = list(lines[:LINES])
    if len(lines) > LINES:
        shown.append(f"and {len(lines) - LINES} more in the baseline's file")
    return blocks.lines_block(title, shown, open_=open_, count=len(lines))


def _table(criteria: Sequence[Criterion]) -> str:
    names = (
        *("centre", "units", "nodes", "repeatability", "practical", "learned"),
        "detectable loss",
    )
    head = blocks.headings("benchmark", "metric") + blocks.headings(*names, number=True)
    rows = []
    for number, criterion in enumerate(criteria):
        linked = blocks.linked(_name(criterion), f"#m{number}" if number < PLOTS else "")
        numbers = blocks.numbers(
            value_text(_middle(criterion), criterion.metric.unit),
            str(criterion.units),
            str(criterion.nodes),
            similarity_text(criterion.repeatability),
            similarity_text(criterion.alpha),
            similarity_text(criterion.learned),
            found_from(criterion.detectable, criterion.metric.better),
        )
        rows.append(f"<td>{linked}</td>{blocks.cells(criterion.metric.name)}{numbers}")
    return blocks.table(head, rows, kind="brief")


def _name(criterion: Criterion) -> str:
    return short(criterion.benchmark) + (f" ({criterion.group})" if criterion.group else "")


def _middle(criterion: Criterion) -> float | None:
    return statistics.median(criterion.centre) if criterion.centre else None


def _section(
    number: int,
    criterion: Criterion,
    population: Population | None,
    excluded: Sequence[Exclusion],
    findings: Sequence[Finding],
) -> str:
    metric = criterion.metric
    facts = [
        f"centre {value_text(_middle(criterion), metric.unit)}",
        _counted(criterion),
        f"repeatability {similarity_text(criterion.repeatability)}",
        f"practical threshold {similarity_text(criterion.alpha)}"
        + ("" if criterion.learned is None else f", learned {similarity_text(criterion.learned)}"),
        ""
        if criterion.detectable is None
        else f"smallest detectable loss {found_from(criterion.detectable, criterion.metric.better)}",
        "weak: few units" if criterion.weak else "",
        *criterion.notes,
    ]
    title = f"{_name(criterion)} · {metric.name}"
    notes = blocks.lines_block("findings", [finding.text for finding in findings], open_=True)
    left = [f"{e.node} {e.device}: {e.reason}" for e in excluded]
    plot = _fan(criterion, population, excluded) if population is not None else ""
    return (
        f"<section class='case' id='m{number}'><h3>{html.escape(title)}</h3>"
        f"{blocks.paragraph('; '.join(filter(None, facts)), 'faint')}"
        f"{notes}{plot}{_list('left out', left)}</section>"
    )


def _counted(criterion: Criterion) -> str:
    """Say how many healthy units a criterion rests on, as the terminal counts them."""
    if criterion.nodes == 1:  # a machine's units are its runs, or its devices
        return count_text(criterion.units, "unit") + " of one node"
    return f"{count_text(criterion.units, 'unit')} of {criterion.nodes} nodes"


def _fan(criterion: Criterion, population: Population, excluded: Sequence[Exclusion]) -> str:
    names = {(e.node, e.device) for e in excluded}
    good: list[int] = []
    bad: dict[str, Sequence[float]] = {}
    for row in range(len(population)):
        if row in population.problems:
            continue
        if (population.nodes[row], population.devices[row]) in names:
            name = f"{population.nodes[row]} {population.devices[row]} {population.runs[row]}"
            bad[name.strip()] = _values(population, row)
        else:
            good.append(row)
    step = max(1, -(-len(good) // UNITS))
    counted = _counted(criterion)
    if len(good) != criterion.units:  # a unit may have several runs
        counted += f", {count_text(len(good), 'sample')}"
    more = f" ({len(good[::step])} of them drawn)" if step > 1 else ""
    left = f", {len(bad)} left out" if bad else ""
    return fan_plot(
        [_values(population, row) for row in good[::step]],
        criterion.centre,
        unit=population.metric.unit,
        bad=bad,
        better=population.metric.better,
        limit=_limit(criterion),
        label=f"{population.metric.name}: {counted}{more}{left}",
        counted=counted,
    )


def _values(population: Population, row: int) -> Sequence[float]:
    values: list[float] = population.sample(row).tolist()
    if len(values) <= VALUES:
        return values
    ordered, last = sorted(values), len(values) - 1
    return [ordered[round(i * last / (VALUES - 1))] for i in range(VALUES)]


def _limit(criterion: Criterion) -> float | None:
    """Return the median at which a uniformly worse unit fails: beyond both thresholds."""
    middle, better = _middle(criterion), criterion.metric.better
    threshold = (
        criterion.alpha if criterion.learned is None else min(criterion.alpha, criterion.learned)
    )
    if middle is None or better == "equal" or threshold <= 0:
        return None
    return middle * threshold if better == "higher" else middle / threshold
