"""Taking a measurement: again when the machine was not quiet, and longer when the call is close."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_anubis.session.measuring.conditions import Seen, Surroundings

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.hardware.host_pace import Pacer
    from pytest_anubis.hardware.timing import RoundPlan

ATTEMPTS = 3
"""How often a measurement on a machine that is not quiet is taken, at most."""

PAUSE = 0.5
"""Seconds to wait before the second attempt, doubled for each further one."""

LOOK_PAUSE = 4
"""Pause before a further look, in pauses between the bursts of a measurement."""

DISTURBED_LOOKS = 6
"""A closer look ends undecided with this many disturbed looks."""

RESERVE = 1.5
"""A repetition is begun only where it could take this many times as long as the one before."""

Take = Callable[["RoundPlan"], list[float]]


class Patience:
    """How long a test's measurements may be repeated: what is repeated until the deadline is lost.

    Args:
        deadline: Seconds from now at which the test is ended; None if nobody said so.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self._until = None if deadline is None else time.monotonic() + deadline

    def allows(self, seconds: float) -> bool:
        """Return whether there is time for something that takes about so many seconds."""
        return self._until is None or time.monotonic() + RESERVE * seconds < self._until


@dataclass(frozen=True, slots=True)
class Look:
    """One burst of rounds, or all bursts of a first measurement, and what happened around it.

    Attributes:
        values: In time order.
        seen: Disturbances, telemetry and evidence.
        seconds: How long it took.
        pace: (Kind, seconds of a probe beside each value) pairs; empty where nobody read the pace.
    """

    values: list[float]
    seen: Seen
    seconds: float = 0.0
    pace: tuple[tuple[str, tuple[float, ...]], ...] = ()


def take_quiet(
    plan: RoundPlan,
    take: Take,
    surroundings: Surroundings,
    spoiled: Callable[[Look, int], None],
    patience: Patience,
    most: int = ATTEMPTS,
    *,
    host: bool = True,
    pacer: Pacer | None = None,
) -> tuple[Look, int]:
    """Measure; on a machine that is not quiet again, within bounds.

    Args:
        plan: How long and how often.
        take: Measures by a plan.
        surroundings: Watches meanwhile.
        spoiled: Keeps an attempt that was disturbed and will be repeated, with its number.
        patience: Says whether there is time to repeat it.
        most: Attempts, at most; 1 where no disturbance can change what is measured.
        host: What others do to the host disturbs what is measured.
        pacer: What reads the pace between the rounds; None if nothing does.

    Returns:
        The last attempt, and its number.
    """
    for attempt in range(1, most + 1):
        look = _look(plan, take, surroundings, host, pacer)
        pause = PAUSE * 2 ** (attempt - 1)
        last = attempt == most or not patience.allows(pause + look.seconds)
        if not look.seen.disturbance or last:
            break
        spoiled(look, attempt)
        time.sleep(pause)
    return look, attempt


def look_closer(
    criterion: Criterion,
    plan: RoundPlan,
    take: Take,
    first: Look,
    surroundings: Surroundings,
    spoiled: Callable[[Look, int], None],
    patience: Patience,
    *,
    host: bool = True,
    pacer: Pacer | None = None,
) -> list[Look]:
    """Look again at a close call, as a sequential test: the values of all looks decide together.

    Each further look is one burst after a pause, so that what passes by itself has time to do so.

    Args:
        criterion: What the values are held against.
        plan: How the first look was measured.
        take: Measures by a plan.
        first: The measurement so far.
        surroundings: Watches meanwhile.
        spoiled: Keeps a look that was disturbed and is repeated, with its number.
        patience: Says whether there is time for another look; without it what there is decides.
        host: What others do to the host disturbs what is measured.
        pacer: What reads the pace between the rounds; None if nothing does.

    Returns:
        All looks, the first one included. The last one is disturbed when the machine would not calm
        down, which ends the test.
    """
    from pytest_anubis.validator import closer_look

    looks = [first]
    disturbed = 0
    pause, seconds = plan.pause_seconds * LOOK_PAUSE, first.seconds / plan.bursts
    while (
        closer_look([one.values for one in looks], criterion, paces=[one.pace for one in looks])
        == "more"
    ):
        if not patience.allows(pause + seconds):
            break
        if pause:
            time.sleep(pause)
        look = _look(plan.look(), take, surroundings, host, pacer)
        seconds = look.seconds
        if look.seen.disturbance:
            disturbed += 1
            if disturbed < DISTURBED_LOOKS:
                spoiled(look, disturbed)
                continue
        looks.append(look)
        if look.seen.disturbance:
            break
    return looks


def _look(
    plan: RoundPlan, take: Take, surroundings: Surroundings, host: bool, pacer: Pacer | None
) -> Look:
    begin = time.monotonic()
    with surroundings.around(host=host) as seen:
        values = take(plan)
    pace = pacer.taken(len(values)) if pacer is not None else ()
    return Look(values, seen, time.monotonic() - begin, pace)
