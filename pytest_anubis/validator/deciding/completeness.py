"""Completeness: what was planned and did not report, failed or was skipped gets a verdict of its own."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.events import LaneGivenUp, TestRepeated, WorkerDied
from pytest_anubis.core.measurement import MISTAKE, PlannedTest, TestResult
from pytest_anubis.core.run import RunRecord, died_at, given_up_text
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason

HUNG = "hung"
"""Begins what is said of a test that was ended because it did not come to its end."""

DIED = "the process died during the test: "
"""Begins what is said of a test whose process was lost."""

_NEXT_STEP = "; next step: "


def verdicts_of_tests(
    planned: Sequence[PlannedTest],
    results: Mapping[str, TestResult],
    judged: Collection[tuple[str, str]],
    *,
    node: str,
    explained: Collection[tuple[str, str]] = (),
    silent: Mapping[str, str] = MappingProxyType({}),
) -> list[MetricVerdict]:
    """Return one verdict for every test whose end no metric verdict speaks for.

    Args:
        planned: Every test that was collected for this run.
        results: Node id -> how the test ended, for those that ended.
        judged: (benchmark, device) of every test with at least one metric verdict.
        node: Name of the node.
        explained: (benchmark, device) of every test with a metric verdict that rejects: that is why it
            failed. A test may fail although its metrics pass: in its teardown, or as a strict xfail.
        silent: Test -> what kept it from running, which is a blocker by itself.

    Returns:
        FAIL for a test that failed by itself, INCONCLUSIVE for one whose worker died, that is written wrongly
        or that its surroundings kept from its work, NOT_TESTED for one that was skipped (or a part of it),
        waived or never reported; nothing for plain tests that passed.
    """
    verdicts = []
    for plan in planned:
        result = results.get(plan.test)
        spoken_for = (plan.benchmark, plan.device) in judged
        if result is None or result.outcome == "not reported":
            cause = silent.get(plan.test, "")
            text = f"never run: {cause}" if cause else "never reported"
            reason = Reason.UNREACHED if cause else Reason.NOT_REPORTED
            verdicts.append(_verdict(plan, node, Outcome.NOT_TESTED, reason, text))
            continue
        if result.misuse:
            text = f"the benchmark is written wrongly: {result.text}"
            verdicts.append(_verdict(plan, node, Outcome.INCONCLUSIVE, Reason.INVALID, text))
        elif result.outcome in ("failed", "error"):
            if (plan.benchmark, plan.device) in explained:
                continue
            if result.environment.startswith(MISTAKE):
                text = result.environment
                verdicts.append(_verdict(plan, node, Outcome.INCONCLUSIVE, Reason.INVALID, text))
                continue
            if result.environment:
                text = f"the test could not do its work: {result.environment} ({result.text})"
                verdicts.append(
                    _verdict(plan, node, Outcome.INCONCLUSIVE, Reason.ENVIRONMENT, text)
                )
                continue
            text = result.text or "the test failed without a message"
            failed = _verdict(plan, node, Outcome.FAIL, Reason.TEST_FAILED, text)
            verdicts.append(replace(failed, action=result.action))
        elif result.outcome == "crashed":
            text = _how_it_died(plan.test, result.text)
            verdicts.append(_verdict(plan, node, Outcome.INCONCLUSIVE, Reason.NOT_REPORTED, text))
        elif result.outcome == "passed" and result.left_out:
            text = f"a part of it was left out: {result.left_out}"
            verdicts.append(_verdict(plan, node, Outcome.NOT_TESTED, Reason.PARTLY_RUN, text))
        elif result.outcome == "skipped" and not spoken_for:
            verdicts.append(_verdict(plan, node, Outcome.NOT_TESTED, Reason.NOT_RUN, result.text))
        elif result.outcome == "xfailed" and not spoken_for:
            text = f"failed as its xfail mark expects: {result.text}"
            verdicts.append(_verdict(plan, node, Outcome.NOT_TESTED, Reason.WAIVED, text))
    return verdicts


def blockers_by_cause(run: RunRecord, silent: Mapping[str, str]) -> tuple[Blocker, ...]:
    """Return a run's blockers that have no verdict: one a cause, with how many tests it cost.

    Processes that died of the same are one blocker; those of a lane that was given up are told by its line.

    Args:
        run: The run.
        silent: Test -> what kept it from running (`core.asking.silent_tests.kept_silent`).
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
    """Return run, benchmark and device of every test whose process died, each told by a blocker.

    Args:
        run: The run.
        name: What verdicts call it; empty while it goes on.
    """
    plans = {plan.test: plan for plan in run.planned}
    died = {event.test for event in run.events if isinstance(event, WorkerDied)} - {""}
    return frozenset((name, *plans.get(test, PlannedTest(test=test)).place) for test in died)


