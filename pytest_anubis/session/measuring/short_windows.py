"""How long a metric is measured: by profile and device, shorter where learning found that to say the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_anubis.core.verdict import SEARCHED

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.hardware.round_plans import RoundPlan
    from pytest_anubis.session.collecting.device_parameters import Device, Pair
    from pytest_anubis.session.context import RunContext
    from pytest_anubis.settings import Settings

FEWEST = SEARCHED
"""Changes within a run are searched for in this many values at least."""


def plan_of(settings: Settings, device: Device | Pair, rounds: int | None) -> RoundPlan:
    """Return how long and how often a metric is measured.

    Args:
        settings: Of the run; without ``--anubis`` an ordinary test run wants the assertions, soon.
        device: What is measured.
        rounds: How many rounds a test asks for; None: by the profile, and as many as a search for changes
            needs while the profile's time allows.
    """
    from pytest_anubis.hardware.round_plans import PLANS

    plan = PLANS[settings.profile]
    if device.kind != "cpu":
        plan = plan.on_accelerator(settings.profile)
    if not settings.active:
        return replace(plan, rounds=plan.least, warmup_seconds=plan.warmup_seconds / 5)
    if rounds is None:
        plan = replace(plan, rounds=max(plan.rounds, FEWEST))
    else:
        plan = replace(plan, rounds=rounds, least=min(plan.least, rounds))
    return plan


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


def shortened(plan: RoundPlan, window: tuple[int, int] | None) -> RoundPlan:
    """Return the plan for a window's length; the plan itself if it is not longer.

    Args:
        plan: How long and how often.
        window: Warm-up and length, in values.
    """
    if window is None or window[1] >= plan.rounds:
        return plan
    return replace(plan, rounds=window[1], least=min(plan.least, window[1]))


def lead_in(plan: RoundPlan, window: tuple[int, int] | None) -> RoundPlan | None:
    """Return the plan for the warm-up of a window, whose values are kept but not judged; None without."""
    if window is None or window[0] == 0 or shortened(plan, window) is plan:
        return None
    return replace(plan, rounds=window[0], least=1)
