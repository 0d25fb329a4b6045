"""Reduce a run to what it says about its node (`JudgedRun`): what failed, what passed, and by what reference.

`standing_of` combines these. The store makes them of journals and history rows, `anubis judge` of any runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pytest_anubis.core.events import COUNTERS, INVENTORY, KERNEL_LOG, MACHINE
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.standing_of import (
    GATE,
    GONE,
    HARDWARE,
    WHOLE,
    XFAIL,
    JudgedRun,
    Key,
    Said,
)
from pytest_anubis.core.verdict import (
    HOST,
    RETEST,
    Decision,
    MetricVerdict,
    Outcome,
    Reason,
    Reference,
    Waiver,
)

PAST = frozenset((Reference.SELF, Reference.MODEL))
"""References that are no measurement of another unit: earlier values of the node, or a specification."""
NEAR = PAST | {Reference.PEERS, Reference.MACHINE}
"""References of the node itself, as opposed to a fleet's baseline."""
_WITHOUT_NORM = (Reason.NO_BASELINE, Reason.NO_CRITERION)


def judged_of(record: RunRecord, *, began: float, ended: float | None = None) -> JudgedRun:
    """Return what a run says about its node.

    Times are seconds since 1970. If its end is unknown, it went on until its latest event at least.
    """
    outcomes = [
        (key_of(one), one.outcome, one.reason, one.reference, one.waiver)
        for one in record.effective_verdicts
    ]
    outcomes += [
        (key, Outcome.PASS, Reason.WITHIN, reference, None)
        for key, reference in passed_checks(record)
    ]
    return judged_run(
        speaking(outcomes, clears=not (record.replayed or was_killed(record))),
        run=record.run,
        began=began,
        ended=max(began, record.last) if ended is None else ended,
        decision=said_of_node(record),
        benchmarks={one.benchmark for one in record.measurements},
        profile=record.profile,
        after=record.after,
        undated=record.behind > 0,
        campaign=record.campaign,
        noisy=bool(record.quiet_limits),
        model=model_of(record.hardware_class),
        retest=record.node_verdict is not None and record.node_verdict.word == RETEST,
    )


def judged_run(
    outcomes: Iterable[Said],
    *,
    began: float,
    ended: float | None,
    decision: str,
    benchmarks: Collection[str],
    **more: Any,
) -> JudgedRun:
    """Return what a run says about its node, from its verdicts; of several with one key the worst counts.

    If they have several references, the strongest counts for what failed, the weakest for what passed. `more`
    has the other fields of `JudgedRun`.
    """
    found: dict[Outcome, dict[Key, set[Reference]]] = {outcome: {} for outcome in Outcome}
    waived: dict[Key, Waiver] = {}
    by_waived: dict[Key, set[Reference]] = {}
    for key, outcome, reason, by, waiver in outcomes:
        # Any value answers what was not set. A value that its test or a hook alone knows to be right or
        # wrong is answered by any other judge, and answers none of them.
        declared = by is Reference.NONE and key[1] and reason in (Reason.BEYOND, Reason.WITHIN)
        reference = Reference.SELF if reason is Reason.UNSET or declared else by
        if reason is Reason.WAIVED:
            both_of = (waived.get(key, waiver), waiver) if waiver else ()
            first = min(both_of, key=lambda one: one.expires or "~", default=None)
            waived[key] = first or waived.get(key, XFAIL)
            by_waived.setdefault(key, set()).add(reference)
        elif reason not in _WITHOUT_NORM:  # peers or earlier runs may have judged it all the same
            found[outcome].setdefault(key, set()).add(reference)
    fail, marginal, fine = (found[one] for one in (Outcome.FAIL, Outcome.MARGINAL, Outcome.PASS))
    broken = fail if decision == Decision.UNDECIDED else {}
    failed = (fail or marginal or {WHOLE: set()}) if decision == Decision.REJECTED else broken
    counted = _without_means({**by_waived, **failed})
    bad = {*fail, *found[Outcome.INCONCLUSIVE], *found[Outcome.NOT_TESTED], *failed, *waived}
    still = {key: waiver for key, waiver in waived.items() if key in counted - failed.keys()}
    both = {
        key: fine.get(key, set()) | marginal.get(key, set()) for key in {*fine, *marginal} - bad
    }
    return JudgedRun(
        began=began,
        ended=began if ended is None else ended,
        decision=decision,
        failed=tuple(sorted(failed.keys() & counted)),
        passed=tuple(sorted(both)),
        benchmarks=tuple(sorted(benchmarks)),
        by_peers=_weak({**by_waived, **failed}, both, NEAR),
        by_past=_weak({**by_waived, **failed}, both, PAST),
        marginal=tuple(sorted(marginal.keys() & {*failed, *both} - fail.keys())),
        waived=tuple(sorted(still.items(), key=lambda one: one[0])),
        **more,
    )


