"""Takes a measurement, and repeats parts of it ("looks") while its verdict is a close call.

The recorder calls `take_all` for each metric of each visit of a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import log
from statistics import median
from typing import TYPE_CHECKING

from pytest_anubis.core.measurement import HOST_SLOWER, LOOKS_SPENT, ONE_VISIT
from pytest_anubis.core.verdict import Reason
from pytest_anubis.session.measuring.conditions import Conditions, ConditionsWatch, Series, joined

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.core.metric import Metric
    from pytest_anubis.hardware.load.clear_moments import MonitoredRounds
    from pytest_anubis.hardware.round_plans import RoundPlan

LOOK_PAUSE = 1.2
"""Seconds before a further look, in which a passing disturbance may end."""

GAP = 10.0
"""Seconds between two moments that must both show a loss, so that one disturbance does not cause both."""

TIME_RESERVE = 1.5
"""A repetition begins only if there is time for it to take this many times as long as the one before."""

MIN_CLEAR = 5
"""Clear values that make a measurement count; their median does not depend on a single value."""

ENOUGH_CLEAR = 10
"""Clear values with which a judged metric needs no further visit."""

MAX_EMPTY_LOOKS = 3
"""Looks without a clear moment after which no further look is taken."""

NO_CLEAR_MOMENT = "no clear moment"
"""Disturbance of a measurement with too few clear values, if the kernel shows no other cause."""

MAX_HIDDEN_SHARE = 0.5
"""Largest share of a rate that invisible others take: the core's other hyperthread takes up to half."""

MIN_SLOWDOWN = 1.05
"""Factor from which the whole host counts as slower than before; quickest readings repeat within 3 %."""

HURRY_DIVISOR = 2
"""Divisor of the measuring time in a visit in a hurry."""

Take = Callable[["RoundPlan", "MonitoredRounds | None"], list[float]]


class TimeLimit:
    """The end of a test's measuring time; a measurement that its deadline cuts off is lost.

    Args:
        deadline: Seconds from now until the test is ended; None without a deadline.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self._until = None if deadline is None else time.monotonic() + deadline

    def allows(self, seconds: float) -> bool:
        """Return whether something that takes about `seconds` fits before the deadline."""
        return self._until is None or time.monotonic() + TIME_RESERVE * seconds < self._until


@dataclass(frozen=True, slots=True)
class Look:
    """One measurement by a plan, with the conditions around it."""

    # Values that count, in time order: the clear ones if there are enough, else all
    values: list[float]
    seen: Conditions  # disturbances, telemetry and evidence
    seconds: float = 0.0  # duration
    # The values kept for later visits: the clear ones, however few, or all of a good look
    # (`_with_good_values`); None if all moments count
    clear: list[float] | None = None
    unclear: list[float] = field(default_factory=list)  # values that do not count
    # All values in time order, each with whether the sample of all visits keeps it
    taken: list[tuple[float, bool]] = field(default_factory=list)
    shared: bool = False  # others that the kernel does not show may have slowed it down
    slowdown: float = 1.0  # quickest duration of the probe, relative to earlier runs


@dataclass(frozen=True, slots=True)
class Visit:
    """The kind of a test's current visit."""

    last: bool = True  # the test is judged in this visit, whatever it measures
    hurry: bool = False  # there is no time left, so measure for a moment only


@dataclass(frozen=True, slots=True)
class VisitResults:
    """The results of a test's visits so far, for one metric."""

    values: tuple[float, ...] = ()  # the values that count, in time order
    unclear: int = 0  # number of other values
    slow: bool = False  # one of the visits would have failed
    slowdown: float = 1.0  # the largest `Look.slowdown`
    telemetry: Series = ()  # the sensors' series, which belong to the values


@dataclass(frozen=True, slots=True)
class Taken:
    """A measurement of this visit, joined with those of earlier visits."""

    looks: list[Look]  # all looks; the first one stands for all earlier visits, if there were any
    # Values of this visit for the test: those that count, or all if few count; with each, whether
    # it stays in the sample of all visits
    fresh: list[tuple[float, bool]]
    unclear: list[float]  # values of this visit that do not count
    visited: VisitResults  # results for the next visit
    put_off: bool  # the test needs another visit

    @property
    def values(self) -> list[float]:
        """Values of all visits that count."""
        return [value for one in self.looks for value in one.values]


