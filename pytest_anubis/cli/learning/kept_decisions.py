"""Carry decisions about slower groups of nodes over from the baseline in force to the one that replaces it.

They hold where a metric splits at the same place. Benchmarks that are lost are named; a baseline of far fewer
nodes is refused. `class_learning` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

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

    Args:
        folder: Folder of the file in force, if there is one.
        hardware_class: The class.
    """
    before = _in_force(folder, hardware_class)
    old = _by_key(before)
    return lambda criterion: _decision(criterion, old.get(_key(criterion)))


def _in_force(folder: Path, hardware_class: str) -> Baseline | None:
    try:
        path = find_baseline(folder, hardware_class) if folder.is_dir() else None
        return None if path is None else load_baseline(path, hardware_class=hardware_class)
    except (OSError, BaselineError):
        return None  # a file that cannot be read decides nothing


def check_size(hardware_class: str, folder: Path, nodes: Collection[str]) -> None:
    """Refuse to replace the baseline of many nodes by one of a few.

    Raises:
        CommandError: The baseline in force is of more than twice as many nodes.
    """
    before = _in_force(folder, hardware_class)
    count = 0 if before is None else len(before.nodes)
    if count >= PROTECTED_NODES and 2 * len(nodes) < count:
        raise CommandError(
            f"{hardware_class}: the baseline in {folder} is of {count} nodes, and these runs are of "
            f"{len(nodes)}: judge them by it ('anubis judge'), learn from all runs together, or write "
            "elsewhere (--output DIR)"
        )


def with_kept_decisions(
    baseline: Baseline, folder: Path, measured: Collection[str] = ()
) -> tuple[Baseline, list[str]]:
    """Return a baseline with the decisions about the same groups in the one that it replaces.

    Args:
        baseline: As learned.
        folder: Folder of its file, and of the one before it if there is one.
        measured: Benchmarks that were learned from, also those without a criterion.

    Returns:
        The baseline, and lines: one on the benchmarks that are no longer judged, one for each metric whose
        decision was kept.
    """
    before = _in_force(folder, baseline.hardware_class)
    if before is None:
        return baseline, []
    old = _by_key(before)
    criteria = []
    kept: dict[tuple[str, str], Decision] = {}  # by benchmark and metric
    for criterion in baseline.criteria:
        decision = _decision(criterion, old.get(_key(criterion)))
        if decision:
            criterion = apply_decision(criterion, decision)
            kept[criterion.benchmark, criterion.metric.name] = decision
        criteria.append(criterion)
    lost = sorted({one.benchmark for one in before.criteria} - set(measured)) if measured else []
    lines = []
    if lost and baseline.criteria:
        lines.append(
            f"replaces a baseline that judged {count_text(len(lost), 'benchmark')} more, not measured this "
            f"time and not judged any longer: {clip(', '.join(lost), MAX_NAMES_LENGTH)}; learn all of them "
            "together to have both"
        )
    if not kept:
        return baseline, lines
    changed = replace(baseline, criteria=tuple(criteria))
    undecided = {
        (one.benchmark, one.metric.name)
        for one in changed.criteria
        if one.second is not None and not one.second.decided
    }
    findings = tuple(
        finding
        for finding in baseline.findings
        if finding.kind != "undecided-population"
        or (finding.benchmark, finding.metric) not in kept
        or (finding.benchmark, finding.metric) in undecided
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
    return replace(changed, findings=findings), lines


def _by_key(baseline: Baseline | None) -> dict[tuple[str, str, str, str], Criterion]:
    return {} if baseline is None else {_key(one): one for one in baseline.criteria}


def _key(criterion: Criterion) -> tuple[str, str, str, str]:
    return criterion.benchmark, criterion.metric.name, criterion.group, criterion.scope


def _decision(new: Criterion, old: Criterion | None) -> Decision:
    """Return the earlier decision about a criterion's groups; empty without one, or for other groups."""
    if old is None or old.second is None or new.second is None:
        return ""
    pairs = ((new.typical, old.typical), (new.second.typical, old.second.typical))
    same = all(abs(now - then) <= SAME_CENTRE * max(now, then) for now, then in pairs)
    return old.second.decided if same and old.metric.variant == new.metric.variant else ""
