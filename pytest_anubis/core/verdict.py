"""Verdicts on metrics and nodes, with reasons; `validator` makes most, `session` some (UNSET, PRUNED)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.field_types import AnyFloat, Compact, Rare, Share, compact
from pytest_anubis.core.loss_shares import StepShares
from pytest_anubis.core.metric import relative_loss
from pytest_anubis.core.node_map import ModuleErrors, SharedPart
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.core.onset import Onset


class Outcome(StrEnum):
    """One of the five verdicts. Only PASS means measured, judged and found normal."""

    PASS = "PASS"
    MARGINAL = "MARGINAL"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_TESTED = "NOT_TESTED"


class Reason(StrEnum):
    """Machine-readable reason of a verdict; `MetricVerdict.text` is for people."""

    WITHIN = "within"  # inside both thresholds
    UNDETECTABLE = "undetectable"  # beyond the practical threshold, inside the healthy spread
    BELOW_NOMINAL = "below-nominal"  # far below what the hardware could deliver by specification
    UNUSUAL = "unusual"  # outside the healthy spread, not yet costly
    BEYOND = "beyond"  # beyond both thresholds
    TOO_GOOD = "too-good"  # better than anything learned by more than its spread explains
    CHANGE_POINT = "change-point"  # passes as a whole, but changed within the run
    CLASS_SHIFT = "class-shift"  # most nodes of the class changed together: the baseline is old
    TEST_FAILED = "test-failed"  # the benchmark's own assertion or its return code failed
    NO_BASELINE = "no-baseline"  # this hardware class has no baseline
    NO_CRITERION = "no-criterion"  # the baseline has none for this metric
    DISTURBED = "disturbed"  # the machine was not quiet during the measurement
    TOO_FEW = "too-few"  # fewer values than the criterion needs
    INVALID = "invalid"  # NaN, infinity, negative
    WRONG_UNIT = "wrong-unit"  # unit or direction differs from the baseline's
    OTHER_VERSION = "other-version"  # the benchmark's version differs from the baseline's
    UNSET = "unset"  # declared but never recorded
    NOT_RUN = "not-run"  # a tool or device is missing; the test says which
    PARTLY_RUN = "partly-run"  # the test ran, and a part of it was skipped
    UNREACHED = "unreached"  # never began, because of a blocker
    NOT_REPORTED = "not-reported"  # planned, but crashed, hung or interrupted before it reported
    ENVIRONMENT = "environment"  # a driver, library, container or setting prevented it
    REPEATED = "repeated"  # an attempt failed, and the test was repeated
    HARDWARE = "hardware"  # the hardware itself reported it: a counter, an event of the driver
    WAIVED = "waived"  # failed as the test's own xfail mark expects, or covered by a waiver
    PRUNED = "pruned"  # left out by the Selector, with a stated residual risk
    BROKEN_OFF = "broken-off"  # failed in a run that was broken off, and not judged again since
    GONE = "gone"  # a device of the class gave no value at all
    ANSWERED = "answered"  # a later run passed it, or has the missing value


SKIPPED = (Reason.NOT_RUN, Reason.PARTLY_RUN)
"""Reasons of tests that skipped themselves, or a part."""
_BROKEN = (Reason.NOT_REPORTED, Reason.ENVIRONMENT, Reason.INVALID)
"""Reasons of tests that broke: they say nothing about the node, and must be repaired first."""

MIN_SEARCHED = 24
"""Fewest values in which a change within a run is searched for (`validator.changes.segments` says why)."""

Severity = tuple[int, int, bool, float, float]
"""Sort key of verdicts, see `MetricVerdict.severity`."""


class Reference(StrEnum):
    """The other side of a comparison, strongest first. Only a baseline can accept a node.

    MACHINE is a baseline of this machine alone, which cannot refute a fleet's; MODEL is a specification.
    """

    FLEET = "fleet"
    MACHINE = "machine"
    PEERS = "peers"
    SELF = "self"
    MODEL = "model"
    NONE = "none"

    @property
    def is_baseline(self) -> bool:
        """Whether a baseline decided."""
        return self in (Reference.FLEET, Reference.MACHINE)

    @property
    def only_compares(self) -> bool:
        """Whether it only compares: with peers, the own past or a specification, none of which accepts."""
        return self in (Reference.PEERS, Reference.SELF, Reference.MODEL)


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A rule by which failures reject nothing until a day; they never count as PASS.

    An exact result, a count of faults, a report of the hardware and a test's own failure are wrong and not
    slow: a waiver covers them only if `metric` is their name and no pattern (`waiving.needs_its_name`).
    """

    owner: str  # the person responsible
    reason: str  # why it may fail
    expires: str  # its last day, ISO 8601, UTC
    test: str = ""  # name of the test or benchmark, or a pattern with ``*`` and ``?``; empty: any
    metric: str = ""  # the same for the metric
    device: str = ""  # the same for the device
    component: str = ""  # the same for the component
    node: str = ""  # the same for the node
    # Whether its last day is over: when the run began, or now for collected runs
    expired: bool = False

    def __str__(self) -> str:
        return f"{self.owner} until {self.expires}: {self.reason}"

    @property
    def scope(self) -> str:
        """Its scope in words."""
        names = ("test", "metric", "device", "component", "node")
        return ", ".join(f"{name} {text}" for name in names if (text := getattr(self, name)))


