"""Decide how long a measurement takes: by profile and device, and shorter if learning found that enough.

The recorder calls it before it measures; `plan_of` is also for runs without ``--anubis``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_anubis.core.verdict import MIN_SEARCHED

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.hardware.round_plans import RoundPlan
    from pytest_anubis.session.collecting.device_parameters import Device, Pair
    from pytest_anubis.session.context import RunContext
    from pytest_anubis.settings import Settings

MIN_VALUES = MIN_SEARCHED
"""Values that the search for changes within a run needs."""


def plan_of(settings: Settings, device: Device | Pair, rounds: int | None) -> RoundPlan:
    """Return the plan of a measurement; the shortest one without ``--anubis``, to check assertions only."""
    from pytest_anubis.hardware.round_plans import PLANS

    plan = PLANS[settings.profile]
    if device.kind != "cpu":
        plan = plan.on_accelerator(settings.profile)
    if not settings.active:
        return replace(plan, rounds=plan.min_rounds, warmup_seconds=plan.warmup_seconds / 5)
    if rounds is None:
        return replace(plan, rounds=max(plan.rounds, MIN_VALUES))
    return replace(plan, rounds=rounds, min_rounds=min(plan.min_rounds, rounds))


def window_of(context: RunContext, criterion: Criterion | None) -> tuple[int, int] | None:
    """Return the shorter window (warm-up, length) that suffices for this metric in this run, else None.

    Soaks are long on purpose. A baseline of a single machine gives no window, because the slow noise of a
    shared host needs the full length.
    """
    if criterion is None or criterion.window is None or context.settings.profile == "soak":
        return None
    if context.baseline is None or context.baseline.one_machine:
        return None
    warm_up, length = criterion.window
    return warm_up, max(length, MIN_VALUES)


def shortened(plan: RoundPlan, window: tuple[int, int] | None) -> RoundPlan:
    """Return a plan of the window's length; the plan itself if it is not longer than the window."""
    if window is None or window[1] >= plan.rounds:
        return plan
    return replace(plan, rounds=window[1], min_rounds=min(plan.min_rounds, window[1]))


def lead_in(plan: RoundPlan, window: tuple[int, int] | None) -> RoundPlan | None:
    """Return the plan of a window's warm-up, whose values are kept but not judged; None without one."""
    if window is None or window[0] == 0 or shortened(plan, window) is plan:
        return None
    return replace(plan, rounds=window[0], min_rounds=1)