def _without_means(bad: Collection[Key]) -> set[Key]:
    """Return failures without the means over all devices of metrics in which a device itself failed.

    A retest of that device alone measures no mean (device ``node``), so the failed mean would stay open.
    """
    own = {(one[0], one[1], one[3]) for one in bad if one[2] not in HOST}
    return {one for one in bad if one[2] != "node" or (one[0], one[1], one[3]) not in own}


def _weak(
    failed: Mapping[Key, set[Reference]],
    passed: Mapping[Key, set[Reference]],
    weak: frozenset[Reference],
) -> tuple[Key, ...]:
    """Return what failed by these references only, and what passed by any of them."""
    found = {key for key, by in failed.items() if by and by <= weak}
    return tuple(sorted(found | {key for key, by in passed.items() if by & weak}))


def model_of(hardware_class: str) -> str:
    """Return the accelerators that a class names, without their number; empty for a class that names none.

    A name that an operator has made up is a kind of node of its own.
    """
    first = hardware_class.partition("_")[0]
    count, _, model = first.partition("x-")
    if count.isdigit():
        return model
    return "" if first in ("no-accelerator", "unclassified") else hardware_class


def said_of_node(record: RunRecord) -> str:
    """Return a run's decision if it is about the node; empty if it decides nothing about it.

    With a recorded inventory that may be another machine's it accepts nothing. One that was killed after
    something had failed, or as a cycle of a soak, is undecided, as if it had been broken off: later runs have
    to look at that again. So is one that ended and whose journal has lost its verdict.
    """
    verdict = record.node_verdict
    if verdict is None:
        bad = any(
            one.outcome is Outcome.FAIL or one.reason is Reason.WAIVED
            for one in record.effective_verdicts
        )
        lost = record.settings.get("mode") != "measure" and record.ended and record.warnings
        return Decision.UNDECIDED.value if bad or lost or record.campaign else ""
    if record.replayed and verdict.decision is Decision.ACCEPTED:
        return ""
    return verdict.decision.value


def unjudged_in(verdicts: Iterable[MetricVerdict]) -> int:
    """Return how many of a run's metrics its baseline has no criterion for."""
    open_ones = (Reason.NO_CRITERION, Reason.BELOW_NOMINAL)
    without = (one for one in verdicts if one.reason in open_ones)
    return len({(one.benchmark, one.metric) for one in without})


def was_killed(record: RunRecord) -> bool:
    """Return whether a run was cut before anything was decided: what it passed clears nothing."""
    return record.node_verdict is None and bool(record.broken_off)


def speaking(outcomes: Iterable[Said], *, clears: bool) -> list[Said]:
    """Return a run's verdicts that count for the node.

    Its passes do not count (`clears`) if the machine may be another one, or the run was killed.
    """
    good = (Outcome.PASS, Outcome.MARGINAL)
    return [one for one in outcomes if clears or one[1] not in good]


def key_of(verdict: MetricVerdict) -> Key:
    """Return the key of what a verdict is about."""
    return verdict.benchmark, verdict.metric, verdict.device, verdict.group


def passed_checks(record: RunRecord) -> Iterator[tuple[Key, Reference]]:
    """Yield what passed and has no verdict: own checks of tests, right values, the inventory.

    It also yields each place where the run looked for faults of the hardware (`JudgedRun.looked`): for a
    table, which has no inventory, every device that gave a value. The reference is MACHINE where the
    inventory was compared with a baseline of this machine alone, SELF of right values, else NONE.
    """
    places = {plan.test: plan.place for plan in record.planned}
    for result in record.results:
        if result.outcome == "passed" and not result.left_out and result.test in places:
            benchmark, device = places[result.test]
            yield (benchmark, "", device, ""), Reference.NONE
    judged = {key_of(one) for one in record.effective_verdicts if one.reason not in _WITHOUT_NORM}
    for one in record.measurements:  # right without any criterion, as a wrong one is wrong
        key = (one.benchmark, one.metric.name, one.device, one.group)
        right = one.metric.right
        if right is not None and key not in judged and set(one.values) == {right}:
            yield key, Reference.SELF
    if not record.planned and not record.inventory:
        devices = {one.device for one in record.measurements if one.values}
        for device in sorted(devices.difference(HOST)):
            yield (GATE[0], GONE, device, ""), Reference.NONE
        return
    accepted = record.node_verdict and record.node_verdict.decision is Decision.ACCEPTED
    wrong = any(
        one.benchmark == GATE[0] and not (accepted and one.reason is Reason.WAIVED)
        for one in record.effective_verdicts
    )
    looked = record.looked_at
    if looked is None:  # older versions did not say
        looked = (INVENTORY,) if record.baseline and not record.switched_off else ()
    own = any(one.reference is Reference.MACHINE for one in record.effective_verdicts)
    for name in looked:
        if name in (KERNEL_LOG, COUNTERS):
            yield (HARDWARE, "", name, ""), Reference.NONE
        elif name not in (INVENTORY, MACHINE):
            yield (GATE[0], "", name, ""), Reference.NONE
        elif not wrong:
            yield GATE, Reference.MACHINE if own else Reference.NONE
