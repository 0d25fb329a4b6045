"""The JSON answer of ``anubis learn`` on one hardware class, for `class_learning`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.learning.gaps import Gaps
from pytest_anubis.codec import to_plain
from pytest_anubis.store.baselines.baseline_files import seal
from pytest_anubis.validator.deciding.ledger import uncovered_components

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline


def class_answer(
    baseline: Baseline, path: Path | None, replaced: Path | None, *, gaps: Gaps, doubtful: bool
) -> dict[str, Any]:
    """Return what was learned of one hardware class.

    `path` is None if no file was written, as there is no criterion, and `replaced` is where the baseline
    before is kept, if there was one. It is `doubtful` if it is less than it claims.
    """
    without = uncovered_components(baseline)
    plain: dict[str, Any] = to_plain(
        {
            "hardware_class": baseline.hardware_class,
            "digest": seal(baseline).digest if baseline.criteria else "",
            "nodes": len(baseline.nodes),
            "runs": len(baseline.runs),
            "one_machine": baseline.one_machine,
            "error_rate": baseline.error_rate,
            "self_check": baseline.self_check,
            "criteria": [
                {
                    "benchmark": one.benchmark,
                    "metric": one.metric.name,
                    "component": one.component,
                    "group": one.group,
                    "scope": one.scope,
                    "finds": one.shown_loss,
                    "coarse": one.coarse,
                }
                for one in baseline.criteria
            ],
            "unjudged": baseline.unjudged,
            "undecided": baseline.undecided,
            "without_criterion": [one.component for one in without if not one.coarse],
            "coarse_components": {one.component: one.shown_loss for one in without if one.coarse},
            "findings": baseline.findings,
        }
    )
    return plain | {
        "file": path and str(path),
        "replaced": replaced and str(replaced),
        "doubtful": doubtful,
        "skipped": [{"test": test, "reason": why} for test, why in gaps.skipped],
        "not_applicable": gaps.not_applicable,
        "never_recorded": [{"benchmark": test, "metric": name} for test, name in gaps.unset],
    }