def is_death(verdict: MetricVerdict, deaths: Collection[tuple[str, str, str]]) -> bool:
    """Return whether a verdict says what a blocker of `blockers_by_cause` says: a test's process died."""
    ended = verdict.broken and verdict.reason is Reason.NOT_REPORTED
    return ended and (verdict.run, verdict.benchmark, verdict.device) in deaths


def _death(why: str, places: Mapping[str, bool]) -> Blocker:
    """Return one blocker for everything that died of the same; `places` tells tests from lanes."""
    tests = [place for place, is_test in places.items() if is_test]
    act = _step(why, tests) if tests else ""
    if len(places) == 1:
        return Blocker(subject=next(iter(places)), cause=why, act=act)
    count = f"{len(tests)} tests" if len(tests) == len(places) else f"{len(places)} times"
    return Blocker(subject=count, cause=f"{why}: {', '.join(places)}", act=act)


def verdicts_of_repeats(
    repeats: Sequence[TestRepeated], planned: Sequence[PlannedTest], *, node: str
) -> list[MetricVerdict]:
    """Return a MARGINAL for every test of which an attempt failed: grey hardware comes and goes."""
    plans = {plan.test: plan for plan in planned}
    return [
        _verdict(
            plans.get(one.test, PlannedTest(test=one.test)),
            node,
            Outcome.MARGINAL,
            Reason.REPEATED,
            f"an attempt failed and was repeated: {one.text}",
        )
        for one in repeats
    ]


def rejecting(
    verdicts: Sequence[MetricVerdict], planned: Sequence[PlannedTest], fail_on: str
) -> set[tuple[str, str]]:
    """Return (benchmark, device) of every verdict that makes its test fail, and of that test.

    Args:
        verdicts: Those that count; a waived one explains nothing.
        planned: The tests.
        fail_on: ``fail`` or ``marginal``.
    """
    wanted = (Outcome.FAIL, Outcome.MARGINAL) if fail_on == "marginal" else (Outcome.FAIL,)
    bad = [verdict for verdict in verdicts if verdict.outcome in wanted]
    return {(verdict.benchmark, verdict.device) for verdict in bad} | places_of(bad, planned)


def places_of(
    verdicts: Sequence[MetricVerdict], planned: Sequence[PlannedTest]
) -> set[tuple[str, str]]:
    """Return (benchmark, device) of the tests that verdicts belong to.

    A test of the node may judge other units than itself, as the ways between nodes.
    """
    plans = {plan.test: (plan.benchmark, plan.device) for plan in planned}
    return {plans[verdict.test] for verdict in verdicts if verdict.test in plans}


def _how_it_died(test: str, why: str) -> str:
    """Return what became of a test whose process was lost, and what to do next."""
    return f"{'' if why.startswith(HUNG) else DIED}{why}{_NEXT_STEP}{_step(why, [test])}"


def _step(why: str, tests: Sequence[str]) -> str:
    """Return what to do about tests whose processes were lost."""
    what = "it" if len(tests) == 1 else "one of them"
    again = f"run {what} alone again: pytest --anubis {shlex.quote(tests[0])}"
    if why.startswith(HUNG):
        return (
            f"look where it hung (the stack stands with the test), then {again}; if it "
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
