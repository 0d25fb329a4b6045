"""The last lines of `anubis learn`: which losses the baseline detects, and the command to type next.

`class_learning` uses it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import found_from, loss_text, metric_name, percent_text
from pytest_anubis.report.text.numbers import count_text

LOSSES = (0.25, 0.5)
"""Larger losses whose detection is reported as well."""


def power_lines(baseline: Baseline, detect: float, *, verbose: bool = False) -> list[str]:
    """Return which losses the criteria find with 95 % probability.

    `detect` is the relative loss that every metric should find; `verbose` names the metrics that do not find
    it, and those without a criterion.
    """
    finds = [(loss, c) for c in baseline.criteria if (loss := c.shown_loss) is not None]
    if not finds:
        return []
    whole = count_text(len(finds) + len(baseline.unjudged), "metric")
    enough = sum(smallest <= detect for smallest, _ in finds)
    larger = "".join(
        f", of {percent_text(loss)} in {sum(smallest <= loss for smallest, _ in finds)}"
        for loss in LOSSES
        if loss > detect
    )
    lines = [f"this baseline finds a loss of {percent_text(detect)} in {enough} of {whole}{larger}"]
    if not verbose:
        return lines
    # Coarse criteria have a line of their own.
    weak = [(loss, c) for loss, c in finds if loss > detect and not c.coarse]
    if weak:
        names = ", ".join(_smallest_loss(*one) for one in sorted(weak, key=lambda one: -one[0]))
        lines.append(f"weakest, with the smallest loss that each finds: {names}")
    if baseline.unjudged:
        names = ", ".join(
            metric_name(_short(one.benchmark), one.metric) for one in baseline.unjudged
        )
        lines.append(f"it has no criterion for these, and does not judge them: {names}")
    return lines


def next_line(
    *, judge: Sequence[str], learn: Sequence[str], bare: bool = False, mend: bool = False
) -> str:
    """Return the next command on the machine that was measured.

    Args:
        judge: Command line that judges by this baseline.
        learn: Command line that measures longer.
        bare: A component has no metric that shows a loss of a half: this baseline accepts no run.
        mend: A mark declares a metric that is never recorded: no run is accepted before it is repaired.
    """
    if bare:
        return f"next, when nothing else runs here: {shlex.join(learn)}"
    return f"next{', once the marks are mended' if mend else ''}: {shlex.join(judge)}"


def _smallest_loss(loss: float, criterion: Criterion) -> str:
    """Return a metric and the smallest loss that it finds; of a time also how much longer that is."""
    metric, found = criterion.metric, criterion.detectable
    text = f"{metric_name(_short(criterion.benchmark), metric.name)} {found_from(loss, 'higher')}"
    if metric.better != "lower" or found is None:
        return text
    return f"{text} ({loss_text(1 / (1 + found), metric.better, metric.unit)})"


def _short(benchmark: str) -> str:
    return benchmark.rpartition("::")[2]
