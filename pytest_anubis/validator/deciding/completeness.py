"""Completeness of a run: verdicts on tests that failed, were skipped, were repeated or did not report.

`run_decision` adds them to the verdicts on metrics. Processes that died become blockers, one for each cause.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import MappingProxyType

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.events import LaneGivenUp, WorkerDied
from pytest_anubis.core.measurement import MISTAKE, Measurement, PlannedTest, TestResult
from pytest_anubis.core.metric import value_text
from pytest_anubis.core.run import RunRecord, died_at, given_up_text
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason

HUNG = "hung"
"""Begins the text about a test that was stopped because it hung."""

DIED = "the process died during the test: "
"""Begins the text about a test whose process died."""

MAX_VALUES = 3
"""Values that are shown with a failure of a test's own check."""

_NEXT_STEP = "; next step: "


def verdicts_of_tests(
    planned: Sequence[PlannedTest],
    results: Mapping[str, TestResult],
    judged: Collection[tuple[str, str]],
    *,
    node: str,
    explained: Collection[tuple[str, str]] = (),
    silent: Mapping[str, str] = MappingProxyType({}),
    measurements: Iterable[Measurement] = (),
) -> list[MetricVerdict]:
    """Return one verdict for every planned test whose end no metric verdict explains.

    A test that failed by itself is FAIL. It is INCONCLUSIVE if its worker died, if it is written wrongly, or
    if its environment kept it from working, and NOT_TESTED if it was skipped as a whole or in part, waived or
    never reported. Plain tests that passed have no verdict.

    Tests with a metric verdict are in `judged` as (benchmark, device), those in which one rejects, which is
    why they failed, in `explained`. `silent` says what kept a test from running, which has a blocker of its
    own. What the tests measured is evidence for a failure of their own.
    """
    of_test: dict[str, list[Measurement]] = {}
    for item in measurements:
        of_test.setdefault(item.test, []).append(item)
    verdicts = []
    for plan in planned:
        result = results.get(plan.test)
        if result is None or result.outcome == "not reported":
            why = Reason.NOT_REPORTED, "never reported"
            if cause := silent.get(plan.test):
                why = Reason.UNREACHED, f"never run: {cause}"
            verdicts.append(_verdict(plan, node, Outcome.NOT_TESTED, *why))
            continue
        place = (plan.benchmark, plan.device)
        found = _of_end(result, has_verdict=place in judged, is_explained=place in explained)
        if found is not None:
            verdict = _verdict(plan, node, *found)
            failed = verdict.outcome is Outcome.FAIL
            if failed:
                evidence = _measured(of_test.get(plan.test, ()))
                verdict = replace(verdict, action=result.action, evidence=evidence)
            verdicts.append(verdict)
    return verdicts


def _measured(items: Sequence[Measurement]) -> tuple[str, ...]:
    """Return the medians of what a test measured as a piece of evidence, if it measured anything."""
    values = [
        f"{item.metric.name} {value_text(median(item.values), item.metric.unit)}"
        for item in items
        if item.values
    ]
    return (f"measured {', '.join(values[:MAX_VALUES])}",) if values else ()


_Found = tuple[Outcome, Reason, str]


def _of_end(result: TestResult, *, has_verdict: bool, is_explained: bool) -> _Found | None:
    """Return what follows from how a test ended; None if nothing does."""
    outcome, text = result.outcome, result.text
    if result.misuse:
        return Outcome.INCONCLUSIVE, Reason.INVALID, f"the benchmark is written wrongly: {text}"
    if outcome in ("failed", "error"):
        return None if is_explained else _of_failure(result)
    if outcome == "crashed":
        return Outcome.INCONCLUSIVE, Reason.NOT_REPORTED, _how_it_died(result.test, text)
    if outcome == "passed" and result.left_out:
        text = f"a part of it was left out: {result.left_out}"
        return Outcome.NOT_TESTED, Reason.PARTLY_RUN, text
    if outcome == "skipped" and not has_verdict:
        return Outcome.NOT_TESTED, Reason.NOT_RUN, text
    if outcome == "xfailed" and not has_verdict:
        return Outcome.NOT_TESTED, Reason.WAIVED, f"failed as its xfail mark expects: {text}"
    return None


def _of_failure(result: TestResult) -> _Found:
    environment = result.environment
    if environment.startswith(MISTAKE):
        return Outcome.INCONCLUSIVE, Reason.INVALID, environment
    if environment:
        text = f"the test could not do its work: {environment} ({result.text})"
        return Outcome.INCONCLUSIVE, Reason.ENVIRONMENT, text
    return Outcome.FAIL, Reason.TEST_FAILED, result.text or "the test failed without a message"


