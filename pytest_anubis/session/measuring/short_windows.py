"""Shorter measurements where the learning found that a shorter window of values says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.hardware.timing import RoundPlan
    from pytest_anubis.session.context import RunContext

FEWEST = 24
"""Changes within a run are searched for in this many values at least (`validator.segments`)."""


def window_of(context: RunContext, criterion: Criterion | None) -> tuple[int, int] | None:
    """Return the window (warm-up, length) that is enough for this metric in this run, if there is one.

    A soak is long on purpose. The noise of a single machine that shares its host is slow, so its runs keep
    their length.

    Args:
        context: The run.
        criterion: The metric's criterion in the baseline of this run.
    """
    if criterion is None or criterion.window is None or context.settings.profile == "soak":
        return None
    if context.baseline is None or context.baseline.one_machine:
        return None
    warm_up, length = criterion.window
    return warm_up, max(length, FEWEST)


def shortened(plan: RoundPlan, window: tuple[int, int] | None, per_value: int) -> RoundPlan:
    """Return the plan for a window's length; the plan itself if it is not longer.

    Args:
        plan: How long and how often.
        window: Warm-up and length, in values.
        per_value: Rounds of a plan that stand for one value.
    """
    if window is None or window[1] * per_value >= plan.rounds:
        return plan
    return replace(plan, rounds=window[1] * per_value, least=min(plan.least, window[1]))


def lead_in(plan: RoundPlan, window: tuple[int, int] | None, per_value: int) -> RoundPlan | None:
    """Return the plan for the warm-up of a window, whose values are kept but not judged; None without."""
    if window is None or window[0] == 0 or shortened(plan, window, per_value) is plan:
        return None
    rounds = window[0] * per_value
    return replace(plan, rounds=rounds, least=1, bursts=1, pause_seconds=0.0)
