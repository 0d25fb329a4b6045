"""Say why a learned baseline is less than it claims, and what helps: error rate, lost metrics, sick nodes.

`undersampled_metrics`, which need more rounds, is for `rounds`. `class_learning` and `learn_command` use it.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.learning.next_commands import without_command
from pytest_anubis.codec.moments import day_of
from pytest_anubis.core.baseline import DOUBTFUL
from pytest_anubis.core.metric import metric_names
from pytest_anubis.core.verdict import Decision
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.store.node_standing import StandingError, read_standing
from pytest_anubis.validator.deciding.ledger import uncovered_components

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.sample import Population

MAX_COMPONENTS = 8
"""Components that are listed without ``-v``."""


def doubts_of(
    baseline: Baseline,
    populations: Sequence[Population],
    options: argparse.Namespace,
    explain_disturbance: Callable[[Sequence[tuple[str, str]]], str] | None = None,
) -> tuple[list[str], bool]:
    """Return lines on what makes a baseline with criteria less than it claims, and whether anything does.

    `explain_disturbance` says what disturbed some metrics and what helps; it is None if the runs were
    collected. The option ``--accept-rate`` silences the doubt about the error rate.
    """
    lines: list[str] = []
    check = baseline.self_check
    if check is not None and not check.holds and not options.accept_rate:
        lines.append(
            "the stated error rate does not hold (see above): leave out what breaks it (--without METRIC), "
            "learn its populations apart, or take the rate as it is with --accept-rate"
        )
        alone = [f"{f.benchmark} {f.metric}" for f in baseline.findings if f.kind == "rejects-many"]
        if alone:
            command = shlex.join(without_command(options, alone))
            lines.append(f"without what breaks it alone: {command}")
    disturbed = {
        (population.benchmark, population.metric.name)
        for population in populations
        if any(problem.kind == "disturbed" for problem in population.problems.values())
    }
    keys = ((item.benchmark, item.metric) for item in baseline.unjudged)
    if lost := [key for key in keys if key in disturbed]:
        cause = explain_disturbance(lost) if explain_disturbance else ""
        again = f"learn again when this machine is quiet: {cause}" if cause else "measure again"
        names = ", ".join(metric_names(lost))
        lines.append(f"{count_text(len(lost), 'metric')} lost to disturbances: {names}; {again}")
    if bare := uncovered_components(baseline):
        lines.append(
            "nothing is accepted while these components have no metric that shows a loss of a half:"
        )
        shown = bare if options.verbose else bare[:MAX_COMPONENTS]
        lines += [f"  {one.component}: {one.why}" for one in shown]
        if len(bare) > len(shown):
            lines.append(f"  ... and {len(bare) - len(shown)} more (-v shows all)")
    return lines, bool(lines or baseline.undecided) or has_doubtful_values(baseline)


def rejected_lines(store: Path, nodes: Sequence[str]) -> list[str]:
    """Return a line that names the rejected nodes among those learned from: their faults count as normal."""
    holds = holds_on(day_of(time.time()))
    try:
        known = [read_standing(store, node) for node in nodes]
    except StandingError as error:
        return [f"{error}: whether these nodes are rejected is not known"]
    rejected = [
        one.node
        for one in known
        if one is not None and one.runs and one.standing(holds).decision is Decision.REJECTED
    ]
    if not rejected:
        return []
    return [
        f"this baseline takes the faults of rejected nodes as normal: {', '.join(rejected)}; repair them and "
        "learn again, or put the earlier baseline (baselines/expired) back"
    ]


def has_doubtful_values(baseline: Baseline) -> bool:
    """Return whether a finding asks an operator to look at values of a node."""
    return any(finding.kind == DOUBTFUL for finding in baseline.findings)


def undersampled_metrics(runs: Sequence[Path], wanted: int) -> set[tuple[str, str]]:
    """Return the metrics (benchmark and name) with fewer quiet samples than wanted."""
    from pytest_anubis.store.collected_runs import read_runs

    return {
        (population.benchmark, population.metric.name)
        for population in read_runs(runs).populations
        if len(population) - len(population.problems) < wanted
    }
