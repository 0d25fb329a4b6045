"""What a new baseline keeps of the one that it replaces, and what it loses.

Decisions about slower groups of nodes outlive learning anew, where a metric splits at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.text_table import clip
from pytest_anubis.store.baselines.baseline_files import (
    BaselineError,
    find_baseline,
    load_baseline,
)
from pytest_anubis.validator.limits.second_population import Decision, decided

NAMED = 300
"""Most characters of a list of benchmarks in one line."""

MANY = 10
"""Nodes of a baseline from which on it is not replaced by one of less than half as many."""

SAME = 0.05
"""Relative difference up to which both groups are those of before: a loss that matters is no smaller."""


def decisions_in(folder: Path, hardware_class: str) -> Callable[[Criterion], Decision]:
    """Return what was decided about a new criterion's groups, by the baseline that is in force.

    Learning asks it before it checks itself, so that the check counts what the decision rejects.

    Args:
        folder: Where the file in force stands, if there is one.
        hardware_class: The class.
    """
    before = _in_force(folder, hardware_class)
    old = {} if before is None else {_key(criterion): criterion for criterion in before.criteria}
    return lambda criterion: _decision(criterion, old.get(_key(criterion)))


def _in_force(folder: Path, hardware_class: str) -> Baseline | None:
    try:
        path = find_baseline(folder, hardware_class) if folder.is_dir() else None
        return None if path is None else load_baseline(path, hardware_class=hardware_class)
    except (OSError, BaselineError):
        return None  # a file that cannot be read decides nothing


def check_size(hardware_class: str, folder: Path, nodes: Collection[str]) -> None:
    """Refuse to learn from a few nodes what is to replace the baseline of many.

    Raises:
        CommandError: The baseline in force is of more than twice as many nodes.
    """
    before = _in_force(folder, hardware_class)
    count = 0 if before is None else len(before.nodes)
    if count >= MANY and 2 * len(nodes) < count:
        raise CommandError(
            f"{hardware_class}: the baseline in {folder} is of {count} nodes, and these runs are of "
            f"{len(nodes)}: judge them by it ('anubis judge'), learn from all runs together, or write "
            "elsewhere (--output DIR)"
        )


def with_kept_decisions(
    baseline: Baseline, folder: Path, measured: Collection[str] = ()
) -> tuple[Baseline, list[str]]:
    """Return a baseline with what was decided about the same groups in the one that it replaces.

    Args:
        baseline: As learned.
        folder: Where its file will stand, and the one before it stands, if there is one.
        measured: Benchmarks that were learned from, whether or not a criterion came of it.

    Returns:
        The baseline, and one line for each metric that says what was kept; before them one that says of
        which benchmarks the criteria are lost.
    """
    before = _in_force(folder, baseline.hardware_class)
    if before is None:
        return baseline, []
    old = {_key(criterion): criterion for criterion in before.criteria}
    criteria, kept = [], {}
    for criterion in baseline.criteria:
        what = _decision(criterion, old.get(_key(criterion)))
        if what:
            criterion = decided(criterion, what)
            kept[criterion.metric.name] = what
        criteria.append(criterion)
    lost = sorted({one.benchmark for one in before.criteria} - set(measured)) if measured else []
    gone = [
        f"replaces a baseline that judged {count_text(len(lost), 'benchmark')} more, not measured this time "
        f"and not judged any longer: {clip(', '.join(lost), NAMED)}; learn all of them together to have both"
    ]
    gone = gone if lost and baseline.criteria else []
    if not kept:
        return baseline, gone
    changed = replace(baseline, criteria=tuple(criteria))
    open_ones = set(changed.undecided)
    findings = tuple(
        finding
        for finding in baseline.findings
        if finding.kind != "undecided-population"
        or finding.metric not in kept
        or finding.metric in open_ones
    )
    words = {"both": "both groups are accepted", "faster": "only the faster group is accepted"}
    lines = [
        f"kept from the baseline before, since {name} splits at the same place: {words[what]} "
        "(anubis baseline populations changes it)"
        for name, what in sorted(kept.items())
    ]
    return replace(changed, findings=findings), gone + lines


def _key(criterion: Criterion) -> tuple[str, str, str, str]:
    return criterion.benchmark, criterion.metric.name, criterion.group, criterion.scope


def _decision(new: Criterion, old: Criterion | None) -> Decision:
    """Return what was decided about the groups of a criterion, empty where nothing was or they are others."""
    if old is None or old.second is None or new.second is None:
        return ""
    pairs = ((new.typical, old.typical), (new.second.typical, old.second.typical))
    same = all(abs(now - then) <= SAME * max(now, then) for now, then in pairs)
    return old.second.decided if same and old.metric.variant == new.metric.variant else ""