def take_all(
    metric: Metric,
    criterion: Criterion | None,
    plan: RoundPlan,
    take: Take,
    watch: ConditionsWatch,
    time_limit: TimeLimit,
    *,
    host: bool,
    choose: bool,
    before: VisitResults,
    visit: Visit,
    name: str = "",
) -> Taken:
    """Measure, and take further looks if the verdict is a close call.

    Where only clear moments count, a loss must be seen twice: in two visits, or in the last one some seconds
    later. Seen once it rejects nothing: a sample that would still fail counts as disturbed. If invisible
    others may have caused it, a later visit that shows at most half of it decides alone.

    Args:
        metric: The metric; exact values count in all moments.
        criterion: The criterion for its values; None if they are not judged.
        plan: Duration and number of rounds.
        take: Measures by a plan.
        watch: Observes the conditions meanwhile.
        time_limit: Limits further looks.
        host: Activity of others on the host disturbs the measurement.
        choose: Count the values of clear moments only.
        before: Results of earlier visits.
        visit: Kind of this visit.
        name: Benchmark and metric.
    """
    __tracebackhide__ = True
    exact = metric.better == "equal"
    how = {"host": host, "choose": choose and not exact}
    if visit.hurry:
        plan = replace(plan, budget_seconds=plan.budget_seconds / HURRY_DIVISOR)
    looks = [look(plan, take, watch, **how, earlier=len(before.values), name=name)]
    if criterion is not None and (looks[0].shared or not before.slow):
        looks = [_with_good_values(looks[0], criterion)]
    seen = Conditions(telemetry=before.telemetry)
    past = Look(list(before.values), seen, slowdown=before.slowdown)
    earlier = [past] if before.values else []
    chosen, looks = looks[0].clear is not None, [*earlier, *looks]
    if earlier and before.slow and criterion is not None and _excuses(looks[-1], before, criterion):
        before = VisitResults(unclear=before.unclear + len(before.values))
        earlier, looks = [], looks[1:]
        looks[-1].seen.evidence = (*looks[-1].seen.evidence, ONE_VISIT)
    slow = chosen and _slow(looks, criterion)
    unseen = (
        before.slow and len(looks[-1].clear or ()) < MIN_CLEAR
    )  # too few values to confirm the loss
    put_off = not visit.last and (unseen or (slow and not before.slow))
    if criterion is not None and not put_off and not exact and not looks[-1].seen.disturbance:
        gap = GAP if chosen and not earlier else 0.0
        looks = look_closer(
            criterion, plan, take, looks, watch, time_limit, **how, gap=gap, name=name
        )
        unclear = chosen and looks[-1].seen.disturbance not in ((), (LOOKS_SPENT,))
        put_off = unclear and not visit.last  # another moment may be clear
        once = before.slow if earlier else slow
        again = once and _slow(looks[1:], criterion)
        if once and not again:
            looks[-1].seen.evidence = (*looks[-1].seen.evidence, ONE_VISIT)
        if chosen and _slow(looks, criterion) and not again:
            looks[-1].seen.disturbance = (ONE_VISIT,)
        elif chosen and _slow(looks, criterion) and _host_explains(looks, criterion):
            looks[-1].seen.disturbance = (HOST_SLOWER,)
    others = [value for one in looks for value in one.unclear]
    clear = [*before.values, *(value for one in looks for value in one.clear or ())]
    wanted = MIN_CLEAR if criterion is None else ENOUGH_CLEAR
    few = chosen and len(clear) < min(wanted, plan.rounds)
    fresh = [pair for one in looks[len(earlier) :] for pair in one.taken]
    if sum(kept for _, kept in fresh) >= min(MIN_CLEAR, plan.rounds):
        fresh = [pair for pair in fresh if pair[1]]
    return Taken(
        looks=looks,
        fresh=fresh,
        unclear=others,
        visited=VisitResults(
            tuple(clear),
            before.unclear + len(others),
            before.slow or slow,
            max(one.slowdown for one in looks),
            joined(one.seen.telemetry for one in looks),
        ),
        put_off=put_off or (few and not visit.last),
    )


def _with_good_values(latest: Look, criterion: Criterion) -> Look:
    """Count all values of a look that met few clear moments if together they are as good as expected.

    Other load makes a machine slower, not quicker, so such rates and durations show what it can do. The
    sample stays disturbed: it may pass, but it neither rejects nor teaches.
    """
    from pytest_anubis.validator.judging.sample_judging import judge_sample

    few = latest.clear is not None and len(latest.clear) < MIN_CLEAR <= len(latest.taken)
    timed = criterion.metric.is_rate or criterion.metric.is_duration
    values = [value for value, _ in latest.taken]
    if not (few and timed) or judge_sample(values, criterion).reason is not Reason.WITHIN:
        return latest
    if not latest.seen.disturbance:  # earlier visits have clear values
        latest.seen.disturbance = latest.seen.beyond_moments or (NO_CLEAR_MOMENT,)
    taken = [(value, True) for value in values]
    return replace(latest, values=values, clear=values, unclear=[], taken=taken)