class Trouble(StrEnum):
    """Kind of trouble, by which people count verdicts; it decides nothing."""

    SLOW = "slow"  # surely worse than normal
    FAILED = "failed"  # wrong, broken, or reported by the hardware itself
    SINGLE = "single value"  # beyond the limit by one value: to be measured again first
    NOISY = "noisy"  # beyond the limit while noise was allowed: to be measured again first
    BORDERLINE = "borderline"  # to be measured again or looked at first
    UNCLEAR = "unclear"  # measured, but could not be judged
    MISSING = "missing"  # no value
    NONE = ""

    def counted(self, number: int) -> str:
        """Return a count of the kind in words: ``2 slow``, ``8 of a single value``."""
        return f"{number} of a single value" if self is Trouble.SINGLE else f"{number} {self.value}"


class Triage(StrEnum):
    """The action that a verdict asks for, in the order in which people read them; it decides nothing."""

    REJECT = "reject"  # surely beyond the limit
    RETEST = "retest"  # measure again first
    SHARED = "shared"  # a node that only a shared cause rejects: find the cause first
    INVESTIGATE = "investigate"  # look at it: unusual, changed, moved with its class
    NONE = ""


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class MetricVerdict:
    """The verdict on one metric of one unit under test, with everything that explains it.

    Similarities are one-sided (only where the unit is worse counts), in [0, 1].

    Attributes:
        outcome: One of the five verdicts.
        reason: Why, for machines.
        text: The reason in one sentence for people.
        benchmark: Benchmark id.
        metric: Metric name.
        unit: Unit of all values here.
        better: The metric's direction.
        component: The part of the node that is blamed when the verdict is bad.
        node: Name of the node.
        test: Node id of the test that was judged; empty for a verdict on the whole run.
        device: Device within the node.
        group: Label of the comparable units; empty if there is none.
        scope: ``unit`` (the device on its own) or ``node`` (all of the node's values pooled).
        count: How many values were judged.
        value: Median of the values, None when there are none.
        expected: Median of the criterion's centre.
        limit: The median at which a uniformly worse unit would just cross the threshold, in its unit.
        similarity: One-sided similarity to the criterion.
        threshold: The similarity below which this outcome changes (the one that decided).
        practical: The practical threshold alpha.
        learned: The learned threshold, None when only alpha applies.
        certainty: Probability that the loss is beyond the limit that rejects; None if far from it or unknown.
        retest: Why a failure should be measured again before anything is repaired; empty if it is sure.
        percentile: Share of the healthy fleet, in percent, whose median is no better than this value.
        reference: What the sample was compared with.
        baseline: Digest-based id of the baseline, empty if none.
        population: From how many nodes and units the criterion was learned, e.g. ``312 nodes``.
        disturbance: What disturbed the machine during the measurement, one phrase each.
        evidence: Telemetry and change points found in the measurement, one phrase each.
        action: Next step when the metric is bad.
        waiver: The waiver of its failure, which may have expired; None without one.
        part: Which part of the values is far off, in words; empty if all of them are.
        run: The collected run that it is about, whose waivers apply to it; empty for the current run.
        run_words: That run with its time, which ends `text` if its node has several; else empty.
        recovered: It failed, and a later run passed.
        onset: Where a change within the run begins, and what the sensors showed then; None if unknown.
        shares: How much of its loss each part of a measured time causes; None without parts or loss.
        nominal: What the hardware could deliver at best; None if unknown.
    """

    outcome: Outcome
    reason: Reason
    text: str
    benchmark: str
    metric: str
    unit: str = ""
    better: str = ""
    component: str = ""
    node: str = ""
    device: str = ""
    group: str = ""
    scope: str = "unit"
    count: int = 0
    value: AnyFloat | None = None
    expected: AnyFloat | None = None
    limit: AnyFloat | None = None
    similarity: AnyFloat | None = None
    threshold: AnyFloat | None = None
    practical: AnyFloat | None = None
    learned: AnyFloat | None = None
    certainty: Share | None = None
    retest: str = ""
    percentile: AnyFloat | None = None
    reference: Reference = Reference.NONE
    baseline: str = ""
    population: str = ""
    disturbance: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    action: str = ""
    test: str = ""
    waiver: Waiver | None = None
    part: str = ""
    run: str = ""
    run_words: str = ""
    recovered: Annotated[bool, Rare] = False
    onset: Annotated[Onset | None, Rare] = None
    shares: Annotated[StepShares | None, Rare] = None
    nominal: Annotated[NominalRate | None, Rare] = None

    @property
    def loss(self) -> float | None:
        """Loss relative to what is normal: .12 is 12 % slower, 29 thirty times as long (`relative_loss`)."""
        return None if self.similarity is None else relative_loss(self.similarity, self.better)

    @property
    def attained(self) -> float | None:
        """Share of the nominal rate that the value reaches; None if unknown."""
        return self.nominal.attained(self.value, self.better) if self.nominal else None

    @property
    def compared_only(self) -> bool:
        """Whether it is PASS or MARGINAL by a comparison (`Reference.only_compares`), not by a baseline."""
        fine = self.outcome in (Outcome.PASS, Outcome.MARGINAL)
        return fine and self.reference.only_compares

    @property
    def counted_as(self) -> str:
        """The outcome in counts: NOT_JUDGED for a PASS that no baseline gave."""
        passed = self.compared_only and self.outcome is Outcome.PASS
        return NOT_JUDGED if passed else self.outcome.value

    @property
    def shown_as(self) -> str:
        """Its word in tables: `counted_as`, or ANSWERED if a later run passed."""
        return self.reason.name if self.reason is Reason.ANSWERED else self.counted_as

    @property
    def broken(self) -> bool:
        """Whether a whole test hung, died, is written wrongly or could not work."""
        whole = self.outcome is Outcome.INCONCLUSIVE and not self.metric
        return whole and self.reason in _BROKEN

    @property
    def worth_a_look(self) -> bool:
        """Whether it rejects nothing but is unusual, or a part of its values is far off."""
        part = self.reason is Reason.UNDETECTABLE and bool(self.part)
        return part or self.outcome is Outcome.MARGINAL

    @property
    def too_short(self) -> bool:
        """Whether it has too few values to search for a change within the run."""
        of_time = self.scope == "unit" and self.better in ("higher", "lower")
        judged = self.outcome in (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL)
        return judged and of_time and 0 < self.count < MIN_SEARCHED

    @property
    def triage(self) -> Triage:
        """The action that it asks for."""
        if self.outcome is Outcome.FAIL:
            return Triage.RETEST if self.retest else Triage.REJECT
        if self.outcome is Outcome.MARGINAL:
            return Triage.INVESTIGATE
        undecided = self.outcome is Outcome.INCONCLUSIVE
        return _OF_REASON.get(self.reason, Triage.NONE) if undecided else Triage.NONE

    @property
    def trouble(self) -> Trouble:
        """Its kind of trouble, also of a verdict that is listed and does not block."""
        if self.outcome is Outcome.FAIL and not self.retest:
            measured = bool(self.similarity) and self.better != "equal"  # 0 is wrong, not slow
            return Trouble.SLOW if measured else Trouble.FAILED
        if self.outcome is Outcome.FAIL and self.retest in UNSURE:
            return UNSURE[self.retest]
        return _TROUBLES.get(self.outcome, Trouble.NONE)

    @property
    def severity(self) -> Severity:
        """Sort key that puts the verdict to act on first: by triage, outcome, and size of the loss."""
        triage = self.triage
        return (
            _TRIAGE_ORDER.index(triage),
            _OUTCOME_ORDER.index(self.outcome),
            self.reason not in (Reason.HARDWARE, Reason.GONE),  # they explain failed tests
            (self.similarity or 0.0) if triage else 0.0,
            -(self.certainty or 0.0) if triage else 0.0,
        )


