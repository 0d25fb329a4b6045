"""What a baseline can show and what it cannot, in a few lines for the end of learning."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import found_from, loss_text, metric_name, percent_text
from pytest_anubis.report.text.numbers import count_text

LOSSES = (0.25, 0.5)
"""Larger losses whose power is reported next to the wanted one: one that must not be missed, and a half."""


def power_lines(baseline: Baseline, detect: float, *, verbose: bool = False) -> list[str]:
    """Return what losses the criteria find with 95 % probability.

    Args:
        baseline: As learned.
        detect: Loss that every metric is wanted to find, relative.
        verbose: Name the metrics that lack power, too, and those that have none.
    """
    finds = [(loss, c) for c in baseline.criteria if (loss := c.shown_loss) is not None]
    if not finds:
        return []
    whole = len(finds) + len(baseline.unjudged)
    told = [loss for loss in LOSSES if loss > detect]
    larger = "".join(
        f", of {percent_text(loss)} in {sum(least <= loss for least, _ in finds)}" for loss in told
    )
    enough = sum(least <= detect for least, _ in finds)
    lines = [
        f"this baseline finds a loss of {percent_text(detect)} in {enough} of "
        f"{count_text(whole, 'metric')}{larger}"
    ]
    if not verbose:
        return lines
    weak = [one for one in finds if one[0] > detect and not one[1].coarse]  # those have their line
    lines += _named(sorted(weak, key=lambda one: -one[0]))
    if baseline.unjudged:
        names = ", ".join(
            metric_name(_short(one.benchmark), one.metric) for one in baseline.unjudged
        )
        lines.append(f"it has no criterion for these, and does not judge them: {names}")
    return lines


def next_line(
    *, judge: Sequence[str], learn: Sequence[str], bare: bool = False, mend: bool = False
) -> str:
    """Return what to type next on the machine that was measured: what can bring it nearer to acceptance.

    Args:
        judge: Command line that judges by this baseline.
        learn: One that measures longer.
        bare: No metric of a component shows a loss of a half, so that no run is accepted by this baseline.
        mend: Neither is any before a mark is mended that declares what is never recorded.
    """
    if bare:
        return f"next, when nothing else runs here: {shlex.join(learn)}"
    return f"next{', once the marks are mended' if mend else ''}: {shlex.join(judge)}"


def _named(weak: Sequence[tuple[float, Criterion]]) -> list[str]:
    named = [
        f"{metric_name(_short(c.benchmark), c.metric.name)} {_least(loss, c)}" for loss, c in weak
    ]
    return [f"weakest, with the smallest loss that each finds: {', '.join(named)}"] if weak else []


def _least(loss: float, criterion: Criterion) -> str:
    """Return the loss that is found on the scale of the line above, of a time as it is measured too."""
    metric, found = criterion.metric, criterion.detectable
    text = found_from(loss, "higher")
    if metric.better != "lower" or found is None:
        return text
    return f"{text} ({loss_text(1 / (1 + found), metric.better, metric.unit)})"


def _short(benchmark: str) -> str:
    return benchmark.rpartition("::")[2]