def blockers_by_cause(run: RunRecord, silent: Mapping[str, str]) -> tuple[Blocker, ...]:
    """Return a run's blockers that have no verdict: one for each cause, with how many tests it cost.

    Processes that died of the same cause are one blocker. The deaths of a lane that was given up are part of
    the blocker about the lane. `silent` maps a test to what kept it from running (`kept_silent`).
    """
    lost = {event.lane for event in run.events if isinstance(event, LaneGivenUp)}
    died = [event for event in run.events if isinstance(event, WorkerDied)]
    last = {given_up_text(e.lane): e.text for e in died if not e.test and e.lane in lost}
    alike: dict[str, dict[str, bool]] = {}
    for event in died:
        if event.test or event.lane not in lost:
            alike.setdefault(event.text or "its process died", {})[died_at(event)] = bool(
                event.test
            )
    found = [_death(why, places) for why, places in alike.items()]
    deaths = {f"{died_at(event)}: {event.text}" for event in died}
    counts = Counter(silent.values())
    for blocker in run.blockers:
        line = blocker.cause
        if line in deaths:
            continue
        tests = f"{counts[line]} test{'s' if counts[line] > 1 else ''}"
        never = f"; {tests} never ran" if counts[line] else ""
        at_last = f" (at last: {last[line]})" if line in last else ""
        found.append(replace(blocker, cause=f"{line}{at_last}{never}"))
    return tuple(found)


def deaths_of(run: RunRecord, name: str = "") -> frozenset[tuple[str, str, str]]:
    """Return run, benchmark and device of every test whose process died; `name` is the run in verdicts."""
    plans = {plan.test: plan for plan in run.planned}
    died = {event.test for event in run.events if isinstance(event, WorkerDied)} - {""}
    return frozenset((name, *plans.get(test, PlannedTest(test=test)).place) for test in died)


def is_death(verdict: MetricVerdict, deaths: Collection[tuple[str, str, str]]) -> bool:
    """Return whether a verdict repeats a blocker of `blockers_by_cause`: the test's process died."""
    ended = verdict.broken and verdict.reason is Reason.NOT_REPORTED
    return ended and (verdict.run, verdict.benchmark, verdict.device) in deaths


def _death(why: str, places: Mapping[str, bool]) -> Blocker:
    """Return one blocker for all deaths of one cause; `places` says of each test or lane if it is a test."""
    tests = [place for place, is_test in places.items() if is_test]
    act = _step(why, tests) if tests else ""
    if len(places) == 1:
        return Blocker(subject=next(iter(places)), cause=why, act=act)
    count = f"{len(tests)} tests" if len(tests) == len(places) else f"{len(places)} times"
    return Blocker(subject=count, cause=f"{why}: {', '.join(places)}", act=act)


def verdicts_of_repeats(run: RunRecord) -> list[MetricVerdict]:
    """Return a MARGINAL for every test that passed only in a later attempt: faults may be intermittent.

    A last attempt that ended by ``pytest.xfail()`` passed nothing, so its verdict is INCONCLUSIVE.
    """
    plans = {plan.test: plan for plan in run.planned}
    gave_up = {result.test for result in run.results if result.outcome == "xfailed"}
    return [
        _verdict(
            plans.get(one.test, PlannedTest(test=one.test)),
            run.node,
            Outcome.INCONCLUSIVE if one.test in gave_up else Outcome.MARGINAL,
            Reason.REPEATED,
            f"an attempt failed and was repeated: {one.text}",
        )
        for one in run.repeats
    ]


def rejecting(
    verdicts: Sequence[MetricVerdict], planned: Sequence[PlannedTest], fail_on: str
) -> set[tuple[str, str]]:
    """Return (benchmark, device) of every effective verdict that makes its test fail, and of that test."""
    wanted = (Outcome.FAIL, Outcome.MARGINAL) if fail_on == "marginal" else (Outcome.FAIL,)
    bad = [verdict for verdict in verdicts if verdict.outcome in wanted]
    return {(verdict.benchmark, verdict.device) for verdict in bad} | places_of(bad, planned)


def places_of(
    verdicts: Sequence[MetricVerdict], planned: Sequence[PlannedTest]
) -> set[tuple[str, str]]:
    """Return (benchmark, device) of the tests that verdicts belong to.

    A test of the node may judge other units than itself, such as the links between nodes.
    """
    plans = {plan.test: (plan.benchmark, plan.device) for plan in planned}
    return {plans[verdict.test] for verdict in verdicts if verdict.test in plans}


def _how_it_died(test: str, why: str) -> str:
    """Say how a test's process ended, and what to do next."""
    return f"{'' if why.startswith(HUNG) else DIED}{why}{_NEXT_STEP}{_step(why, [test])}"


def _step(why: str, tests: Sequence[str]) -> str:
    """Say what to do about tests whose processes died."""
    what = "it" if len(tests) == 1 else "one of them"
    again = f"run {what} alone again: pytest --anubis {shlex.quote(tests[0])}"
    if why.startswith(HUNG):
        return (
            f"look where it hung, in the stack that was saved with the test, then {again}; if it "
            "hangs on one device only, that device's driver, card or link does not answer"
        )
    return f"look where it ended, then {again}, and look for the driver's words in the kernel log"


def _verdict(
    plan: PlannedTest, node: str, outcome: Outcome, reason: Reason, text: str
) -> MetricVerdict:
    return MetricVerdict(
        outcome=outcome,
        reason=reason,
        text=text,
        benchmark=plan.benchmark or plan.test,
        metric="",
        component=plan.component,
        node=node,
        device=plan.device,
    )
