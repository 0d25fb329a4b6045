"""Decide about a whole node from the verdicts on its metrics.

A node is accepted only against a baseline, and only if every criterion of it was answered. The decision names
everything that prevents acceptance, and everything that it does not cover. `fleet_judging`, `run_decision`
and `validator` use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Literal, NamedTuple, get_args

from pytest_anubis.core.alike_devices import latest_of
from pytest_anubis.core.baseline import Baseline, Criterion, PlainCheck
from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.machine_marks import STRANGE_ACT, machine_mismatch
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
from pytest_anubis.core.waiving import in_noise, with_waiver
from pytest_anubis.validator.deciding.completeness import is_death
from pytest_anubis.validator.deciding.decision_headline import headline, judged_by_baseline
from pytest_anubis.validator.deciding.ledger import (
    NOTHING_JUDGED,
    Answers,
    unanswered,
    uncovered,
    uncovered_text,
    unplanned,
)
from pytest_anubis.validator.deciding.missing_values import missing_text
from pytest_anubis.validator.deciding.requirement import (
    LEARN_ONE,
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

_Place = Literal["hardware", "broken", "blocking", "listed", "noted", ""]
"""Where a decision names a verdict; empty: nowhere."""


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

    A FAIL rejects unless a waiver covers it. Acceptance needs a baseline whose criteria were all judged in
    this run, on every device, and whose plain checks were run. A criterion without a verdict, an INCONCLUSIVE
    one and a test that did not report block. Metrics without a criterion, tests that do not apply here and
    pruned tests are listed and do not block. The headline names all of these, and what was waived or
    repeated. An expired waiver blocks if it covers anything of the run. If the evidence says what is
    required, other benchmarks that ran nowhere are only listed; a benchmark that ran on any device has to be
    complete.

    Args:
        verdicts: All metric verdicts of the node, those of the evidence too; with several runs, in the order
            in which the runs began.
        expected: The criteria that must have been judged; those of `baseline` if None.
        baseline: What the verdicts rest on; without one nothing is accepted.
        node: Name of the node; that of the first verdict if empty.
        evidence: What else is known of the node. Its verdicts are not read.
        answers: Which devices the baseline judged, by metric; None takes those that the verdicts name.
        fail_on: ``marginal`` rejects on MARGINAL as well.
        require_all: What is only listed blocks too.
        unneeded: Why nothing had to be measured, if that was decided; then acceptance needs only a baseline.
        broken_off: Why nothing can be decided, whatever was found; empty for a run that came to its end.

    Returns:
        The decision with everything that prevents acceptance.
    """
    evidence = evidence or RunEvidence()
    verdicts = _effective(verdicts, evidence, fail_on)
    criteria = tuple(expected) if expected is not None else baseline.criteria if baseline else ()
    checks = baseline.checks if baseline else ()
    name = node or (verdicts[0].node if verdicts else "")
    bad = _rejecting(verdicts, fail_on)
    components = tuple(dict.fromkeys(verdict.component or verdict.benchmark for verdict in bad))
    due = _due(verdicts, criteria, checks, evidence, answers)
    lines = _lines(verdicts, criteria, checks, due, evidence, baseline.parted if baseline else ())
    mismatch = machine_mismatch(baseline, name, *evidence.machines)
    mismatched = Blocker(cause=mismatch, act=STRANGE_ACT)
    without_baseline = baseline is None and expected is None
    absent = absent_benchmarks(verdicts, criteria, {benchmark for benchmark, _ in evidence.planned})
    # A run that broke comes first: from tests that hang or die nothing should be learned.
    facts = [
        *([mismatched] if mismatch and not evidence.other_machine else ()),
        *(due.required.unknown(criteria, baseline) if criteria else ()),
        *(due.required.unlearned(baseline) if baseline is not None else ()),
        *evidence.blockers,
        *lines["hardware"],
        *lines["broken"],
        *([_NO_BASELINE] if without_baseline else ()),
        *lines["blocking"],
        *_left_out(verdicts, evidence),
        *(() if unneeded or without_baseline else _nothing_judged(verdicts)),
        *unanswered(verdicts, due.criteria, devices=evidence.devices, answers=answers),
        *unplanned(verdicts, due.checks, evidence.planned),
        *(uncovered(baseline, due.required) if baseline is not None else ()),
    ]
    required = {criterion.benchmark for criterion in due.criteria}
    short = [benchmark for benchmark in absent if benchmark in required]
    blocking = _with_absence(facts, short, absent, criteria, verdicts)
    listed = [
        *lines["listed"],
        *unanswered(verdicts, due.spared, devices=evidence.devices, answers=answers),
        *(unplanned(verdicts, due.spared_checks, evidence.planned) if criteria else ()),
    ]
    noted = [*lines["noted"], *map(Blocker.of_text, evidence.notes)]
    if evidence.missing[0]:
        noted.append(Blocker(cause=f"{missing_text(*evidence.missing)}, which is allowed"))
    if require_all:
        compared = _compared_only(verdicts) if baseline is not None else ()
        blocking, listed, noted = [*blocking, *listed, *noted, *compared], [], []
    if mismatch and evidence.other_machine:
        noted.insert(0, _ALLOWED)
    expired, unused = waiver_lines(verdicts, evidence, name, answers)
    blocking += expired
    noted += unused
    decision = Decision.REJECTED if bad else Decision.UNDECIDED if blocking else Decision.ACCEPTED
    if broken_off:
        failed = f"; by then {', '.join(components)} had failed" if components else ""
        cut_off = Blocker(subject="nothing is decided", cause=f"{broken_off}{failed}")
        decision, blocking = Decision.UNDECIDED, [cut_off, *blocking]
    blocking = list(dict.fromkeys(blocking))  # the headline counts them
    used = baseline.digest if baseline else next((v.baseline for v in verdicts if v.baseline), "")
    by_errors = sorted(evidence.modules, key=lambda one: one.errors)
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
            never=due.never,
            uncovered=uncovered_text(baseline, blocking) if baseline is not None else "",
            devices={device for devices in (answers or {}).values() for device in devices},
        ),
        components=components,
        blocking=tuple(blocking),
        listed=tuple(dict.fromkeys(map(str, listed))),
        counts=counts_of(Counter(verdict.counted_as for verdict in verdicts)),
        baseline=used,
        residual_risk=evidence.residual_risk,
        residual_interval=evidence.residual_interval,
        triage=_first_triage([v.triage for v in bad or verdicts if v.outcome is not Outcome.PASS]),
        lowest=(bad[0].similarity or 0.0) if bad else None,
        noted=tuple(dict.fromkeys(map(str, noted))),
        absent=absent,
        modules=tuple({one.module: one for one in by_errors}.values()),  # each once, with its most
    )