def _excuses(latest: Look, before: VisitResults, criterion: Criterion) -> bool:
    """Return whether a visit shows that invisible others may have caused the loss in earlier visits.

    At least half of the loss must be gone, since chance would not hide so much of a lasting one, and it must
    be no larger than others can cause (`MAX_HIDDEN_SHARE`).
    """
    if not latest.shared or len(latest.clear or ()) < ENOUGH_CLEAR or _slow([latest], criterion):
        return False
    middles = [criterion.typical, median(before.values), median(latest.values)]
    if min(middles) <= 0:
        return False
    sign = 1 if criterion.metric.better == "higher" else -1
    typical, once, again = (sign * log(one) for one in middles)
    return typical - again <= (typical - once) / 2 and typical - once <= -log(1 - MAX_HIDDEN_SHARE)


def _host_explains(looks: Sequence[Look], criterion: Criterion) -> bool:
    """Return whether a loss is no larger than the probe's loss in the same moments.

    Then the whole host is slower than before, and no single part is to blame.
    """
    from pytest_anubis.validator.judging.sequential_test import fails

    if max(one.slowdown for one in looks) < MIN_SLOWDOWN:
        return False
    power = 1 if criterion.metric.better == "higher" else -1
    return not fails([[v * one.slowdown**power for v in one.values] for one in looks], criterion)


def _slow(looks: Sequence[Look], criterion: Criterion | None) -> bool:
    """Return whether the values of these looks together would fail."""
    if criterion is None or not any(one.values for one in looks) or looks[-1].seen.disturbance:
        return False
    from pytest_anubis.validator.judging.sequential_test import fails

    return fails([one.values for one in looks], criterion)


def look(
    plan: RoundPlan,
    take: Take,
    watch: ConditionsWatch,
    *,
    host: bool,
    choose: bool,
    earlier: int = 0,
    name: str = "",
) -> Look:
    """Measure once; see `take_all` for the arguments."""
    __tracebackhide__ = True
    begin = time.monotonic()
    moments = watch.rounds(name) if choose else None
    with watch.around(host=host) as seen:
        values = take(plan, moments)
    seconds = time.monotonic() - begin
    if moments is None:
        return Look(values, seen, seconds, taken=[(value, True) for value in values])
    moments.ended()
    pairs = list(zip(values, moments.clear(), strict=True))
    clear = [value for value, ok in pairs if ok]
    slowdown = moments.slowdown
    if slowdown >= MIN_SLOWDOWN:
        seen.evidence = (*seen.evidence, f"the cores took {slowdown:.2f} times their usual time")
    if earlier + len(clear) >= min(MIN_CLEAR, plan.rounds):
        seen.disturbance = seen.beyond_moments
        unclear = [value for value, ok in pairs if not ok]
        return Look(clear, seen, seconds, clear, unclear, pairs, moments.shared, slowdown)
    no_moment = HOST_SLOWER if slowdown >= MIN_SLOWDOWN else NO_CLEAR_MOMENT
    seen.disturbance = seen.disturbance or (no_moment,)
    return Look(values, seen, seconds, clear, taken=pairs, shared=moments.shared, slowdown=slowdown)


def look_closer(
    criterion: Criterion,
    plan: RoundPlan,
    take: Take,
    looks: list[Look],
    watch: ConditionsWatch,
    time_limit: TimeLimit,
    *,
    host: bool,
    choose: bool,
    gap: float = 0.0,
    name: str = "",
) -> list[Look]:
    """Take further looks at a close call, as a sequential test: the values of all looks decide together.

    All measurements of a process share one `LookBudget`. If it is spent while the call is still close, the
    last look gets a disturbance, so that the metric is neither rejected nor passed.

    Returns:
        The first look and all further ones that met a clear moment.
    """
    from pytest_anubis.validator import closer_look
    from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS, fails, sure_loss

    looks, empty = [*looks], 0
    watch.looks.measured()
    seconds = looks[-1].seconds
    while True:
        values = [one.values for one in looks]
        # Failing values may come from a passing disturbance, so wait before measuring again.
        pause = max(LOOK_PAUSE, gap) if host and fails(values, criterion) else 0.0
        if closer_look(values, criterion) != "more" or not time_limit.allows(pause + seconds):
            break
        if not watch.looks.take(sure=sure_loss(values, criterion)) and len(looks) > 1:
            # With enough looks their values decide, as after the last possible look.
            if len(looks) < CONFIRMING_LOOKS:
                looks[-1].seen.disturbance = (LOOKS_SPENT,)
            break
        time.sleep(pause)
        gap = 0.0 if pause else gap
        further = look(
            plan.look(),
            take,
            watch,
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
        if empty == MAX_EMPTY_LOOKS:
            looks[-1].seen.disturbance = further.seen.disturbance or (NO_CLEAR_MOMENT,)
            break
    return looks
