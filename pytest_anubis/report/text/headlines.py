"""One-line descriptions of baselines and runs, for headers and tables."""

from __future__ import annotations

from pytest_anubis.core.baseline import Baseline


def baseline_line(baseline: Baseline) -> str:
    """Say in one line what a baseline is and what it rests on."""
    if baseline.one_machine:
        basis = f"{len(baseline.runs)} runs of this one machine (nodes: 1)"
    else:
        basis = f"{len(baseline.nodes)} nodes, {len(baseline.runs)} runs"
    rate = (
        f"error rate {baseline.error_rate:.3g} a node"
        if baseline.error_rate is not None
        else "practical thresholds only"
    )
    return (
        f"baseline {baseline.digest}, {len(baseline.criteria)} criteria, {basis}, {rate}, "
        f"learned {baseline.created[:10]}"
    )
