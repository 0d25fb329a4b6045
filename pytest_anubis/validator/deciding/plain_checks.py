"""Learn what a baseline knows of tests beyond their metrics: which must pass, and which leave out a part.

`class_learning` uses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pytest_anubis.core.baseline import PlainCheck
from pytest_anubis.core.run import RunRecord


def plain_checks(runs: Iterable[RunRecord]) -> tuple[PlainCheck, ...]:
    """Return the tests without a metric that most nodes passed, with the devices on which most passed them.

    A node counts once for all its runs. If there is one node, each run that planned the test counts.
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


def parted_benchmarks(runs: Iterable[RunRecord]) -> tuple[str, ...]:
    """Return the benchmarks of which most runs left out a part, sorted."""
    planned, parted = Counter[str](), Counter[str]()
    for run in runs:
        tests = {result.test for result in run.results if result.left_out}
        planned.update({plan.place[0] for plan in run.planned})
        parted.update({plan.place[0] for plan in run.planned if plan.test in tests})
    return tuple(sorted(name for name, count in parted.items() if 2 * count > planned[name]))


def _passed(run: RunRecord) -> set[tuple[str, str]]:
    good = {r.test for r in run.results if r.outcome == "passed" and not (r.metrics or r.left_out)}
    return {plan.place for plan in run.planned if plan.test in good}
