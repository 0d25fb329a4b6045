"""The page of `anubis learn --html`: for each metric the distributions of all units and the expected one.

`class_learning` uses it.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from pytest_anubis.core.baseline import Baseline, Criterion, Exclusion
from pytest_anubis.core.metric import found_from, metric_name
from pytest_anubis.core.sample import Population
from pytest_anubis.report.pages.metric_sections import short
from pytest_anubis.report.pages.rendering import block, render
from pytest_anubis.report.plots.distribution_plots import fan_plot
from pytest_anubis.report.text.learned_text import UNLIKE, coarse_lines, unlike_line
from pytest_anubis.report.text.numbers import count_text, similarity_text, value_text
from pytest_anubis.report.text.shared_lines import baseline_line

MAX_PLOTS = 150
"""Metrics with a plot; a page with thousands would not open."""
MAX_UNITS = 400
"""Units that one plot takes into account, spread evenly over all."""
MAX_VALUES = 400
"""Values of one unit that a plot takes into account."""
MAX_LINES = 300
"""Lines of one list; the baseline's file has all."""
_HEADS = (
    "benchmark", "metric", "centre", "units", "nodes", "repeatability", "practical", "learned",
    "detectable loss",
)  # fmt: skip


def learn_page(baseline: Baseline, populations: Sequence[Population]) -> str:
    """Return the page of a baseline; metrics with findings, units left out or few units come first.

    `populations` are the samples that it was learned from; a metric without samples has no plot.
    """
    excluded: dict[tuple[str, str], list[Exclusion]] = {}
    for exclusion in baseline.exclusions:
        excluded.setdefault((exclusion.benchmark, exclusion.metric), []).append(exclusion)
    findings: dict[tuple[str, str], list[str]] = {}
    for finding in baseline.findings:
        findings.setdefault((finding.benchmark, finding.metric), []).append(finding.text)
    known = {(p.benchmark, p.metric.name, p.group): p for p in populations}

    def interest(criterion: Criterion) -> int:
        key = (criterion.benchmark, criterion.metric.name)
        return -2 * (key in excluded) - (key in findings) - criterion.weak

    criteria = sorted((c for c in baseline.criteria if c.scope == "unit"), key=interest)
    sections = []
    for criterion in criteria[:MAX_PLOTS]:
        key = (criterion.benchmark, criterion.metric.name)
        population = known.get((*key, criterion.group))
        left_out = excluded.get(key, [])
        sections.append(
            {
                "title": f"{_name(criterion)} · {criterion.metric.name}",
                "facts": _facts(criterion),
                "findings": findings.get(key, []),
                "plot": _fan(criterion, population, left_out) if population is not None else "",
                "left_out": _cut([f"{e.node} {e.device}: {e.reason}" for e in left_out]),
                "count": len(left_out),
            }
        )
    return render(
        "learned.html",
        title=f"{baseline.hardware_class}: baseline {baseline.digest}".removesuffix(": baseline "),
        baseline=baseline,
        headline=baseline_line(baseline),
        coarse=coarse_lines(baseline.criteria),
        lists=_lists(baseline),
        table=_table(criteria),
        count=len(criteria),
        pooled=len(baseline.criteria) - len(criteria),
        sections=sections,
    )


def _lists(baseline: Baseline) -> list[tuple[str, list[str], bool, int]]:
    """Return lists about the learning: title, the lines shown, whether unfolded, how many there are."""
    left_out = [
        f"{e.node} {e.device}: {metric_name(short(e.benchmark), e.metric)}: {e.reason}"
        for e in baseline.exclusions
    ]
    found = [
        f"{metric_name(short(f.benchmark), f.metric)}: {f.text}" if f.benchmark else f.text
        for f in baseline.findings
    ]
    unlike = baseline.self_check.unlike if baseline.self_check is not None else ()
    lists: tuple[tuple[str, Sequence[str]], ...] = (
        (f"nodes that are {UNLIKE}, worst first", [unlike_line(one) for one in unlike]),
        ("findings", found),
        ("left out of the learning", left_out),
        ("learned from nodes", baseline.nodes),
        ("learned from runs", baseline.runs),
    )
    return [(title, _cut(lines), title.startswith("nodes"), len(lines)) for title, lines in lists]


def _cut(lines: Sequence[str]) -> list[str]:
    left = len(lines) - MAX_LINES
    more = [f"and {left} more in the baseline's file"] if left > 0 else []
    return [*lines[:MAX_LINES], *more]


def _table(criteria: Sequence[Criterion]) -> Markup:
    rows = [
        (
            block("link", _name(criterion), f"#m{number}" if number < MAX_PLOTS else ""),
            criterion.metric.name,
            value_text(_middle(criterion), criterion.metric.unit),
            str(criterion.units),
            str(criterion.nodes),
            similarity_text(criterion.repeatability),
            similarity_text(criterion.alpha),
            similarity_text(criterion.learned),
            found_from(criterion.detectable, criterion.metric.better),
        )
        for number, criterion in enumerate(criteria)
    ]
    return block("table", _HEADS, rows, numbers=range(2, len(_HEADS)), kind="brief")


def _name(criterion: Criterion) -> str:
    return short(criterion.benchmark) + (f" ({criterion.group})" if criterion.group else "")


def _middle(criterion: Criterion) -> float | None:
    return criterion.typical if criterion.centre else None


def _facts(criterion: Criterion) -> str:
    metric, learned, detectable = criterion.metric, criterion.learned, criterion.detectable
    threshold = f"practical threshold {similarity_text(criterion.alpha)}"
    if learned is not None:
        threshold += f", learned {similarity_text(learned)}"
    facts = [
        f"centre {value_text(_middle(criterion), metric.unit)}",
        _counted(criterion),
        f"repeatability {similarity_text(criterion.repeatability)}",
        threshold,
    ]
    if detectable is not None:
        facts.append(f"smallest detectable loss {found_from(detectable, metric.better)}")
    facts += ["weak: few units"] if criterion.weak else []
    return "; ".join([*facts, *filter(None, criterion.notes)])


def _counted(criterion: Criterion) -> str:
    """Return how many healthy units a criterion was learned from, as the terminal counts them."""
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
    step = max(1, -(-len(good) // MAX_UNITS))
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
    if len(values) <= MAX_VALUES:
        return values
    ordered, last = sorted(values), len(values) - 1
    return [ordered[round(i * last / (MAX_VALUES - 1))] for i in range(MAX_VALUES)]


def _limit(criterion: Criterion) -> float | None:
    """Return the median at which a uniformly worse unit fails both thresholds."""
    middle, better = _middle(criterion), criterion.metric.better
    threshold = (
        criterion.alpha if criterion.learned is None else min(criterion.alpha, criterion.learned)
    )
    if middle is None or better == "equal" or threshold <= 0:
        return None
    return middle * threshold if better == "higher" else middle / threshold