RETEST = "RETEST"
"""Word for a rejected node that should be measured again, or shares its cause with many others."""

LOOK = "LOOK AT"
"""Word for an accepted node that is worth a look."""

ALLOWED_MISSING = 0.02
"""Share of a node's values that a table may lack; a fault in one value is missed with that chance."""

NOT_JUDGED = "NOT_JUDGED"
"""Word in place of an outcome for values that no baseline judges."""

SINGLE_VALUE = "a single value"
"""`MetricVerdict.retest` of a failure with one value only."""

NOISY = "measured while the machine was let be noisy"
"""`MetricVerdict.retest` of a failure under widened limits of noise."""

UNSURE = {SINGLE_VALUE: Trouble.SINGLE, NOISY: Trouble.NOISY}
"""`MetricVerdict.retest` of failures that are unsure, but not for a close call -> their kind of trouble."""

HOST = ("", "cpu", "node")
"""Names of the host or the whole node as a device; the component says which part is meant."""

LEAST_SEVERE: Severity = (len(Triage), 0, False, 0.0, 0.0)  # of a metric without a verdict
_OF_REASON = {
    Reason.DISTURBED: Triage.RETEST,
    Reason.BROKEN_OFF: Triage.RETEST,
    Reason.TOO_FEW: Triage.RETEST,
    Reason.CLASS_SHIFT: Triage.INVESTIGATE,
    Reason.INVALID: Triage.INVESTIGATE,
    Reason.TOO_GOOD: Triage.INVESTIGATE,
    Reason.HARDWARE: Triage.INVESTIGATE,
}
"""Triage of INCONCLUSIVE verdicts; for other reasons the blocker says what to do."""
_TRIAGE_ORDER = tuple(Triage)
_TROUBLES = {
    Outcome.FAIL: Trouble.BORDERLINE,  # unless it is sure
    Outcome.MARGINAL: Trouble.BORDERLINE,
    Outcome.INCONCLUSIVE: Trouble.UNCLEAR,
    Outcome.NOT_TESTED: Trouble.MISSING,
}
_DECISION_ORDER = ("REJECTED", "UNDECIDED", "ACCEPTED")
_OUTCOME_ORDER = ("FAIL", "MARGINAL", "INCONCLUSIVE", "NOT_TESTED", "PASS")