def _effective(
    verdicts: Sequence[MetricVerdict], evidence: RunEvidence, fail_on: Literal["fail", "marginal"]
) -> Sequence[MetricVerdict]:
    """Return the verdicts as they count with the waivers and the allowed noise of their runs."""
    if evidence.waivers:
        waivers_for = evidence.waivers_for
        verdicts = [with_waiver(v, waivers_for(v.run), fail_on) for v in verdicts]
    if evidence.noisy:
        verdicts = [in_noise(v) if v.run in evidence.noisy else v for v in verdicts]
    return verdicts


class _Due(NamedTuple):
    """What of a baseline a node must have answered, and what it may leave out."""

    required: Requirement
    ran: Collection[str]  # benchmarks that ran on any device, where something is required by name
    criteria: Sequence[Criterion]
    spared: Sequence[Criterion]
    checks: Sequence[PlainCheck]
    spared_checks: Sequence[PlainCheck]

    @property
    def never(self) -> list[str]:
        """The benchmarks and checks that did not run and are not required, sorted."""
        spared = {criterion.benchmark for criterion in self.spared}
        return sorted(spared.union(check.test for check in self.spared_checks))


def _due(
    verdicts: Sequence[MetricVerdict],
    criteria: Sequence[Criterion],
    checks: Sequence[PlainCheck],
    evidence: RunEvidence,
    answers: Answers | None,
) -> _Due:
    required = Requirement(evidence.required)
    answered = (metric for metric, devices in (answers or {}).items() if devices)
    ran = ran_anywhere(verdicts, evidence.planned, answered) if required.names else set()
    needed, spared = required.divided(criteria, ran)
    due = [check for check in checks if check.test in ran or required.of_check(check)]
    return _Due(required, ran, needed, spared, due, [one for one in checks if one not in due])


