"""Taking a measurement, and looking again where the call is close."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import log
from statistics import median
from typing import TYPE_CHECKING

from pytest_anubis.core.measurement import HOST_SLOWER, LOOKS_SPENT, ONE_VISIT
from pytest_anubis.session.measuring.conditions import Seen, Surroundings

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.core.metric import Metric
    from pytest_anubis.hardware.load.clear_moments import Rounds
    from pytest_anubis.hardware.round_plans import RoundPlan

LOOK_PAUSE = 1.2
"""Seconds before a further look at a close call: what passes by itself needs time to do so."""

GAP = 10.0
"""Seconds between the two moments that have to show a loss, at least: else they would be the same moment."""

RESERVE = 1.5
"""A repetition is begun only where it could take this many times as long as the one before."""

FEWEST_CLEAR, ENOUGH_CLEAR = 5, 10
"""Clear values with which a measurement counts (their median is no single value's), and those with which one
that is judged need not be visited again."""

MOST_EMPTY = 3
"""A closer look ends with this many looks that met no clear moment."""

NO_CLEAR_MOMENT = "no clear moment"
"""What disturbed a measurement that had too few clear values, where the kernel saw nobody."""

MOST_HIDDEN = 0.5
"""Part of a rate that unseen others may take: a core's other hyperthread has half of it."""

SLOWER = 1.05
"""From this factor on the whole host counts as slower than it has been: the quickest readings of one
measurement repeat within 3 %."""

HURRY = 2
"""A visit in a hurry measures for this part of the time, as a divisor."""

Take = Callable[["RoundPlan", "Rounds | None"], list[float]]


class Patience:
    """How long a test may go on measuring: what is measured at its deadline is lost.

    Args:
        deadline: Seconds from now at which the test is ended; None if none was given.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self._until = None if deadline is None else time.monotonic() + deadline

    def allows(self, seconds: float) -> bool:
        """Return whether there is time for something that takes about so many seconds."""
        return self._until is None or time.monotonic() + RESERVE * seconds < self._until


@dataclass(frozen=True, slots=True)
class Look:
    """One measurement by a plan, and what happened around it.

    Attributes:
        values: Those that count, in time order: the clear ones, if there are enough.
        clear: The clear ones, however few; None where moments are not chosen.
        unclear: Those that do not count.
        taken: All values in time order, each with whether it is kept for the sample of all visits.
        seen: Disturbances, telemetry and evidence.
        seconds: How long it took.
        shared: Others may have slowed it down whom the kernel does not show.
        slowdown: How many times as long as in earlier runs the probe took at its quickest.
    """

    values: list[float]
    seen: Seen
    seconds: float = 0.0
    clear: list[float] | None = None
    unclear: list[float] = field(default_factory=list)
    taken: list[tuple[float, bool]] = field(default_factory=list)
    shared: bool = False
    slowdown: float = 1.0


@dataclass(frozen=True, slots=True)
class Visit:
    """Which visit of a test this is.

    Attributes:
        last: The test is judged in this one, whatever it meets.
        hurry: Time is over: measure for a moment only.
    """

    last: bool = True
    hurry: bool = False


@dataclass(frozen=True, slots=True)
class Visited:
    """What the visits of a test have found of one metric so far.

    Attributes:
        values: The clear ones, in time order.
        unclear: How many others there were.
        slow: One of these visits would have failed.
        slowdown: The largest of their `Look.slowdown`.
    """

    values: tuple[float, ...] = ()
    unclear: int = 0
    slow: bool = False
    slowdown: float = 1.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A measurement with those of earlier visits.

    Attributes:
        looks: All looks; the first one is that of earlier visits, where there were any.
        fresh: What the test gets: the values of this visit that count, or all of them where few do. Each with
            whether it is kept for the sample of all visits.
        unclear: Those of this visit that do not count.
        visited: What is handed on to the next visit.
        put_off: There has to be another visit.
    """

    looks: list[Look]
    fresh: list[tuple[float, bool]]
    unclear: list[float]
    visited: Visited
    put_off: bool

    @property
    def values(self) -> list[float]:
        """The values of all visits that count."""
        return [value for one in self.looks for value in one.values]


def take_all(
    metric: Metric,
    criterion: Criterion | None,
    plan: RoundPlan,
    take: Take,
    surroundings: Surroundings,
    patience: Patience,
    *,
    host: bool,
    choose: bool,
    before: Visited,
    visit: Visit,
    name: str = "",
) -> Taken:
    """Measure, and look closer where the call is close.

    A loss that was seen in one visit waits for another one, or where there is none, for a look some seconds
    later. If it does not come again it rejects nothing: what passes by itself is no property of the hardware.
    Where others may hide, a later visit with enough clear values then decides alone.

    Args:
        metric: What is measured; exact values are right or wrong in all moments.
        criterion: What the values are held against; None where nothing is.
        plan: How long and how often.
        take: Measures by a plan.
        surroundings: Watches meanwhile.
        patience: Says whether there is time for another look.
        host: What others do to the host disturbs what is measured.
        choose: Count the values of clear moments only.
        before: What earlier visits found.
        visit: Which visit this is.
        name: Benchmark and metric.
    """
    __tracebackhide__ = True
    exact = metric.better == "equal"
    how = {"host": host, "choose": choose and not exact}
    if visit.hurry:
        plan = replace(plan, budget_seconds=plan.budget_seconds / HURRY)
    looks = [look(plan, take, surroundings, **how, earlier=len(before.values), name=name)]
    past = Look(list(before.values), Seen(), slowdown=before.slowdown)
    earlier = [past] if before.values else []
    chosen, looks = looks[0].clear is not None, [*earlier, *looks]
    if earlier and before.slow and criterion is not None and _excuses(looks[-1], before, criterion):
        before = Visited(unclear=before.unclear + len(before.values))
        earlier, looks = [], looks[1:]
        looks[-1].seen.evidence = (*looks[-1].seen.evidence, ONE_VISIT)
    slow = chosen and _slow(looks, criterion)
    unseen = before.slow and len(looks[-1].clear or ()) < FEWEST_CLEAR  # says neither way
    put_off = not visit.last and (unseen or (slow and not before.slow))
    if criterion is not None and not put_off and not exact and not looks[-1].seen.disturbance:
        gap = GAP if chosen and not earlier else 0.0
        looks = look_closer(
            criterion, plan, take, looks, surroundings, patience, **how, gap=gap, name=name
        )
        once = before.slow if earlier else slow
        again = once and _slow(looks[1:], criterion)
        if once and not again:
            looks[-1].seen.evidence = (*looks[-1].seen.evidence, ONE_VISIT)
        if chosen and _slow(looks, criterion) and not again:
            looks[-1].seen.disturbance = (ONE_VISIT,)
        elif chosen and _slow(looks, criterion) and _host_explains(looks, criterion):
            looks[-1].seen.disturbance = (HOST_SLOWER,)
    unclear = [value for one in looks for value in one.unclear]
    clear = [*before.values, *(value for one in looks for value in one.clear or ())]
    wanted = FEWEST_CLEAR if criterion is None else ENOUGH_CLEAR
    few = chosen and len(clear) < min(wanted, plan.rounds)
    fresh = [pair for one in looks[len(earlier) :] for pair in one.taken]
    if sum(kept for _, kept in fresh) >= min(FEWEST_CLEAR, plan.rounds):
        fresh = [pair for pair in fresh if pair[1]]
    return Taken(
        looks=looks,
        fresh=fresh,
        unclear=unclear,
        visited=Visited(
            tuple(clear),
            before.unclear + len(unclear),
            before.slow or slow,
            max(one.slowdown for one in looks),
        ),
        put_off=put_off or (few and not visit.last),
    )


def _excuses(latest: Look, before: Visited, criterion: Criterion) -> bool:
    """Return whether a visit shows that unseen others may have caused the loss of earlier ones.

    Half of the loss must be gone: of one that lasts, chance takes less.
    """
    if not latest.shared or len(latest.clear or ()) < ENOUGH_CLEAR or _slow([latest], criterion):
        return False
    middles = [criterion.typical, median(before.values), median(latest.values)]
    if min(middles) <= 0:
        return False
    sign = 1 if criterion.metric.better == "higher" else -1
    typical, once, again = (sign * log(one) for one in middles)
    return typical - again <= (typical - once) / 2 and typical - once <= -log(1 - MOST_HIDDEN)


def _host_explains(looks: Sequence[Look], criterion: Criterion) -> bool:
    """Return whether a loss is no larger than what the probe lost in the same moments.

    Then the whole host is slower than it was, and no part of it is to blame.
    """
    from pytest_anubis.validator.judging.sequential_test import fails

    if max(one.slowdown for one in looks) < SLOWER:
        return False
    power = 1 if criterion.metric.better == "higher" else -1
    return not fails([[v * one.slowdown**power for v in one.values] for one in looks], criterion)


def _slow(looks: Sequence[Look], criterion: Criterion | None) -> bool:
    """Return whether the values of some looks together would fail."""
    if criterion is None or not any(one.values for one in looks) or looks[-1].seen.disturbance:
        return False
    from pytest_anubis.validator.judging.sequential_test import fails

    return fails([one.values for one in looks], criterion)


def look(
    plan: RoundPlan,
    take: Take,
    surroundings: Surroundings,
    *,
    host: bool,
    choose: bool,
    earlier: int = 0,
    name: str = "",
) -> Look:
    """Measure once.

    Args:
        plan: How long and how often.
        take: Measures by a plan.
        surroundings: Watches meanwhile.
        host: What others do to the host disturbs what is measured.
        choose: Count the values of clear moments only.
        earlier: How many clear values there are already.
        name: Benchmark and metric.
    """
    __tracebackhide__ = True
    begin = time.monotonic()
    moments = surroundings.rounds(name) if choose else None
    with surroundings.around(host=host) as seen:
        values = take(plan, moments)
    seconds = time.monotonic() - begin
    if moments is None:
        return Look(values, seen, seconds, taken=[(value, True) for value in values])
    moments.ended()
    pairs = list(zip(values, moments.clear(), strict=True))
    clear = [value for value, ok in pairs if ok]
    slowdown = moments.slowdown
    if slowdown >= SLOWER:
        seen.evidence = (*seen.evidence, f"the cores took {slowdown:.2f} times their usual time")
    if earlier + len(clear) >= min(FEWEST_CLEAR, plan.rounds):
        seen.disturbance = seen.beyond_moments
        unclear = [value for value, ok in pairs if not ok]
        return Look(clear, seen, seconds, clear, unclear, pairs, moments.shared, slowdown)
    no_moment = HOST_SLOWER if slowdown >= SLOWER else NO_CLEAR_MOMENT
    seen.disturbance = seen.disturbance or (no_moment,)
    return Look(values, seen, seconds, clear, taken=pairs, slowdown=slowdown)


def look_closer(
    criterion: Criterion,
    plan: RoundPlan,
    take: Take,
    looks: list[Look],
    surroundings: Surroundings,
    patience: Patience,
    *,
    host: bool,
    choose: bool,
    gap: float = 0.0,
    name: str = "",
) -> list[Look]:
    """Look again at a close call, as a sequential test: the values of all looks decide together.

    All measurements of a process share `Looks`, of which some are kept
    for losses that are sure. A measurement that finds none left says so as a disturbance: it rejects nothing,
    and it passes nothing that might have been rejected.

    Args:
        criterion: What the values are held against.
        plan: How the first look was measured.
        take: Measures by a plan.
        looks: The measurement so far.
        surroundings: Watches meanwhile.
        patience: Says whether there is time for another look; without it what there is decides.
        host: What others do to the host disturbs what is measured.
        choose: Count the values of clear moments only.
        gap: Seconds before the first further look at what would fail.
        name: Benchmark and metric.

    Returns:
        All looks that met a clear moment, the first one included. The last one says as a disturbance why
        there are no more of them, where the call was still close.
    """
    from pytest_anubis.validator import closer_look
    from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS, fails, sure_loss

    looks, empty = [*looks], 0
    surroundings.looks.measured()
    seconds = looks[-1].seconds
    while True:
        values = [one.values for one in looks]
        # What passes needs more values only; what fails may be something that passes by itself.
        pause = max(LOOK_PAUSE, gap) if host and fails(values, criterion) else 0.0
        if closer_look(values, criterion) != "more" or not patience.allows(pause + seconds):
            break
        if not surroundings.looks.take(sure=sure_loss(values, criterion)) and len(looks) > 1:
            # With enough of them what there is decides, as after the last of all.
            if len(looks) < CONFIRMING_LOOKS:
                looks[-1].seen.disturbance = (LOOKS_SPENT,)
            break
        time.sleep(pause)
        gap = 0.0 if pause else gap
        further = look(
            plan.look(),
            take,
            surroundings,
            host=host,
            choose=choose,
            earlier=len(values[0]),
            name=name,
        )
        seconds = further.seconds
        if further.values and not further.seen.disturbance:
            looks.append(further)
            continue
        empty += 1
        if empty == MOST_EMPTY:
            looks[-1].seen.disturbance = further.seen.disturbance or (NO_CLEAR_MOMENT,)
            break
    return looks
