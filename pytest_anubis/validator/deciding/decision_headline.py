"""Make the headline of a decision, one sentence with all that it rests on, for `node_decision`."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from pytest_anubis.core.alike_devices import alike_text, other_verdicts
from pytest_anubis.core.asking.next_step import SELF_EXPLAINED, STEP, host_trouble, next_step
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.machine_marks import machine_mismatch
from pytest_anubis.core.metric import first_of, loss_text, percent_text, value_text, whole_of
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.shown_loss import ALL_DEVICES, nominal_text, shown_similarity
from pytest_anubis.core.verdict import (
    HOST,
    NOISY,
    SKIPPED,
    Decision,
    MetricVerdict,
    Outcome,
    Reason,
    Triage,
    Trouble,
)
from pytest_anubis.validator.deciding.missing_values import missing_text

_JUDGED = (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL)
_UNUSUAL = (Reason.UNUSUAL, Reason.UNDETECTABLE, Reason.CHANGE_POINT, Reason.BELOW_NOMINAL)
"""Reasons of verdicts that are MARGINAL because of their values; the headline of an acceptance names them."""

MAX_GROUPS_NAMED = 3
"""Metrics with slower groups that a headline names."""
LOSSES = (0.1, 0.25, 0.5)
"""Losses for which the power is reported: a loss that a job which waits for its slowest node notices, a loss
that no job should miss, and a half."""


def headline(
    name: str,
    decision: Decision,
    bad: Sequence[MetricVerdict],
    blocking: Sequence[Blocker],
    verdicts: Sequence[MetricVerdict],
    baseline: Baseline | None,
    evidence: RunEvidence,
    *,
    unneeded: str = "",
    never: Sequence[str] = (),
    uncovered: str = "",
    devices: Iterable[str] = (),
) -> str:
    """Say in one sentence what was decided, why, and what the decision does not cover.

    The `bad` verdicts reject, the worst first; `blocking` prevents acceptance. `unneeded` says why nothing
    had to be measured, if so. `never` are benchmarks of the baseline that never ran and are not required,
    `uncovered` a phrase about uncovered components if they are the most frequent blocker. Devices were judged
    in addition to those of verdicts and evidence.
    """
    subject = f"node {name}" if name else "the node"
    if decision is Decision.REJECTED:
        known = {*devices, *evidence.devices, *evidence.cards, *(v.device for v in verdicts)}
        return f"{subject} rejected: {_rejection(bad, verdicts, baseline, evidence, known)}"
    if decision is Decision.UNDECIDED:
        also = _answered_for(verdicts) + _required(verdicts, evidence, never)
        cause = uncovered or host_trouble(verdicts)
        text = _indecision(blocking, cause, also, _doubt(baseline, verdicts))
        return f"{subject} is neither accepted nor rejected: {text}"
    reserve = "".join(f"; {text}" for text in _reservations(verdicts, evidence, never))
    accepted = f"{subject} accepted{_at_risk(evidence)}"
    if unneeded:
        return f"{accepted} without any measurement: {unneeded}{reserve}"
    # The criterion of a whole component is not one more metric.
    means = (
        {whole_of(one.component) for one in baseline.criteria} if baseline is not None else set()
    )
    judged = len(_judged_metrics(v for v in verdicts if v.benchmark not in means))
    good = "" if _reasons(verdicts, Reason.WAIVED, Reason.REPEATED) else ", none failed"
    return (
        f"{accepted}: {judged} metric{'' if judged == 1 else 's'} judged{good}"
        f"{_basis(baseline, name, evidence)}{_power(baseline, verdicts)}{reserve}"
    )


def _rejection(
    bad: Sequence[MetricVerdict],
    verdicts: Sequence[MetricVerdict],
    baseline: Baseline | None,
    evidence: RunEvidence,
    devices: Collection[str],
) -> str:
    """Say what rejects a node, on which of its devices, and what to do."""
    worst = bad[0]
    components = list(dict.fromkeys(v.component or v.benchmark for v in bad))
    counts = Counter(verdict.trouble for verdict in other_verdicts(worst, bad))
    others = ", ".join(kind.counted(counts[kind]) for kind in Trouble if kind and counts[kind])
    more = f"; also {others}" if others else ""
    # The step of a failed test is to read its message, which this line quotes.
    quoted = (
        worst.reason in SELF_EXPLAINED and not worst.action and worst.triage is not Triage.RETEST
    )
    todo = "" if quoted else next_step(worst)
    step = f" Next step: {todo}" if todo else ""
    among = alike_text(worst, bad, devices)
    text = f"{f'{among}, the worst ' if among else ''}{_where(worst, evidence)}{worst.text}"
    waived = "".join(f" {text}." for text in _answered_for(verdicts))
    doubt = _doubt(baseline, bad)
    doubt = f" The baseline's {doubt}." if doubt else ""
    limits = evidence.noisy.get(worst.run, "") if worst.retest == NOISY else ""
    noise = f" The operator allowed more noise than usual ({limits})." if limits else ""
    return f"{', '.join(components)}. {text}{more}.{waived}{noise}{doubt}{step}"


def _indecision(blocking: Sequence[Blocker], cause: str, also: Sequence[str], doubt: str) -> str:
    """Say what prevents a decision: a cause of many blockers, or the first blocker and how many there are."""
    fact, count = uncollected_once(blocking)
    more = f" (and {len(blocking) - count} more)" if len(blocking) > count else ""
    parts = [cause or f"{fact}{more}", *also]
    parts += [f"the baseline's {doubt}"] if doubt else []
    step = f"{STEP}{blocking[0].act}" if blocking[0].act and not cause else ""
    return f"{'; '.join(parts)}{step}"


def _at_risk(evidence: RunEvidence) -> str:
    """Say at which risk, or within which budget, a node is accepted; empty if nothing was left out."""
    risk, interval = evidence.residual_risk, evidence.residual_interval
    if risk is None and evidence.budget is not None:
        spent, full = (value_text(seconds, "s") for seconds in evidence.budget)
        return f" within a budget ({spent} of {full}; the risk is unknown)"
    if risk is None:
        return ""
    within = " (95 % within {} to {})".format(*map(percent_text, interval)) if interval else ""
    return f" at risk {percent_text(risk)}{within}"


def _doubt(baseline: Baseline | None, verdicts: Iterable[MetricVerdict]) -> str:
    """Return the doubt about a baseline if it decided any of the verdicts."""
    return baseline_doubt_text(baseline) if any(map(judged_by_baseline, verdicts)) else ""


def _judged_metrics(verdicts: Iterable[MetricVerdict]) -> set[tuple[str, str]]:
    return {(v.benchmark, v.metric) for v in verdicts if judged_by_baseline(v)}


def uncollected_once(blocking: Sequence[Blocker]) -> tuple[str, int]:
    """Return the words for the first blocker, and how many blockers these words cover.

    Files that cannot be collected for the same cause, such as a missing module that a helper imports, are one
    line: the cause with the first file and the number of others.
    """
    first = blocking[0]
    if first.kind is not Hindrance.UNCOLLECTED:
        return first.fact, 1
    count = sum(one.kind is first.kind and one.cause == first.cause for one in blocking)
    others = f" and {count - 1} other file{'s' if count > 2 else ''}" if count > 1 else ""
    return replace(first, subject=f"{first.benchmark}{others} cannot be collected").fact, count


def _where(verdict: MetricVerdict, evidence: RunEvidence) -> str:
    """Return the device of a verdict, with slot and serial number, unless its own sentence names it.

    For the host, return the case of the test (the port, the disk), or the test if it failed itself.
    """
    if verdict.reason in (Reason.HARDWARE, Reason.GONE):
        return ""
    card = evidence.cards.get(verdict.device, "")
    if verdict.text.startswith(f"{verdict.device}: "):
        return f"{card}: " if card else ""
    if verdict.device not in HOST:
        return f"{verdict.device} ({card}): " if card else f"{verdict.device}: "
    if verdict.scope == "node":
        return f"{ALL_DEVICES}: "
    test = verdict.benchmark.partition("::")[2]
    return f"{test}: " if verdict.component and ("[" in test or not verdict.metric) and test else ""


def judged_by_baseline(verdict: MetricVerdict) -> bool:
    """Return whether a verdict is from a comparison with the baseline; a waived verdict is not."""
    return verdict.reference.is_baseline and verdict.outcome in _JUDGED


def _power(baseline: Baseline | None, verdicts: Sequence[MetricVerdict]) -> str:
    """Say which losses the run would have shown, and in how many metrics."""
    if baseline is None:
        return ""
    smallest: dict[tuple[str, str], float] = {}
    judged = _judged_metrics(verdicts)
    for criterion in baseline.criteria:
        key = (criterion.benchmark, criterion.metric.name)
        loss = criterion.shown_loss
        if loss is None or key not in judged:
            continue
        smallest[key] = max(smallest.get(key, 0.0), loss)
    if not smallest:
        return ""
    # `_reservations` counts those that this run measured.
    measured = {(v.benchmark, v.metric) for v in _reasons(verdicts, Reason.NO_CRITERION)}
    others = sum((one.benchmark, one.metric) not in measured for one in baseline.unjudged)
    blind = f"; {others} could not be judged here" if others else ""
    shown = [
        (percent_text(loss), count)
        for loss in LOSSES
        if (count := sum(least <= loss for least in smallest.values()))
    ]
    if not shown:
        return f"; no loss up to {percent_text(max(LOSSES))} would have shown in any of them{blind}"
    least, count = shown[0]
    steps = itertools.pairwise(shown)
    every = len(smallest)
    more = "".join(
        f", of {loss} in {'all' if now == every else now}"
        for (_, then), (loss, now) in steps
        if then < every
    )
    metrics = f"{every} metric{'s' if every > 1 else ''}"
    return f"; it would have shown a loss of {least} in {count} of {metrics}{more}{blind}"


def _basis(baseline: Baseline | None, name: str, evidence: RunEvidence) -> str:
    if baseline is None or not (baseline.one_machine or baseline.nodes):
        return ""
    if machine_mismatch(baseline, name, *evidence.machines):
        return f" (learned on one other machine, {', '.join(baseline.nodes)})"
    if baseline.one_machine:
        runs = len(baseline.runs)
        return f" ({runs} run{'s' if runs != 1 else ''} of this machine alone)"
    doubt, open_ones = baseline_doubt_text(baseline), groups_of(baseline)
    count = len(baseline.nodes)
    more = (f", whose {doubt}" if doubt else "") + (f"; {open_ones}" if open_ones else "")
    return f" (learned from {count} node{'s' if count != 1 else ''}{more})"


def baseline_doubt_text(baseline: Baseline | None) -> str:
    """Say that a baseline rejects more healthy nodes than it states; empty if it does not."""
    check = baseline.self_check if baseline is not None else None
    if check is None or check.holds:
        return ""
    own = percent_text(check.own_rejected)
    return f"stated error rate does not hold: {own} of its own nodes are rejected"


def groups_of(baseline: Baseline | None) -> str:
    """Say in which metrics an operator must decide about a slower group, and how; empty if in none."""
    found = baseline.undecided if baseline is not None else ()
    if not found:
        return ""
    return (
        f"no operator has decided about slower groups in {first_of(found, MAX_GROUPS_NAMED)}: decide with "
        "'anubis baseline populations FILE --both METRIC' or '--faster METRIC'"
    )


def _reservations(
    verdicts: Sequence[MetricVerdict], evidence: RunEvidence, never: Sequence[str]
) -> list[str]:
    """Return what the acceptance does not cover, one phrase each."""
    found = _required(verdicts, evidence, never)
    found += _answered_for(verdicts)
    for reason, what in (
        (Reason.REPEATED, "failed at first and passed when repeated"),
        (Reason.PRUNED, "left out by the Selector"),
        (Reason.PARTLY_RUN, "a part was left out"),
    ):
        names = _names(v for v in _reasons(verdicts, reason) if v.waiver is None)
        if names:
            found.append(f"{what}: {', '.join(names)}")
    marginal = (v for v in verdicts if v.worth_a_look and v.reason in _UNUSUAL)
    unusual = sorted(marginal, key=lambda verdict: verdict.severity)
    if unusual:
        first, more = unusual[0], f" and {len(unusual) - 1} more" if len(unusual) > 1 else ""
        how = "changed within its run"
        if first.reason is Reason.BELOW_NOMINAL:
            how = nominal_text(first.nominal, first.value, first.better, first.unit)
        elif first.part:
            how = f"in its distribution: {first.part}"
        elif first.reason is not Reason.CHANGE_POINT and first.similarity is not None:
            alike = shown_similarity(first)
            how = "in its distribution"
            if alike is not None:
                how = loss_text(alike, first.better, first.unit)
        found.append(f"to be looked at: {_names([first])[0]} ({how}){more}")
    open_ones = _reasons(verdicts, Reason.NO_CRITERION, Reason.BELOW_NOMINAL)
    without = {(v.benchmark, v.metric, v.group) for v in open_ones}
    if without:
        metrics = "1 metric has" if len(without) == 1 else f"{len(without)} metrics have"
        found.append(f"{metrics} no criterion and could not be judged")
    seen = [v.text for v in _reasons(verdicts, Reason.HARDWARE) if v.outcome is Outcome.MARGINAL]
    if seen:
        found.append(f"reported by the hardware: {'; '.join(dict.fromkeys(seen))}")
    if evidence.missing[0]:
        found.append(missing_text(*evidence.missing))
    if evidence.caveats:
        found.append(f"checks switched off by option: {', '.join(evidence.caveats)}")
    # The operator raised the noise limits, so noisy values counted.
    found += [
        f"the operator allowed more noise than usual ({limits})"
        for limits in dict.fromkeys(evidence.noisy.values())
    ]
    return found


def _required(
    verdicts: Sequence[MetricVerdict], evidence: RunEvidence, never: Sequence[str]
) -> list[str]:
    """Return a phrase for what was required and what did not run; none if everything was required."""
    if not evidence.required:
        return []
    others = (v for v in _reasons(verdicts, *SKIPPED) if v.benchmark not in never)
    missed = [*(name.rpartition("/")[2] for name in never), *_names(others)]
    verb = "were" if len(evidence.required) > 1 else "was"
    only = f"only {', '.join(evidence.required)} {verb} required (--require, --anubis-require)"
    return [f"{only}; {len(missed)} did not run: {', '.join(missed)}" if missed else only]


def _answered_for(verdicts: Sequence[MetricVerdict]) -> list[str]:
    """Return one phrase for what waivers cover, with their owners, and one for what xfail marks cover."""
    waived = _reasons(verdicts, Reason.WAIVED)
    by_waiver: dict[str, list[MetricVerdict]] = {}
    for verdict in waived:
        if verdict.waiver is not None:
            by_waiver.setdefault(str(verdict.waiver), []).append(verdict)
    count = sum(map(len, by_waiver.values()))
    covered = ", ".join(f"{', '.join(_names(own))} ({who})" for who, own in by_waiver.items())
    marked = _names(v for v in waived if v.waiver is None)
    found = [f"{count} waived: {covered}"] if covered else []
    return found + ([f"{len(marked)} waived by xfail marks: {', '.join(marked)}"] if marked else [])


def _reasons(verdicts: Iterable[MetricVerdict], *reasons: Reason) -> list[MetricVerdict]:
    return [verdict for verdict in verdicts if verdict.reason in reasons]


def _names(verdicts: Iterable[MetricVerdict]) -> list[str]:
    """Return the names of what verdicts are about, without the folders of test files."""
    names = (
        " ".join(
            filter(None, (verdict.benchmark.rpartition("/")[2], verdict.metric, verdict.device))
        )
        for verdict in verdicts
    )
    return list(dict.fromkeys(names))
