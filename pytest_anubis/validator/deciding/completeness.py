"""Completeness: what was planned and did not report, failed or was skipped gets a verdict of its own."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence

from pytest_anubis.core.events import TestRepeated
from pytest_anubis.core.measurement import MISTAKE, PlannedTest, TestResult
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason

LEFT_OUT = "a part of it was left out"
"""Begins what is said of a test that ran, and has not looked at everything."""

FAILED_ITSELF = "the test itself failed: "
"""Begins what is said of a test that failed otherwise than by what it measured."""

HUNG = "hung"
"""Begins what is said of a test that was ended because it did not come to its end."""


def verdicts_of_tests(
    planned: Sequence[PlannedTest],
    results: Mapping[str, TestResult],
    judged: Collection[tuple[str, str]],
    *,
    node: str,
    explained: Collection[tuple[str, str]] = (),
) -> list[MetricVerdict]:
    """Return one verdict for every test whose end no metric verdict speaks for.

    Args:
        planned: Every test that was collected for this run.
        results: Node id -> how the test ended, for those that ended.
        judged: (benchmark, device) of every test with at least one metric verdict.
        node: Name of the node.
        explained: (benchmark, device) of every test with a metric verdict that rejects: that is why it
            failed. A test may fail although its metrics pass: in its teardown, or as a strict xfail.

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
            verdicts.append(
                _verdict(plan, node, Outcome.NOT_TESTED, Reason.NOT_REPORTED, "never reported")
            )
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
            text = f"{FAILED_ITSELF}{result.text}"
            verdicts.append(_verdict(plan, node, Outcome.FAIL, Reason.TEST_FAILED, text))
        elif result.outcome == "crashed":
            text = _how_it_died(plan.test, result.text)
            verdicts.append(_verdict(plan, node, Outcome.INCONCLUSIVE, Reason.NOT_REPORTED, text))
        elif result.outcome == "passed" and result.left_out and not spoken_for:
            text = f"{LEFT_OUT}: {result.left_out}"
            verdicts.append(_verdict(plan, node, Outcome.NOT_TESTED, Reason.NOT_RUN, text))
        elif result.outcome == "skipped" and not spoken_for:
            verdicts.append(_verdict(plan, node, Outcome.NOT_TESTED, Reason.NOT_RUN, result.text))
        elif result.outcome == "xfailed" and not spoken_for:
            text = f"failed as its xfail mark expects: {result.text}"
            verdicts.append(_verdict(plan, node, Outcome.NOT_TESTED, Reason.WAIVED, text))
    return verdicts


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
    again = f"run it alone again: pytest --anubis {shlex.quote(test)}"
    if why.startswith(HUNG):
        return (
            f"{why}; next step: look where it hung (the stack stands with the test), then {again}; if it "
            "hangs on one device only, that device's driver, card or link does not answer"
        )
    return (
        f"the process died during the test: {why}; next step: look where it ended, then {again}, and look "
        "for the driver's words in the kernel log"
    )


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