class Decision(StrEnum):
    """The decision about a node, which sets the exit status."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    UNDECIDED = "UNDECIDED"

    @property
    def exit_code(self) -> int:
        """0 accepted, 1 rejected, 20 neither."""
        return {"ACCEPTED": 0, "REJECTED": 1, "UNDECIDED": 20}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """The decision about a node, with the blockers of its acceptance.

    Attributes:
        node: Name of the node.
        decision: Accepted, rejected or neither.
        headline: One sentence: the decision, the failed component, the next step.
        components: Components with at least one failed metric, worst first.
        blocking: The blockers, the most important first.
        listed: A line for each benchmark that was not judged and does not block.
        counts: Outcome name -> how many metric verdicts (`MetricVerdict.counted_as`).
        baseline: Id of the baseline that decided, empty if none.
        residual_risk, residual_interval: Probability of an incident that pruned benchmarks leave, and its
            95 % interval; None if nothing was pruned, or unknown.
        triage: The action for the worst rejecting verdict, or else for the worst MARGINAL one.
        lowest: Similarity of the worst rejecting verdict, 0 if a test failed otherwise; None if none rejects.
        noted: A line for each observation that does not block, such as a waiver that covers nothing.
        absent: Benchmarks of the baseline that never ran on it for no known reason.
        gone: Devices of its class that gave no value at all.
        shared, modules: Parts that its slow devices share, memory modules with errors; they decide nothing.
    """

    node: str
    decision: Decision
    headline: str
    components: tuple[str, ...] = ()
    blocking: tuple[Blocker, ...] = ()
    listed: tuple[str, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    baseline: str = ""
    residual_risk: float | None = None
    residual_interval: Annotated[tuple[Share, Share] | None, Compact] = None
    triage: Triage = Triage.NONE
    lowest: Share | None = None
    noted: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    gone: Annotated[tuple[str, ...], Rare] = ()
    shared: Annotated[tuple[SharedPart, ...], Rare] = ()
    modules: Annotated[tuple[ModuleErrors, ...], Rare] = ()

    @property
    def word(self) -> str:
        """The decision's word: RETEST for a rejected node that should not be taken out of service yet."""
        waits = self.triage in (Triage.RETEST, Triage.SHARED)
        return RETEST if self.decision is Decision.REJECTED and waits else self.decision.value

    @property
    def hindrances(self) -> tuple[Blocker, ...]:
        """The blockers; several absent benchmarks have one blocker, which counts them."""
        if len(self.absent) < 2:
            return self.blocking
        return tuple(one for one in self.blocking if one.benchmark not in self.absent)

    @property
    def severity(self) -> tuple[int, int, bool, float, str]:
        """Sort key that puts the node to act on first: by decision, triage, missing devices, and loss."""
        return (
            _DECISION_ORDER.index(self.decision),
            _TRIAGE_ORDER.index(self.triage),
            not self.gone,
            1.0 if self.lowest is None else self.lowest,
            self.node,
        )


def word_of(verdict: NodeVerdict, metrics: Iterable[MetricVerdict]) -> str:
    """Return a node's word from its decision and metric verdicts: a decision, `RETEST` or `LOOK`."""
    look = verdict.decision is Decision.ACCEPTED and any(one.worth_a_look for one in metrics)
    return LOOK if look else verdict.word
