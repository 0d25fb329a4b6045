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

LOOK_PAUSE = 4
"""Pause before a further look, in pauses between the bursts of a measurement."""

DISTURBED_LOOKS = 6
"""A closer look ends undecided with this many disturbed looks."""

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
    criterion: Criterion,
    plan: RoundPlan,
    take: Take,
    first: Stage,
    surroundings: Surroundings,
    spoiled: Callable[[Stage, int], None],
) -> list[Stage]:
    """Look again at a close call, as a sequential test: the values of all looks decide together.

    Each further look is one burst after a pause, so that what passes by itself has time to do so.

    Args:
        criterion: What the values are held against.
        plan: How the first stage was measured.
        take: Measures by a plan.
        first: The measurement so far.
        surroundings: Watches meanwhile.
        spoiled: Keeps a look that was disturbed and is repeated, with its number.

    Returns:
        All stages, the first one included. The last one is disturbed when the machine would not calm
        down, which ends the test.
    """
    from pytest_anubis.validator import closer_look

    stages = [first]
    disturbed = 0
    while closer_look([stage.values for stage in stages], criterion) == "more":
        if plan.pause_seconds:
            time.sleep(plan.pause_seconds * LOOK_PAUSE)
        stage = _stage(plan.look(), take, surroundings)
        if stage.seen.disturbance:
            disturbed += 1
            if disturbed < DISTURBED_LOOKS:
                spoiled(stage, disturbed)
                continue
        stages.append(stage)
        if stage.seen.disturbance:
            break
    return stages


def _stage(plan: RoundPlan, take: Take, surroundings: Surroundings) -> Stage:
    with surroundings.around() as seen:
        values = take(plan)
    return Stage(values, seen)
