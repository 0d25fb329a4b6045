"""Taking a measurement: again when the machine was not quiet, and longer when the call is close."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_anubis.session.surroundings import Seen, Surroundings

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.hardware.timing import RoundPlan

ATTEMPTS = 3
"""How often a measurement on a machine that is not quiet is taken, at most."""

PAUSE = 0.5
"""Seconds to wait before the second attempt, doubled for each further one."""

Take = Callable[["RoundPlan"], list[float]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One burst of rounds and what happened around it.

    Attributes:
        values: In time order.
        seen: Disturbances, telemetry and evidence.
    """

    values: list[float]
    seen: Seen


def take_quiet(
    plan: RoundPlan,
    take: Take,
    surroundings: Surroundings,
    spoiled: Callable[[Stage, int], None],
) -> tuple[Stage, int]:
    """Measure; on a machine that is not quiet again, within bounds.

    Args:
        plan: How long and how often.
        take: Measures by a plan.
        surroundings: Watches meanwhile.
        spoiled: Keeps an attempt that was disturbed and will be repeated, with its number.

    Returns:
        The last attempt, and its number.
    """
    for attempt in range(1, ATTEMPTS + 1):
        stage = _stage(plan, take, surroundings)
        if not stage.seen.disturbance or attempt == ATTEMPTS:
            break
        spoiled(stage, attempt)
        time.sleep(PAUSE * 2 ** (attempt - 1))
    return stage, attempt


def look_closer(
    criterion: Criterion, plan: RoundPlan, take: Take, first: Stage, surroundings: Surroundings
) -> list[Stage]:
    """Measure a close call again, as a sequential test: all values together decide.

    Returns:
        All stages, the first one included; the last may be disturbed, which ends the test.
    """
    from pytest_anubis.validator import closer_look

    stages = [first]
    while closer_look([stage.values for stage in stages], criterion) == "more":
        stages.append(_stage(plan, take, surroundings))
        if stages[-1].seen.disturbance:
            break
    return stages


def _stage(plan: RoundPlan, take: Take, surroundings: Surroundings) -> Stage:
    with surroundings.around() as seen:
        values = take(plan)
    return Stage(values, seen)
