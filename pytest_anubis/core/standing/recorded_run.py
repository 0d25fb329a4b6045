"""What a run's record says about where its node stands."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.standing_of import GATE, GONE, JudgedRun, Key, judged_run
from pytest_anubis.core.verdict import HOST, Outcome, Reason


def judged_of(record: RunRecord, *, began: float, ended: float | None = None) -> JudgedRun:
    """Return what a run says about its node.

    Args:
        record: The run.
        began: When it began, seconds since 1970.
        ended: When it ended; None where that is unknown.
    """
    verdict = record.node_verdict
    outcomes = [
        ((one.benchmark, one.metric, one.device), one.outcome, one.reason) for one in record.told
    ]
    outcomes += [(key, Outcome.PASS, Reason.WITHIN) for key in passed_checks(record)]
    return judged_run(
        outcomes,
        run=record.run,
        began=began,
        ended=ended,
        decision=verdict.decision.value if verdict else "",
        benchmarks={one.benchmark for one in record.measurements},
    )


def passed_checks(record: RunRecord) -> Iterator[Key]:
    """Yield what passed and has no value: the own checks of tests, and the comparison of the inventory.

    Of a table, which has no inventory, that is every device that gave a value.
    """
    places = {plan.test: plan.place for plan in record.planned}
    for result in record.results:
        if result.outcome == "passed" and not result.left_out and result.test in places:
            benchmark, device = places[result.test]
            yield benchmark, "", device
    if not record.planned and not record.inventory:
        devices = {one.device for one in record.measurements if one.values}
        yield from ((GATE[0], GONE, one) for one in sorted(devices.difference(HOST)))
        return
    wrong = any(one.benchmark == GATE[0] and one.reason is not Reason.WAIVED for one in record.told)
    if record.baseline and not record.switched_off and not wrong:
        yield GATE
