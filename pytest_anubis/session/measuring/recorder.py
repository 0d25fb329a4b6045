"""The value of the fixture ``anubis_metric``: takes measurements and emits each as an event at once."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.core.events import Attempted, Measured
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.session.collecting.benchmark_mark import BenchmarkMark
from pytest_anubis.session.collecting.device_parameters import Device, Pair
from pytest_anubis.session.context import MetricUsageError, RunContext, Sink
from pytest_anubis.session.measuring.attempts import Take, TimeLimit, Visit, VisitResults, take_all
from pytest_anubis.session.measuring.conditions import ConditionsWatch, joined, recorded
from pytest_anubis.session.measuring.given_values import (
    checked_clock,
    checked_metric,
    evidence_of,
    expecting,
    numbers_of,
    part_in,
    rated,
    running_clock,
)
from pytest_anubis.session.measuring.own_process import OwnProcess
from pytest_anubis.session.measuring.short_windows import lead_in, plan_of, shortened, window_of

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.core.measurement import Measurement
    from pytest_anubis.core.verdict import MetricVerdict
    from pytest_anubis.hardware.load.ambient_load import AmbientLoad
    from pytest_anubis.hardware.load.clear_moments import MonitoredRounds
    from pytest_anubis.hardware.round_plans import RoundPlan
    from pytest_anubis.hardware.timing import Clock

Found = dict[tuple[str, str], VisitResults]
"""Results by metric and unit under test."""


class Recorder:
    """Records the metrics of one attempt of one test; `MetricFixture` explains the arguments.

    Wrong arguments raise a `MetricUsageError` that says what to write.

    Attributes:
        measurements: Recorded measurements, in order.
        busy: Seconds for which the measured code was running, with warm-ups.
        conclusions: Verdicts that the test itself reached.
        excuses: Unit under test -> what else is to blame if it is slow.
        waiting: Metrics and units that need another visit: too few clear values, or a loss to confirm.
        handed_on: This visit was not judged, and another one follows.
        found: Results of all visits so far.
    """

    def __init__(
        self,
        *,
        test: str,
        benchmark: str,
        mark: BenchmarkMark,
        device: Device | Pair | None,
        context: RunContext,
        sink: Sink,
        ambient: AmbientLoad | None = None,
        watch: ConditionsWatch | None = None,
        time_limit: TimeLimit | None = None,
        earlier: Found | None = None,
        visit: Visit | None = None,
    ) -> None:
        self._test = test
        self._benchmark = benchmark
        self._mark = mark
        self._device: Device | Pair = device or Device("cpu")
        self._device_name = device.name if device else "node"
        self._context = context
        self._sink = sink
        self._ambient = ambient
        self._watch = watch
        self._time_limit = time_limit or TimeLimit()
        if watch is not None:
            watch.serves(test, mark.component, sink, mark.resources, self._device_name)
        self._begin = ambient.begin() if ambient else None
        self.own_process = OwnProcess()
        self.measurements: list[Measurement] = []
        self.busy = 0.0
        self.conclusions: list[MetricVerdict] = []
        self.excuses: dict[str, str] = {}
        self._earlier = earlier or {}
        self._visit = visit or Visit()
        self.waiting: set[tuple[str, str]] = set()
        self.handed_on = False
        self._given: dict[tuple[str, str], list[bool]] = {}
        self.found: Found = {}

    def of(self, unit: str) -> Recorder:
        """Return a recorder for another unit, such as a link between nodes; both share their lists."""
        other = copy(self)
        other._device_name = unit
        return other

    def measure(
        self,
        name: str,
        fn: Callable[[], object],
        *,
        unit: str,
        better: Direction | None = None,
        work: float | None = None,
        goal: str = "",
        question: str = "",
        action: str = "",
        group: str = "",
        part_of: str = "",
        nominal: float | NominalRate | None = None,
        nominal_of: str = "",
        rounds: int | None = None,
        calls: int | None = None,
        clock: str = "device",
        load: str = "sustained",
    ) -> tuple[float, ...]:
        """Time a callable on the device and record one value a round."""
        __tracebackhide__ = True  # so that pytest shows a wrong call in the test
        running_clock()
        rating = nominal, nominal_of
        metric = self._metric(name, unit, better, (goal, question, action), part_of, rating)
        from pytest_anubis.hardware import timing
        from pytest_anubis.hardware.timing import in_unit

        try:
            in_unit(1.0, unit, work)
        except ValueError as error:
            raise MetricUsageError(f"metric {name!r}: {error}") from None
        if load not in ("sustained", "short"):
            raise MetricUsageError(f"load={load!r}; say 'sustained' or 'short'")
        plan = plan_of(self._context.settings, self._device, rounds)
        if load == "short":
            plan = plan.short_load()
        chosen = timing.BusyClock(self._clock(clock))
        per_round = calls or timing.warm_up(_working(fn), chosen, plan, self._device.load)

        def take(plan: RoundPlan, moments: MonitoredRounds | None) -> list[float]:
            time.sleep(plan.rest_seconds)
            times = timing.rounds(fn, chosen, plan, per_round, moments)
            return [in_unit(seconds, unit, work) for seconds in times]

        host = clock == "host" or self._device.kind == "cpu"
        try:
            return self._take(metric, group, plan, take, host=host, choose=host)
        finally:
            self.busy += chosen.seconds

    def collect(
        self,
        name: str,
        fn: Callable[[], float | Iterable[float]],
        *,
        unit: str,
        better: Direction | None = None,
        goal: str = "",
        question: str = "",
        action: str = "",
        group: str = "",
        part_of: str = "",
        nominal: float | NominalRate | None = None,
        nominal_of: str = "",
        rounds: int | None = None,
        clock: str = "host",
    ) -> tuple[float, ...]:
        """Record what a callable measures by itself, called once a round."""
        __tracebackhide__ = True
        running_clock()
        rating = nominal, nominal_of
        metric = self._metric(name, unit, better, (goal, question, action), part_of, rating)
        from pytest_anubis.hardware import timing

        def once() -> list[float]:
            __tracebackhide__ = True
            begin = time.perf_counter()
            try:
                return numbers_of(fn(), metric)
            finally:
                self.busy += time.perf_counter() - begin

        def take(plan: RoundPlan, moments: MonitoredRounds | None) -> list[float]:
            __tracebackhide__ = True
            return timing.repeats(once, plan, moments)

        plan = plan_of(self._context.settings, self._device, rounds)
        on_cpu = self._device.kind == "cpu"
        host = checked_clock(clock) == "host" or on_cpu
        choose = on_cpu and "disk" not in self._mark.resources
        return self._take(metric, group, plan, take, host=host, choose=choose)

    def record(
        self,
        name: str,
        value: float | Iterable[float],
        *,
        unit: str,
        better: Direction | None = None,
        goal: str = "",
        question: str = "",
        action: str = "",
        group: str = "",
        part_of: str = "",
        nominal: float | NominalRate | None = None,
        nominal_of: str = "",
        rounds_of: str = "",
        expect: float | None = None,
        evidence: Iterable[str] = (),
    ) -> tuple[float, ...]:
        """Record one value or several that the test measured itself.

        The measurement includes the conditions since the test's body began.
        """
        __tracebackhide__ = True
        rating = nominal, nominal_of
        metric = self._metric(name, unit, better, (goal, question, action), part_of, rating)
        metric = expecting(metric, expect)
        values, own = numbers_of(value, metric), evidence_of(evidence, name)
        if rounds_of:
            return self._record_in_rounds_of(rounds_of, metric, group, values, own)
        disturbance: tuple[str, ...] = ()
        if self._ambient is not None and self._begin is not None:
            disturbance = self._ambient.since(self._begin)
        measurement = self._measurement(metric, group, values, disturbance=disturbance)
        if self._watch is not None:
            seen = self._watch.since_body_began()
            measurement = replace(
                measurement,
                disturbance=tuple(dict.fromkeys((*measurement.disturbance, *seen.disturbance))),
                telemetry=recorded(seen.telemetry),
                evidence=seen.evidence,
            )
        self._keep(replace(measurement, evidence=(*measurement.evidence, *own)))
        return tuple(values)

    def _record_in_rounds_of(
        self,
        rounds_of: str,
        metric: Metric,
        group: str,
        values: list[float],
        evidence: tuple[str, ...],
    ) -> tuple[float, ...]:
        """Record values that were taken in the rounds of another metric."""
        __tracebackhide__ = True
        key = metric.name, self._device_name
        earlier = self._earlier.get(key, VisitResults()).values
        found = [m for m in self.measurements if m.metric.name == rounds_of]
        given = self._given.get((rounds_of, self._device_name))
        if not found or given is None or len(given) != len(values):
            known = f"{len(given or ())} values" if found else "no such metric"
            raise MetricUsageError(
                f"metric {metric.name!r}: rounds_of={rounds_of!r} has {known}, and {len(values)} are "
                "recorded; record one for each value that measure or collect has returned"
            )
        other = found[-1]
        kept = [*earlier, *(value for value, keep in zip(values, given, strict=True) if keep)]
        whole = [*earlier, *values] if other.disturbance else kept
        self.found[key] = VisitResults(tuple(kept), other.unclear)
        self._keep(
            replace(
                self._measurement(metric, group, whole, disturbance=other.disturbance),
                telemetry=other.telemetry,
                evidence=(*other.evidence, *evidence),
                unclear=other.unclear,
            )
        )
        return tuple(values)

    def body_begins(self) -> None:
        """Mark the start of the test's body, from which the conditions of `record` count."""
        if self._ambient is not None:
            self._begin = self._ambient.begin()
        if self._watch is not None:
            self._watch.body_begins()

    def body_ended(self) -> None:
        """Mark the end of the test's body."""
        if self._watch is not None:
            self._watch.body_ended()

    def _take(
        self,
        metric: Metric,
        group: str,
        plan: RoundPlan,
        take: Take,
        *,
        host: bool = True,
        choose: bool = True,
    ) -> tuple[float, ...]:
        """Measure (`take_all`), record the values that count, and set the others aside."""
        __tracebackhide__ = True
        if self._watch is None:
            self._keep(self._measurement(metric, group, values := take(plan, None)))
            self._given[metric.name, self._device_name] = [True] * len(values)
            return tuple(values)
        begin = time.perf_counter()
        criterion = self._criterion(metric, group)
        window = window_of(self._context, criterion)
        lead = lead_in(plan, window)
        if lead is not None:
            self._set_aside(self._measurement(metric, group, take(lead, None)))
        key = metric.name, self._device_name
        taken = take_all(
            metric,
            criterion,
            shortened(plan, window),
            take,
            self._watch,
            self._time_limit,
            host=host,
            choose=choose,
            before=self._earlier.get(key, VisitResults()),
            visit=self._visit,
            name=f"{self._benchmark} {metric.name}",
        )
        self.found[key] = taken.visited
        self._given[key] = [keep for _, keep in taken.fresh]
        if taken.put_off:
            self.waiting.add(key)
        if taken.unclear:
            self._set_aside(self._measurement(metric, group, taken.unclear))
        looks = taken.looks
        measurement = replace(
            self._measurement(metric, group, taken.values, disturbance=looks[-1].seen.disturbance),
            telemetry=recorded(joined(one.seen.telemetry for one in looks)),
            evidence=tuple(dict.fromkeys(line for one in looks for line in one.seen.evidence)),
            looks=len(looks),
            seconds=time.perf_counter() - begin,
            unclear=taken.visited.unclear,
        )
        self._keep(measurement)
        return tuple(value for value, _ in taken.fresh)

    def _metric(
        self,
        name: str,
        unit: str,
        better: Direction | None,
        texts: tuple[str, str, str],
        part_of: str,
        rating: tuple[float | NominalRate | None, str],
    ) -> Metric:
        __tracebackhide__ = True
        self.own_process.check(self._test, name, self._sink)
        from pytest_anubis.hardware.round_plans import lengths_version

        if any(m.metric.name == name and m.device == self._device_name for m in self.measurements):
            raise MetricUsageError(
                f"metric {name!r} is recorded twice; "
                "record all its values at once, or give the second one another name"
            )
        mark = self._mark
        goal, question, action = texts
        texts = (goal or mark.goal, question or mark.question, action or mark.action)
        metric = rated(checked_metric(name, unit, better, *texts), *rating)
        if part_of:
            own = (m.metric for m in self.measurements if m.device == self._device_name)
            metric = part_in(metric, part_of, own)
        lengths = lengths_version(self._context.settings.profile, self._device.kind)
        return replace(metric, version=mark.version + lengths - 1)  # both only grow

    def _clock(self, which: str) -> Clock:
        from pytest_anubis.hardware.timing import EventClock, HostClock

        if checked_clock(which) == "device" and self._device.kind != "cpu":
            return EventClock(self._device.torch)
        return HostClock(self._device.synchronize)

    def _criterion(self, metric: Metric, group: str) -> Criterion | None:
        """Return the criterion for the values; None if there is none of this variant."""
        if not self._context.judging or self._context.baseline is None:
            return None
        found = self._context.baseline.find(self._benchmark, metric.name, group=group)
        return found if found and found.metric.variant == metric.variant else None

    def _measurement(
        self,
        metric: Metric,
        group: str,
        values: list[float],
        *,
        disturbance: tuple[str, ...] = (),
    ) -> Measurement:
        from pytest_anubis.core.measurement import Measurement

        if not isinstance(group, str):  # such as the number of a stage; the journal takes text only
            raise MetricUsageError(f"metric {metric.name!r}: group must be text: {group!r}")
        return Measurement(
            test=self._test,
            benchmark=self._benchmark,
            component=self._mark.component,
            metric=metric,
            device=self._device_name,
            group=group,
            values=tuple(values),
            disturbance=disturbance,
        )

    def _keep(self, measurement: Measurement) -> None:
        __tracebackhide__ = True
        self.own_process.check(self._test, measurement.metric.name, self._sink)
        self.measurements.append(measurement)
        if self._context.settings.active:
            self._sink(Measured(measurement=measurement))

    def _set_aside(self, measurement: Measurement) -> None:
        """Emit values that do not count."""
        self._sink(Attempted(measurement=measurement))


def _working(fn: Callable[[], object]) -> Callable[[], object]:
    """Return a callable that calls `fn`, and refuses one that only makes a generator or coroutine."""

    def call() -> object:
        __tracebackhide__ = True
        result = fn()
        lazy = (inspect.isgenerator, inspect.isawaitable, inspect.isasyncgen)
        if any(one(result) for one in lazy):
            raise MetricUsageError(
                "what measure() calls returns a generator or coroutine and does no work: iterate over it "
                "or await it inside"
            )
        return result

    return call


recorder_key = pytest.StashKey[Recorder]()
earlier_key = pytest.StashKey[Found]()
visit_key = pytest.StashKey[Visit]()
