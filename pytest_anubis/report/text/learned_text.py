"""What was learned, as lines for the terminal: one row a criterion, then findings and exclusions."""

from __future__ import annotations

from pytest_anubis.core.baseline import Baseline, Criterion, Finding
from pytest_anubis.report.text.numbers import count_text, percent, similarity_text, value_text
from pytest_anubis.report.text.text_table import clip, table

MOST = 60
"""Rows and exclusions shown; a wide baseline is read in its file."""

CHECKS = 200
"""Characters for the names of the checks without a metric: two lines."""


def learned_lines(baseline: Baseline) -> list[str]:
    """Return the summary of a baseline that was just learned."""
    lines = [f"hardware class {baseline.hardware_class}"]
    shown = sorted(baseline.criteria, key=lambda c: (c.benchmark, c.metric.name, c.group, c.scope))
    if shown:
        header = [
            *("benchmark", "metric", "centre", "unit", "units", "repeatability"),
            *("threshold", "smallest detectable loss"),
        ]
        lines += table([header, *(_row(criterion) for criterion in shown[:MOST])]).splitlines()
    if len(shown) > MOST:
        lines.append(f"... and {len(shown) - MOST} more criteria, all in the file")
    nodes = f"{len(baseline.nodes)} nodes" if not baseline.one_machine else "nodes: 1"
    excluded = f", {len(baseline.exclusions)} samples left out" if baseline.exclusions else ""
    lines.append(
        f"{len(shown)} criteria from {nodes}, {count_text(len(baseline.runs), 'run')}{excluded}"
    )
    lines += _paced(shown)
    if baseline.checks:
        lines.append(
            f"{count_text(len(baseline.checks), 'check')} without a metric that every node must pass too: "
            + clip(", ".join(check.test.rpartition("/")[2] for check in baseline.checks), CHECKS)
        )
    for exclusion in baseline.exclusions[:MOST]:
        lines.append(
            f"left out: {exclusion.node} {exclusion.device} {exclusion.benchmark} "
            f"{exclusion.metric}: {exclusion.reason}"
        )
    lines += [f"finding: {_place(finding)}{finding.text}" for finding in baseline.findings]
    return lines


def _paced(criteria: list[Criterion]) -> list[str]:
    """Return a line on what the host's pace makes tighter, if it does so anywhere."""
    gains = sorted(criterion.paced.gain for criterion in criteria if criterion.paced is not None)
    if not gains:
        return []
    middle, most = gains[len(gains) // 2], gains[-1]
    return [
        f"pace of the host: {count_text(len(gains), 'metric')} follow it and are judged at its reference "
        f"pace too, where their runs spread {middle:.2f} times as far (median; at most {most:.2f})"
    ]


def _place(finding: Finding) -> str:
    return f"{finding.benchmark.rpartition('/')[2]}: " if finding.benchmark else ""


def _row(criterion: Criterion) -> list[str]:
    centre = criterion.typical if criterion.centre else 0.0
    threshold = criterion.learned if criterion.learned is not None else criterion.alpha
    group = f" ({criterion.group})" if criterion.group else ""
    node = " [node]" if criterion.scope == "node" else ""
    return [
        criterion.benchmark.rpartition("/")[2] + group + node,
        criterion.metric.name,
        value_text(centre),
        criterion.metric.unit,
        str(criterion.units),
        "-" if criterion.repeatability is None else similarity_text(criterion.repeatability),
        similarity_text(threshold),
        "-" if criterion.detectable is None else percent(criterion.detectable),
    ]
