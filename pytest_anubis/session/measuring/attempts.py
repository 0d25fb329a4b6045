"""Taking a measurement: again when the machine was not quiet, and longer when the call is close."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_anubis.core.measurement import LOOKS_SPENT
from pytest_anubis.session.measuring.conditions import ATTEMPTS, IN_VAIN, Seen, Surroundings

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.hardware.round_plans import RoundPlan

PAUSE = 0.5
"""Seconds to wait before the second attempt, doubled for each further one."""

LOOK_PAUSE = 6
"""Pause before a further look, in pauses between the bursts of a measurement."""

DISTURBED_LOOKS = 6
"""A closer look ends undecided with this many disturbed looks."""

RESERVE = 1.5
"""A repetition is begun only where it could take this many times as long as the one before."""

GLANCE = 0.5
"""Seconds of a look at the machine while it is waited for: fifty of the ticks in which the kernel counts CPU
time, so that a quiet moment is known for one."""

Take = Callable[["RoundPlan"], list[float]]


class Patience:
    """How long a test's measurements may be repeated: what is repeated until the deadline is lost.

    Args:
        deadline: Seconds from now at which the test is ended; None if nobody said so.
        stops: The deadline does not run while the test waits for a quiet machine.
    """

    def __init__(self, deadline: float | None = None, *, stops: bool = True) -> None:
        self._until = None if deadline is None else time.monotonic() + deadline
        self._stops = stops

    def for_waiting(self, most: float, seconds: float) -> float:
        """Return how long the test may wait before it takes again what took so many seconds.

        Args:
            most: Seconds that it would wait at most.
            seconds: How long the measurement took.
        """
        if self._until is None or self._stops:
            return most
        return max(0.0, min(most, self._until - time.monotonic() - RESERVE * seconds))

    def waited(self, seconds: float) -> None:
        """Take note that the test has waited for a quiet machine."""
        if self._until is not None and self._stops:
            self._until += seconds

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
    """

    values: list[float]
    seen: Seen
    seconds: float = 0.0


def take_quiet(
    plan: RoundPlan,
    take: Take,
    surroundings: Surroundings,
    spoiled: Callable[[Look, int], None],
    patience: Patience,
    most: int = ATTEMPTS,
    *,
    host: bool = True,
) -> tuple[Look, int]:
    """Measure; on a machine that is not quiet again, within bounds.

    Args:
        plan: How long and how often.
        take: Measures by a plan.
        surroundings: Watches meanwhile.
        spoiled: Keeps an attempt that was disturbed and will be repeated, with its number.
        patience: Says whether there is time to repeat it.
        most: Attempts, at most, `IN_VAIN` fewer where the machine was waited for in vain; 1 where no
            disturbance can change what is measured.
        host: What others do to the host disturbs what is measured.

    Returns:
        The last attempt, and its number.
    """
    __tracebackhide__ = True
    for attempt in range(1, most + 1):
        look = _look(plan, take, surroundings, host)
        pause = PAUSE * 2 ** (attempt - 1)
        last = attempt >= (most if surroundings.calm else most - IN_VAIN)
        last = last or not patience.allows(pause + look.seconds)
        if not look.seen.disturbance or last:
            break
        spoiled(look, attempt)
        wait_for_quiet(look, pause, surroundings, patience, host=host)
    if not look.seen.disturbance:
        surroundings.calm = True
    return look, attempt


def wait_for_quiet(
    look: Look, pause: float, surroundings: Surroundings, patience: Patience, *, host: bool
) -> None:
    """Wait until nobody disturbs the machine any more, within bounds; what is waited for is told meanwhile.

    A machine that did not calm down is not waited for again until it has been quiet once: where a neighbour
    stays, a run must not wait for every metric. The pause before the measurement is taken again is spent in
    any case; it counts as waited as well, since that is the neighbours' time too.

    Args:
        look: What was disturbed.
        pause: Seconds that are waited in any case.
        surroundings: Watches meanwhile.
        patience: Says how long the test may wait, and hears how long it did.
        host: What others do to the host disturbs what is measured.
    """
    most = patience.for_waiting(surroundings.waits.most(), look.seconds)
    if most <= pause or not surroundings.calm:
        time.sleep(pause)
        if pause:
            surroundings.tell_waiting(look.seen.disturbance, 0.0, pause)
        return
    begin, told = time.monotonic(), False
    with _stopped_alarm():
        while True:
            with surroundings.around(host=host) as seen:
                time.sleep(GLANCE if told else max(pause, GLANCE))
            waited = time.monotonic() - begin
            if not seen.disturbance or waited + GLANCE > most:
                break
            if not told:
                surroundings.tell_waiting(seen.disturbance, most)
                told = True
    surroundings.calm = not seen.disturbance
    patience.waited(waited)
    surroundings.waits.spent(waited)
    # What nobody was told of is known for the test's duty, and nothing is said of it now.
    surroundings.tell_waiting(seen.disturbance, most if told else 0.0, waited)


@contextmanager
def _stopped_alarm() -> Iterator[None]:
    """Stop the timer of pytest-timeout's signal method while the test waits; it goes on with what is left."""
    left, again = signal.setitimer(signal.ITIMER_REAL, 0.0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, again)


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
) -> list[Look]:
    """Look again at a close call, as a sequential test: the values of all looks decide together.

    Each further look is one burst after a pause, so that what passes by itself has time to do so. All
    measurements of a process share `Looks`, of which some are kept for losses that are sure. The one that
    finds none left says so as a disturbance, so that it rejects nothing and is to be measured again, and
    nothing passes that might have been rejected.

    Args:
        criterion: What the values are held against.
        plan: How the first look was measured.
        take: Measures by a plan.
        first: The measurement so far.
        surroundings: Watches meanwhile.
        spoiled: Keeps a look that was disturbed and is repeated, with its number.
        patience: Says whether there is time for another look; without it what there is decides.
        host: What others do to the host disturbs what is measured.

    Returns:
        All looks, the first one included. The last one is disturbed when the machine would not calm down, or
        no look was left, which ends the test.
    """
    from pytest_anubis.validator import closer_look
    from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS, sure_loss

    looks = [first]
    disturbed = 0
    surroundings.looks.measured()
    pause, seconds = plan.pause_seconds * LOOK_PAUSE, first.seconds / plan.bursts
    while True:
        values = [one.values for one in looks]
        if closer_look(values, criterion) != "more":
            break
        if not patience.allows(pause + seconds):
            break
        sure = sure_loss(values, criterion)
        if not surroundings.looks.take(sure=sure) and len(looks) > 1:
            # With enough of them what there is decides, as after the last of all.
            if len(looks) < CONFIRMING_LOOKS:
                looks[-1].seen.disturbance = (LOOKS_SPENT,)
            break
        if pause:
            time.sleep(pause)
            # No part of the test's work: of its duty, none.
            surroundings.tell_waiting((), 0.0, pause)
        look = _look(plan.look(), take, surroundings, host)
        seconds = look.seconds
        if look.seen.disturbance:
            disturbed += 1
            if disturbed < DISTURBED_LOOKS:
                spoiled(look, disturbed)
                wait_for_quiet(look, 0.0, surroundings, patience, host=host)
                continue
        looks.append(look)
        if look.seen.disturbance:
            break
    return looks


def _look(plan: RoundPlan, take: Take, surroundings: Surroundings, host: bool) -> Look:
    __tracebackhide__ = True
    begin = time.monotonic()
    with surroundings.around(host=host) as seen:
        values = take(plan)
    return Look(values, seen, time.monotonic() - begin)
