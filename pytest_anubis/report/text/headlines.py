"""One-line descriptions of baselines and runs, for headers and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.measurement import LaneCores, QuietWait
from pytest_anubis.report.text.numbers import count_text


def baseline_line(baseline: Baseline) -> str:
    """Say in one line what a baseline is and what it rests on."""
    if baseline.one_machine:
        basis = f"{len(baseline.runs)} runs of {', '.join(baseline.nodes) or 'one machine'} alone (nodes: 1)"
    else:
        runs = count_text(len(baseline.runs), "run")
        basis = f"{count_text(len(baseline.nodes), 'node')}, {runs}"
    rate = (
        f"error rate {baseline.error_rate:.3g} a node"
        if baseline.error_rate is not None
        else "practical thresholds only"
    )
    check = baseline.self_check
    if check is not None and not check.holds:
        rate += f" stated, {check.own_rejected:.2g} of its own rejected"
    lanes = baseline.attributes.get("lanes")
    way = f" with the accelerators {lanes}" if lanes else ""
    return (
        f"baseline {baseline.digest}, {len(baseline.criteria)} criteria, {basis}, {rate}, "
        f"learned {baseline.created[:10]}{way}"
    )


def inventory_line(inventory: Mapping[str, Any], file: object = "") -> str:
    """Say in one line when an inventory was recorded, and of which node; empty where it has no date.

    Args:
        inventory: Plain data of any shape.
        file: The file that it came from in place of this machine's; empty or None if it was read here.
    """
    taken = inventory.get("taken")
    if not isinstance(taken, str) or not taken:
        return f"inventory recorded at an unknown time, out of {file}" if file else ""
    try:
        moment = datetime.fromisoformat(taken).astimezone(UTC)
    except (ValueError, OverflowError):
        return f"inventory recorded {taken[:40]!r}, which is no date"
    where = f", out of {file} and not read from this machine" if file else ""
    return f"inventory of {inventory.get('node') or 'this node'} recorded {moment:%Y-%m-%d %H:%M} UTC{where}"


def lane_texts(lanes: Sequence[LaneCores]) -> list[str]:
    """Say which lane of a run with accelerators works on which CPUs, one phrase each."""
    found = []
    for one in lanes:
        what = ", ".join(one.devices) or "what runs alone, and the host's tests"
        name = "" if one.devices == (one.lane,) else f"lane {one.lane}: "
        node = f"NUMA node {one.numa_node}" if one.numa_node is not None else "NUMA node unknown"
        far = " (not kept to its CPUs)" if one.numa_node is not None and not one.near else ""
        found.append(f"{name}{what}: CPUs {one.cpus}{f', {node}{far}' if one.devices else ''}")
    if not all(one.own for one in lanes):
        found.append(
            "the lanes have no CPUs of their own (fewer cores than lanes, a quota of CPU time, or "
            "binding is forbidden): what is timed on the host runs alone"
        )
    return found


def waiting_line(wait: QuietWait) -> str:
    """Say what a test waits for and how long at most, or that it goes on."""
    what = "; ".join(wait.what)
    if wait.seconds is None:
        return (
            f"anubis: {wait.test} waits for a quiet machine, at most {wait.most:.0f} s: {what} "
            "(its deadline does not run meanwhile)"
        )
    if wait.quiet:
        return f"anubis: {wait.test} goes on after {wait.seconds:.0f} s: the machine is quiet"
    return (
        f"anubis: {wait.test} goes on after {wait.seconds:.0f} s, the machine is not quiet: {what}; "
        "nobody waits again before it was"
    )
