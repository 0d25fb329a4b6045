"""What makes a learned baseline less than it claims, said in lines that name the way out."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.learning.next_commands import without_command
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.codec.moments import day_of
from pytest_anubis.core.baseline import DOUBTFUL
from pytest_anubis.core.metric import metric_names
from pytest_anubis.core.verdict import Decision
from pytest_anubis.core.waivers.waiving import holds_on
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.store.node_standing import StandingError, read_standing
from pytest_anubis.validator.deciding.ledger import uncovered_components

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.sample import Population

NAMED = 8
"""Components that are named without ``-v``."""


def is_doubtful(
    baseline: Baseline, populations: Sequence[Population], options: argparse.Namespace
) -> bool:
    """Say what makes a baseline less than it claims, and return whether anything does.

    Args:
        baseline: As learned, with a criterion at least.
        populations: What it was learned from.
        options: Those of the command; with ``--accept-rate`` the rate that it does hold is no doubt, and
            ``helps`` says what would have let metrics count, where this command measured them.
    """
    check, doubt = baseline.self_check, bool(baseline.undecided)
    if check is not None and not check.holds and not options.accept_rate:
        say(
            "the stated error rate does not hold (see above): leave out what breaks it (--without METRIC), "
            "learn its populations apart, or take the rate as it is with --accept-rate"
        )
        alone = [f"{f.benchmark} {f.metric}" for f in baseline.findings if f.kind == "rejects-many"]
        if alone:
            say(f"without what breaks it alone: {shlex.join(without_command(options, alone))}")
        doubt = True
    disturbed = {
        (population.benchmark, population.metric.name)
        for population in populations
        if any(problem.kind == "disturbed" for problem in population.problems.values())
    }
    keys = ((item.benchmark, item.metric) for item in baseline.unjudged)
    if lost := [key for key in keys if key in disturbed]:
        names = ", ".join(metric_names(lost))
        told = options.helps(lost) if options.helps else ""
        again = f"learn again when this machine is quiet: {told}" if told else "measure again"
        say(f"{count_text(len(lost), 'metric')} lost to disturbances: {names}; {again}")
        doubt = True
    doubt = doubt or has_doubtful_values(baseline)
    if bare := uncovered_components(baseline):
        say(
            "nothing is accepted while these components have no metric that shows a loss of a half:"
        )
        told = bare if options.verbose else bare[:NAMED]
        say(*(f"  {one.component}: {one.why}" for one in told))
        if len(bare) > len(told):
            say(f"  ... and {len(bare) - len(told)} more (-v shows all)")
    return doubt or bool(bare)


def is_rejected(store: Path, nodes: Sequence[str]) -> bool:
    """Say which nodes that were just learned from are rejected; return whether any is.

    What was learned calls their faults normal.
    """
    holds = holds_on(day_of(time.time()))
    try:
        known = [read_standing(store, node) for node in nodes]
    except StandingError as error:
        say(f"{error}: whether these nodes are rejected is not known")
        return True
    named = [
        one.node
        for one in known
        if one is not None and one.runs and one.standing(holds).decision is Decision.REJECTED
    ]
    if named:
        say(
            f"rejected, so this baseline calls its fault normal: {', '.join(named)}; mend it and learn "
            "again, or take the baseline before (baselines/expired) back"
        )
    return bool(named)


def has_doubtful_values(baseline: Baseline) -> bool:
    """Return whether somebody must look at values first; the findings name the nodes."""
    return any(finding.kind == DOUBTFUL for finding in baseline.findings)


def spoiled(runs: Sequence[Path], wanted: int) -> set[tuple[str, str]]:
    """Return which metrics (benchmark and name) have fewer quiet samples than wanted."""
    from pytest_anubis.store.collected_runs import read_runs

    populations = read_runs(runs).populations
    return {
        (population.benchmark, population.metric.name)
        for population in populations
        if len(population) - len(population.problems) < wanted
    }
