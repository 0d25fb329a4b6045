"""Tests without a metric: which belong to a baseline, and which runs failed one.

A baseline has those that most of its nodes passed. No sample tells of one that failed, so whoever counts
nodes by their samples asks here as well: learning, judging and the backtest count alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pytest_anubis.core.baseline import PlainCheck
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.core.waivers.waiving import with_waiver
from pytest_anubis.validator.deciding.run_decision import evidence_of


def plain_checks(runs: Iterable[RunRecord]) -> tuple[PlainCheck, ...]:
    """Return the tests without a metric that most nodes passed, each with the devices that most passed it on.

    A node counts once for all its runs; if all are of one node, each run counts that planned the test.

    Args:
        runs: Runs that were learned from, of one hardware class.
    """
    runs = list(runs)
    by_run = len({run.node for run in runs}) == 1
    passed: dict[str, set[tuple[str, str]]] = {}
    had: Counter[str] = Counter()  # in how many runs a test was planned
    for run in runs:
        unit = run.run if by_run else run.node
        passed.setdefault(unit, set()).update(_passed(run))
        had.update({plan.place[0] for plan in run.planned})
    parts = {
        plan.place[0]: plan.component for run in runs for plan in run.planned if plan.component
    }
    of_tests = Counter(test for found in passed.values() for test in {test for test, _ in found})
    of_devices = Counter(pair for found in passed.values() for pair in found)
    return tuple(
        PlainCheck(
            test=test,
            devices=tuple(
                sorted(d for t, d in of_devices if t == test and 2 * of_devices[t, d] > n)
            ),
            component=parts.get(test, ""),
        )
        for test, n in sorted(of_tests.items())
        if 2 * n > (had[test] if by_run else len(passed))
    )


def failed_checks(
    runs: Iterable[RunRecord], unmeasured: Mapping[tuple[str, str], Sequence[str]]
) -> dict[tuple[str, str], MetricVerdict]:
    """Return node and run -> the first failure of which no sample tells, as judging finds it.

    What a waiver covers is none, and a run that was broken off decides nothing.

    Args:
        runs: The runs; the values of their measurements are not looked at.
        unmeasured: Run and node -> its tests that recorded nothing and fit into no population.
    """
    found: dict[tuple[str, str], MetricVerdict] = {}
    for run in runs:
        if run.broken_off:
            continue
        known = evidence_of(run, unmeasured.get((run.run, run.node), ()))
        told = (with_waiver(verdict, known.waivers) for verdict in known.verdicts)
        failure = next((verdict for verdict in told if verdict.outcome is Outcome.FAIL), None)
        if failure is not None:
            found[run.node, run.run] = failure
    return found


def _passed(run: RunRecord) -> set[tuple[str, str]]:
    good = {r.test for r in run.results if r.outcome == "passed" and not (r.metrics or r.left_out)}
    return {plan.place for plan in run.planned if plan.test in good}
