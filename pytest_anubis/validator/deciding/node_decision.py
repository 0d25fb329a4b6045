"""The verdict on a whole node: acceptance is always against a baseline, and never silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Literal

from pytest_anubis.core.baseline import Baseline, Criterion, PlainCheck
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.identity.alike_devices import latest_of
from pytest_anubis.core.metric import metric_name
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.verdict import (
    NOT_JUDGED,
    SKIPPED,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Triage,
)
from pytest_anubis.core.waivers.waiving import with_waiver
from pytest_anubis.core.waivers.widened_limits import in_noise
from pytest_anubis.validator.deciding.completeness import is_death
from pytest_anubis.validator.deciding.decision_headline import headline, judged_by_fleet
from pytest_anubis.validator.deciding.ledger import (
    NOTHING_JUDGED,
    Answers,
    unanswered,
    uncovered,
    uncovered_text,
    unplanned,
)
from pytest_anubis.validator.deciding.machine_identity import STRANGE_ACT, machine_mismatch
from pytest_anubis.validator.deciding.missing_values import missing_text
from pytest_anubis.validator.deciding.requirement import (
    Requirement,
    absence,
    absence_step,
    absent_benchmarks,
    ran_anywhere,
)
from pytest_anubis.validator.deciding.waiver_ledger import waiver_lines

_NOTED = (Reason.UNDETECTABLE, Reason.REPEATED, Reason.ANSWERED)
_OPEN = (Outcome.INCONCLUSIVE, Outcome.NOT_TESTED)
_ALLOWED = Blocker(
    cause="the baseline is of one other machine, and was to be used here all the same"
)
_ALL_WAIVED = replace(
    NOTHING_JUDGED,
    cause="what could be judged is waived, and nothing else was held against the baseline",
    act="mend it, or run the other tests that the baseline was learned from",
)
_NO_BASELINE = Blocker(
    kind=Hindrance.NO_BASELINE,
    subject="no baseline",
    cause="nothing can be accepted",
    act="learn one with `anubis learn`",
)
_LEFT_OUT = Blocker(cause="benchmarks were left out at an unknown risk")


def judge_node(
    verdicts: Sequence[MetricVerdict],
    expected: Iterable[Criterion] | None = None,
    *,
    baseline: Baseline | None = None,
    node: str = "",
    evidence: RunEvidence | None = None,
    answers: Answers | None = None,
    fail_on: Literal["fail", "marginal"] = "fail",
    require_all: bool = False,
    unneeded: str = "",
    broken_off: str = "",
) -> NodeVerdict:
    """Decide about a node from the verdicts on its metrics.

    Any FAIL rejects unless a waiver covers it. Acceptance needs a baseline all of whose criteria were judged
    in this run, on every device, and whose plain checks were run: a criterion without a verdict, an
    INCONCLUSIVE one and a test that did not report block. What has no criterion or does not apply here is
    listed and does not block; what was pruned is listed too, what was waived or repeated noted, and all of it
    named in the headline. A waiver that has expired blocks where it covers anything of the run. Where the
    evidence says what is required, whole benchmarks that never ran, or were skipped where they were to run,
    are listed and named in the headline; one that ran on any device has to be complete.

    Args:
        verdicts: All metric verdicts of the node, those of the evidence too; of several runs in the order in
            which these began.
        expected: The criteria that must have been judged; those of `baseline` if None.
        baseline: What the verdicts rest on; without one nothing is accepted.
        node: Name of the node; that of the first verdict if empty.
        evidence: What else is known of the node: what stands in the way (a worker that died), what is only
            told, the devices that were to be tested, the risk that pruned benchmarks leave, what was switched
            off. Its verdicts are not looked at.
        answers: Which devices the baseline judged, by metric; None takes those that the verdicts name.
        fail_on: ``marginal`` rejects on MARGINAL as well.
        require_all: What is only listed blocks too.
        unneeded: Why nothing had to be measured, where that was decided; then a baseline is all that
            acceptance needs.
        broken_off: Why nothing can be decided, whatever was found; empty for a run that came to its end.

    Returns:
        The decision with everything that stands in the way of more.
    """
    evidence = evidence or RunEvidence()
    if evidence.waivers:
        waivers_for = evidence.waivers_for
        verdicts = [with_waiver(v, waivers_for(v.run), fail_on) for v in verdicts]
    if evidence.noisy:
        verdicts = [in_noise(v) if v.run in evidence.noisy else v for v in verdicts]
    criteria = tuple(expected) if expected is not None else baseline.criteria if baseline else ()
    name = node or (verdicts[0].node if verdicts else "")
    bad = _rejecting(verdicts, fail_on)
    checks = baseline.checks if baseline else ()
    required = Requirement(evidence.required)
    answered = (metric for metric, devices in (answers or {}).items() if devices)
    ran = ran_anywhere(verdicts, evidence.planned, answered) if required.names else set()
    needed, spared = required.divided(criteria, ran)
    due = [check for check in checks if check.test in ran or required.of_check(check)]
    rest = [check for check in checks if check not in due]
    never = {check.test for check in rest} | {criterion.benchmark for criterion in spared}
    planned = {benchmark for benchmark, _ in evidence.planned}
    absent = absent_benchmarks(verdicts, criteria, planned)
    broken, blocking, listed, noted = _blockers(
        verdicts,
        criteria,
        {check.test: check for check in checks},
        required,
        ran,
        evidence.deaths,
    )
    broken = [*evidence.blockers, *broken]
    blocking, noted = [*broken, *blocking], [*noted, *map(Blocker.of_text, evidence.notes)]
    if evidence.missing[0]:
        noted.append(Blocker(cause=f"{missing_text(*evidence.missing)}, which is allowed"))
    accounted = evidence.residual_risk is not None or evidence.budget is not None
    if not accounted and any(v.reason is Reason.PRUNED for v in verdicts):
        blocking.append(_LEFT_OUT)
    explained = len(blocking)
    ask = partial(unanswered, verdicts, devices=evidence.devices, answers=answers)
    blocking += ask(needed)
    blocking += unplanned(verdicts, due, evidence.planned)
    if required.names and criteria:
        listed += ask(spared)
        listed += unplanned(verdicts, rest, evidence.planned)
        blocking = [*required.unknown(criteria, baseline), *blocking]
    blocking += uncovered(baseline, required) if baseline is not None else []
    if baseline is None and expected is None:
        # Behind what broke: of tests that hang or die nothing should be learned.
        blocking.insert(len(broken), _NO_BASELINE)
    elif not unneeded and not any(map(judged_by_fleet, verdicts)):
        # What happened explains it, so it stands first.
        waived = any(v.reason is Reason.WAIVED for v in verdicts)
        blocking.insert(explained, _ALL_WAIVED if waived else NOTHING_JUDGED)
    strange = machine_mismatch(baseline, name, *evidence.machines)
    if strange and not evidence.other_machine:
        blocking.insert(0, Blocker(cause=strange, act=STRANGE_ACT))
    due_ones = {criterion.benchmark for criterion in needed}
    short = [benchmark for benchmark in absent if benchmark in due_ones]
    each = [one for one in blocking if one.benchmark in short]
    others = [one for one in blocking if one.benchmark not in short]
    if short and len(absent) > 1:  # one blocker counts all of them, before those about each
        others.append(absence(short, criteria, collected=any(verdict.run for verdict in verdicts)))
    elif short:
        each = [replace(one, act=absence_step(one.benchmark)) for one in each]
    blocking = [*others, *each]
    if require_all:
        blocking, listed, noted = [*blocking, *listed, *noted], [], []
    if strange and evidence.other_machine:  # somebody decided it: told, in the way of nothing
        noted.insert(0, _ALLOWED)
    expired, unused = waiver_lines(verdicts, evidence, name, answers)
    blocking, noted = [*blocking, *expired], [*noted, *unused]
    if broken_off:
        failed = dict.fromkeys(verdict.component or verdict.benchmark for verdict in bad)
        known = f"; by then {', '.join(failed)} had failed" if failed else ""
        blocking.insert(0, Blocker(subject="nothing is decided", cause=f"{broken_off}{known}"))
    blocking = list(dict.fromkeys(blocking))  # the headline counts what is listed
    decision = Decision.REJECTED if bad else Decision.UNDECIDED if blocking else Decision.ACCEPTED
    if broken_off:
        decision = Decision.UNDECIDED
    return NodeVerdict(
        node=name,
        decision=decision,
        headline=headline(
            name,
            decision,
            bad,
            [one for one in blocking if len(absent) < 2 or one.benchmark not in short],
            verdicts,
            baseline,
            evidence,
            unneeded=unneeded,
            never=sorted(never),
            uncovered=uncovered_text(baseline, blocking) if baseline is not None else "",
            devices={device for devices in (answers or {}).values() for device in devices},
        ),
        components=tuple(dict.fromkeys(verdict.component or verdict.benchmark for verdict in bad)),
        blocking=tuple(blocking),
        listed=tuple(dict.fromkeys(map(str, listed))),
        counts=counts_of(Counter(verdict.counted_as for verdict in verdicts)),
        baseline=baseline.digest
        if baseline
        else next((v.baseline for v in verdicts if v.baseline), ""),
        residual_risk=evidence.residual_risk,
        residual_interval=evidence.residual_interval,
        triage=_first([v.triage for v in bad or verdicts if v.outcome is not Outcome.PASS]),
        lowest=(bad[0].similarity or 0.0) if bad else None,
        noted=tuple(dict.fromkeys(map(str, noted))),
        absent=absent,
    )


def _first(triages: Sequence[Triage]) -> Triage:
    return min(triages, key=tuple(Triage).index, default=Triage.NONE)


def counts_of(counted: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return how many verdicts there are of each outcome that occurs, in the order of outcomes."""
    names = (*(outcome.value for outcome in Outcome), NOT_JUDGED)
    return tuple((name, counted[name]) for name in names if counted.get(name))