def _compared_only(verdicts: Sequence[MetricVerdict]) -> list[Blocker]:
    """Return a line for each metric that was only compared with the node's past or its other devices.

    A node that is slow as a whole passes both.
    """
    found = (
        Blocker(
            kind=Hindrance.OPEN,
            word=NOT_JUDGED,
            subject=metric_name(verdict.benchmark, verdict.metric),
            cause="the baseline has no criterion for it",
            act=LEARN_ONE,
            benchmark=verdict.benchmark,
            reason=Reason.NO_CRITERION.value,
        )
        for verdict in verdicts
        if verdict.compared_only
    )
    return list(dict.fromkeys(found))


def _left_out(verdicts: Sequence[MetricVerdict], evidence: RunEvidence) -> list[Blocker]:
    """Return the blocker for pruned benchmarks for which neither a risk nor a budget is known."""
    accounted = evidence.residual_risk is not None or evidence.budget is not None
    pruned = any(verdict.reason is Reason.PRUNED for verdict in verdicts)
    return [_LEFT_OUT] if pruned and not accounted else []


def _nothing_judged(verdicts: Sequence[MetricVerdict]) -> list[Blocker]:
    """Return the blocker for a run of which no metric was held against the baseline, and nothing failed."""
    if any(one.outcome is Outcome.FAIL or judged_by_baseline(one) for one in verdicts):
        return []
    waived = any(verdict.reason is Reason.WAIVED for verdict in verdicts)
    return [_ALL_WAIVED if waived else NOTHING_JUDGED]


def _with_absence(
    blocking: Sequence[Blocker],
    short: Collection[str],
    absent: Collection[str],
    criteria: Sequence[Criterion],
    verdicts: Sequence[MetricVerdict],
) -> list[Blocker]:
    """Return the blockers, last those about benchmarks that never ran, after one that counts these.

    `short` are the required ones of the `absent` benchmarks.
    """
    each = [one for one in blocking if one.benchmark in short]
    others = [one for one in blocking if one.benchmark not in short]
    if short and len(absent) > 1:
        others.append(absence(short, criteria, collected=any(verdict.run for verdict in verdicts)))
    elif short:
        each = [replace(one, act=absence_step(one.benchmark)) for one in each]
    return [*others, *each]


def _first_triage(triages: Sequence[Triage]) -> Triage:
    return min(triages, key=tuple(Triage).index, default=Triage.NONE)


