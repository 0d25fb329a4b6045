"""Carry decisions about slower groups of nodes over from the baseline in force to the one that replaces it.

They hold where a metric splits at the same place. Benchmarks that are lost are named; a baseline of far fewer
nodes is refused. `class_learning` uses it, and `baseline_command` for the decisions of an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from pytest_anubis.cli.shared.baseline_changes import key_of
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import metric_name
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.text_table import clip
from pytest_anubis.store.baselines.baseline_files import (
    BaselineError,
    find_baseline,
    load_baseline,
)
from pytest_anubis.validator.learning.undecided_groups import UNDECIDED
from pytest_anubis.validator.limits.promises import Decision, apply_decision

MAX_NAMES_LENGTH = 300
"""Characters of a list of benchmarks in one line."""

PROTECTED_NODES = 10
"""A baseline of so many nodes or more is not replaced by one of less than half as many."""

SAME_CENTRE = 0.05
"""Relative difference up to which two groups count as those of before; a loss that matters is larger."""


def decisions_in(folder: Path, hardware_class: str) -> Callable[[Criterion], Decision]:
    """Return a function that gives a new criterion the decision about its groups in the baseline in force.

    Learning calls it before the self-check, so that the check counts what the decision rejects.
    """
    return _kept_from(_in_force(folder, hardware_class))


def _kept_from(before: Baseline | None) -> Callable[[Criterion], Decision]:
    old = {} if before is None else {key_of(one): one for one in before.criteria}
    return lambda criterion: _decision(criterion, old.get(key_of(criterion)))


def _in_force(folder: Path, hardware_class: str) -> Baseline | None:
    try:
        path = find_baseline(folder, hardware_class) if folder.is_dir() else None
        return None if path is None else load_baseline(path, hardware_class=hardware_class)
    except (OSError, BaselineError):
        return None  # a file that cannot be read decides nothing


def check_size(hardware_class: str, folder: Path, nodes: Collection[str]) -> None:
    """Refuse to replace the baseline of many nodes by one of less than half as many."""
    before = _in_force(folder, hardware_class)
    count = 0 if before is None else len(before.nodes)
    if count >= PROTECTED_NODES and 2 * len(nodes) < count:
        raise CommandError(
            f"{hardware_class}: the baseline in {folder} is of {count} nodes, and these runs are of "
            f"{len(nodes)}: judge them by it ('anubis judge'), learn from all runs together, or write "
            "elsewhere (--output DIR)"
        )


def with_decisions(
    baseline: Baseline, decide: Callable[[Criterion], Decision]
) -> tuple[Baseline, dict[tuple[str, str], Decision]]:
    """Apply decisions about slower groups, and drop the findings that ask for them.

    Returns:
        The baseline, and the decision about each benchmark and metric for which there is one.
    """
    criteria = []
    decided: dict[tuple[str, str], Decision] = {}
    for criterion in baseline.criteria:
        if decision := decide(criterion):
            criterion = apply_decision(criterion, decision)
            decided[criterion.benchmark, criterion.metric.name] = decision
        criteria.append(criterion)
    settled = decided.keys() - {
        (one.benchmark, one.metric.name)
        for one in criteria
        if one.second is not None and not one.second.decided
    }
    findings = tuple(
        one
        for one in baseline.findings
        if one.kind != UNDECIDED or (one.benchmark, one.metric) not in settled
    )
    return replace(baseline, criteria=tuple(criteria), findings=findings), decided


def with_kept_decisions(
    baseline: Baseline, folder: Path, measured: Collection[str]
) -> tuple[Baseline, list[str]]:
    """Return a baseline with the decisions about the same groups in the one that it replaces, and lines.

    One line is on benchmarks that are judged no longer: `measured` has those that were learned from, also
    without a criterion. Each metric whose decision was kept has another.
    """
    before = _in_force(folder, baseline.hardware_class)
    if before is None:
        return baseline, []
    changed, kept = with_decisions(baseline, _kept_from(before))
    lost = sorted({one.benchmark for one in before.criteria} - set(measured))
    lines = []
    if lost and baseline.criteria:
        lines.append(
            f"replaces a baseline that judged {count_text(len(lost), 'benchmark')} more, not measured this "
            f"time and not judged any longer: {clip(', '.join(lost), MAX_NAMES_LENGTH)}; learn all of them "
            "together to have both"
        )
    several = {  # a metric whose benchmarks differ is named with each of them
        name
        for name in {name for _, name in kept}
        if name in changed.undecided or len({kept[one] for one in kept if one[1] == name}) > 1
    }
    words = {"both": "both groups are accepted", "faster": "only the faster group is accepted"}
    lines += [
        f"kept from the baseline before, since {name} splits at the same place: {words[decision]} "
        "(anubis baseline populations changes it)"
        for name, decision in sorted(
            {
                (metric_name(benchmark, name) if name in several else name, decision)
                for (benchmark, name), decision in kept.items()
            }
        )
    ]
    return changed, lines


def _decision(new: Criterion, old: Criterion | None) -> Decision:
    """Return the earlier decision about a criterion's groups; empty without one, or for other groups."""
    if old is None or old.second is None or new.second is None:
        return ""
    pairs = ((new.typical, old.typical), (new.second.typical, old.second.typical))
    same = all(abs(now - then) <= SAME_CENTRE * max(now, then) for now, then in pairs)
    return old.second.decided if same and old.metric.variant == new.metric.variant else ""