def _rejecting(verdicts: Sequence[MetricVerdict], fail_on: str) -> list[MetricVerdict]:
    outcomes = {Outcome.FAIL} | ({Outcome.MARGINAL} if fail_on == "marginal" else set())
    bad = [verdict for verdict in verdicts if verdict.outcome in outcomes]
    latest = set(map(id, latest_of(bad)))  # what earlier runs found of the same comes behind
    key = attrgetter("severity", "benchmark", "metric")
    return sorted(bad, key=lambda verdict: (id(verdict) not in latest, key(verdict)))


def _blockers(
    verdicts: Sequence[MetricVerdict],
    criteria: Sequence[Criterion],
    checks: Mapping[str, PlainCheck],
    required: Requirement,
    ran: Collection[str],
    deaths: Collection[tuple[str, str, str]],
) -> tuple[list[Blocker], list[Blocker], list[Blocker], list[Blocker]]:
    """Return what broke, what else is in the way, what was not judged and is not, and what should be known.

    What broke is what the hardware says of itself, then the tests that did not come to their end or could
    not do their work. `ran` are the benchmarks that ran anywhere: of these nothing is spared for not being
    required. `deaths` are the tests whose process died, which something in the way tells.
    """
    hardware: list[Blocker] = []
    broken: list[Blocker] = []
    blocking: list[Blocker] = []
    listed: list[Blocker] = []
    noted: list[Blocker] = []
    left_out = any(verdict.reason in SKIPPED for verdict in verdicts)
    wanted = {(c.benchmark, c.metric.name) for c in criteria} if left_out else set()
    wanted_benchmarks = {*checks, *(benchmark for benchmark, _ in wanted)}
    open_ones = [one for one in verdicts if one.outcome in _OPEN and one.scope != "node"]
    lacking = set(map(_what_lacks, open_ones))
    judged = {v.benchmark for v in verdicts if v.metric and v.reference.is_baseline}
    for verdict in verdicts:
        if verdict.scope == "node" and _what_lacks(verdict) in lacking:
            continue  # a node's values lack what one of its devices lacks, which stands there
        if verdict.outcome is Outcome.INCONCLUSIVE and verdict.reason is Reason.HARDWARE:
            hardware.append(_open(verdict))
        elif verdict.reason is Reason.UNREACHED or is_death(verdict, deaths):
            continue  # the cause is in the way, once for all of them
        elif verdict.broken:
            broken.append(_open(verdict))
        elif verdict.outcome is Outcome.INCONCLUSIVE:
            blocking.append(_open(verdict))
        elif verdict.outcome is Outcome.NOT_TESTED:
            needed = (verdict.benchmark, verdict.metric) in wanted or (
                not verdict.metric and verdict.benchmark in wanted_benchmarks
            )
            # What it recorded was judged: that a part of it was left out is told.
            needed &= verdict.reason is not Reason.PARTLY_RUN or verdict.benchmark not in judged
            if verdict.reason is Reason.WAIVED:  # somebody saw it fail
                noted.append(_open(verdict))
                continue
            optional = verdict.reason in (Reason.PRUNED, Reason.NO_CRITERION) or (
                verdict.reason in SKIPPED and not needed
            )
            if verdict.benchmark not in ran:
                covers = required.covers(verdict.benchmark, verdict.metric, verdict.component)
                check = checks.get(verdict.benchmark)
                due = covers or (check is not None and required.of_check(check))
                optional = optional or not due
            (listed if optional else blocking).append(_open(verdict))
        elif verdict.reason in _NOTED or (
            verdict.reason is Reason.HARDWARE and verdict.outcome is Outcome.MARGINAL
        ):
            noted.append(_open(verdict))
    return [*hardware, *broken], blocking, listed, noted


def _what_lacks(verdict: MetricVerdict) -> tuple[object, ...]:
    """Return which sample came to nothing, and how, whatever device it is of."""
    sample = (verdict.benchmark, verdict.metric, verdict.group, verdict.run)
    return (*sample, verdict.outcome, verdict.reason)


def _open(verdict: MetricVerdict) -> Blocker:
    device = "" if verdict.text.startswith(f"{verdict.device}: ") else verdict.device
    what = metric_name(verdict.benchmark, verdict.metric, device)
    text = verdict.text.removeprefix(f"{verdict.metric}: ") if verdict.metric else verdict.text
    # It was seen to fail: the word of its outcome would say that nobody looked.
    word = "WAIVED" if verdict.reason is Reason.WAIVED else verdict.counted_as
    return Blocker(
        kind=Hindrance.OPEN,
        word=word,
        subject=what,
        cause=text,
        benchmark=verdict.benchmark,
        reason=verdict.reason.value,
    )
