"""Lines of `anubis trace info` and ``predict``: what a trace holds, what a step is predicted to take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_anubis.core.metric import percent_text

if TYPE_CHECKING:
    from pytest_anubis.traces.step_prediction import OperationProfile, Prediction

MAX_NAMED = 8
"""Operations that are named of those without a replay, or without a time in the profile."""


def info_lines(file: str, facts: Mapping[str, Any]) -> list[str]:
    """Return the lines of ``anubis trace info`` on a trace's file, from the facts of the command's JSON."""
    kinds = ", ".join(f"{name} {count}" for name, count in facts["kinds"].items())
    lines = [
        f"{file}: {facts['operations']} operations in {facts['nodes']} nodes, schema {facts['schema']}, "
        f"digest {facts['digest']}",
        f"kinds: {kinds or 'none'}",
        f"recorded on {', '.join(facts['devices']) or 'no device'}; before the step there are "
        f"{facts['bytes'] / 1e6:.1f} MB",
    ]
    return [*lines, *refusal_lines(facts)]


def refusal_lines(facts: Mapping[str, Any]) -> list[str]:
    """Return why a trace cannot be replayed here; empty if it can."""
    missing = facts["not_replayable"]
    if missing:
        named = ", ".join(
            f"{name} ({count} times)" for name, count in list(missing.items())[:MAX_NAMED]
        )
        more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
        return [f"no replay of {named}{more}: the test will be INCONCLUSIVE"]
    if facts["refused"]:
        return [f"no replay here of {facts['refused']}: the test will be INCONCLUSIVE"]
    return []


def prediction_lines(file: str, profile: OperationProfile, found: Prediction) -> list[str]:
    """Return the lines of ``anubis trace predict``."""
    lines = [
        f"{file}: {1e3 * found.seconds:.2f} ms on {profile.device} of {profile.machine}",
        f"{found.known} operations are known, {found.scaled} are scaled by their work "
        f"({percent_text(found.scaled_share)} of the time)",
    ]
    if found.exposed:
        lines.append(f"waiting for collectives: {1e3 * found.exposed:.2f} ms of it")
    if found.unknown:
        named = ", ".join(list(found.unknown)[:MAX_NAMED])
        lines.append(f"counted as no time, since nothing alike was profiled: {named}")
    return lines