def counts_of(counted: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return how many verdicts there are of each outcome that occurs, in the order of outcomes."""
    names = (*(outcome.value for outcome in Outcome), NOT_JUDGED)
    return tuple((name, counted[name]) for name in names if counted.get(name))


def _rejecting(verdicts: Sequence[MetricVerdict], fail_on: str) -> list[MetricVerdict]:
    """Return the verdicts that reject, worst first; those that a later run repeats come last."""
    outcomes = {Outcome.FAIL} | ({Outcome.MARGINAL} if fail_on == "marginal" else set())
    bad = [verdict for verdict in verdicts if verdict.outcome in outcomes]
    latest = set(map(id, latest_of(bad)))
    key = attrgetter("severity", "benchmark", "metric")
    return sorted(bad, key=lambda verdict: (id(verdict) not in latest, key(verdict)))


def _lines(
    verdicts: Sequence[MetricVerdict],
    criteria: Sequence[Criterion],
    checks: Sequence[PlainCheck],
    due: _Due,
    evidence: RunEvidence,
    parted: Collection[str],
) -> dict[_Place, list[Blocker]]:
    """Return the lines about verdicts by the place where the decision names them."""
    open_ones = [one for one in verdicts if one.outcome in _OPEN and one.scope != "node"]
    skipped = any(verdict.reason in SKIPPED for verdict in verdicts)
    sorting = _Sorting(
        due=due,
        checks={check.test: check for check in checks},
        deaths=evidence.deaths,
        wanted={(c.benchmark, c.metric.name) for c in criteria} if skipped else set(),
        lacking=set(map(_lacking_sample, open_ones)),
        parted=parted,
    )
    lines: dict[_Place, list[Blocker]] = {place: [] for place in get_args(_Place)}
    for verdict in verdicts:
        if place := sorting.place_of(verdict):
            lines[place].append(_line_about(verdict))
    return lines


class _Sorting(NamedTuple):
    """Decides where each verdict of a node is named."""

    due: _Due
    checks: Mapping[str, PlainCheck]
    deaths: Collection[tuple[str, str, str]]  # tests whose process died, each named by a blocker
    wanted: Collection[tuple[str, str]]  # benchmark and metric of all criteria
    lacking: Collection[tuple[object, ...]]  # samples of devices that came to nothing
    parted: Collection[str]  # benchmarks of which learning left out a part, too

    def place_of(self, verdict: MetricVerdict) -> _Place:
        """Return where a verdict is named."""
        outcome, reason = verdict.outcome, verdict.reason
        if verdict.scope == "node" and _lacking_sample(verdict) in self.lacking:
            return ""  # the line of a device says why the node's pooled values are missing
        if outcome is Outcome.INCONCLUSIVE and reason is Reason.HARDWARE:
            return "hardware"
        if reason is Reason.UNREACHED or is_death(verdict, self.deaths):
            return ""  # one blocker names the cause for all of them
        if verdict.broken:
            return "broken"
        if outcome is Outcome.INCONCLUSIVE:
            return "blocking"
        if outcome is Outcome.NOT_TESTED:
            return self._place_of_untested(verdict)
        seen = reason is Reason.HARDWARE and outcome is Outcome.MARGINAL
        return "noted" if seen or reason in _NOTED else ""

    def _place_of_untested(self, verdict: MetricVerdict) -> _Place:
        if verdict.reason is Reason.WAIVED:
            return "noted"
        if verdict.reason in (Reason.PRUNED, Reason.NO_CRITERION):
            return "listed"
        if verdict.reason in SKIPPED and not self._is_wanted(verdict):
            return "listed"
        return (
            "blocking" if verdict.benchmark in self.due.ran or self._is_due(verdict) else "listed"
        )

    def _is_wanted(self, verdict: MetricVerdict) -> bool:
        """Return whether the baseline expects a skipped metric, or any metric of a skipped test."""
        if verdict.reason is Reason.PARTLY_RUN and verdict.benchmark in self.parted:
            return False
        if verdict.metric:
            return (verdict.benchmark, verdict.metric) in self.wanted
        return verdict.benchmark in self.checks or verdict.benchmark in {b for b, _ in self.wanted}

    def _is_due(self, verdict: MetricVerdict) -> bool:
        required, check = self.due.required, self.checks.get(verdict.benchmark)
        covers = required.covers(verdict.benchmark, verdict.metric, verdict.component)
        return covers or (check is not None and required.of_check(check))


def _lacking_sample(verdict: MetricVerdict) -> tuple[object, ...]:
    """Return which sample came to nothing, and how, whatever device it is of."""
    sample = (verdict.benchmark, verdict.metric, verdict.group, verdict.run)
    return (*sample, verdict.outcome, verdict.reason)


def _line_about(verdict: MetricVerdict) -> Blocker:
    """Return the line about a verdict."""
    device = "" if verdict.text.startswith(f"{verdict.device}: ") else verdict.device
    return Blocker(
        kind=Hindrance.OPEN,
        # A waived test was seen to fail; NOT_TESTED would say that it never ran.
        word="WAIVED" if verdict.reason is Reason.WAIVED else verdict.shown_as,
        subject=metric_name(verdict.benchmark, verdict.metric, device),
        cause=verdict.text.removeprefix(f"{verdict.metric}: ") if verdict.metric else verdict.text,
        benchmark=verdict.benchmark,
        reason=verdict.reason.value,
    )
