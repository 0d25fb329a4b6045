"""Verdicts: what was concluded about a metric, a node, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.field_types import AnyFloat, Compact, Rare, Share, compact
from pytest_anubis.core.measurement import HOST_SLOWER
from pytest_anubis.core.metric import relative_loss


class Outcome(StrEnum):
    """The five verdicts. Only PASS says that something was measured, judged and found normal."""

    PASS = "PASS"
    MARGINAL = "MARGINAL"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_TESTED = "NOT_TESTED"


class Reason(StrEnum):
    """Machine-readable reason of a verdict; the words for people stand beside it."""

    WITHIN = "within"  # inside both thresholds
    UNDETECTABLE = "undetectable"  # beyond the practical threshold, inside the healthy spread
    UNUSUAL = "unusual"  # outside the healthy spread, not yet costly
    BEYOND = "beyond"  # beyond both thresholds
    TOO_GOOD = "too-good"  # better than anything learned by more than its spread explains
    CHANGE_POINT = "change-point"  # passes as a whole, but changed within the run
    CLASS_SHIFT = (
        "class-shift"  # most nodes of the class moved together: the baseline is out of date
    )
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
    UNREACHED = "unreached"  # never began, for what stands in the way by itself
    NOT_REPORTED = "not-reported"  # planned, but crashed, hung or interrupted before it reported
    ENVIRONMENT = "environment"  # a driver, library, container or setting stood in the way
    REPEATED = "repeated"  # an attempt failed, and the test was repeated
    HARDWARE = "hardware"  # the hardware itself reported it: a counter, an event of the driver
    WAIVED = "waived"  # failed as the test's own xfail mark expects, or somebody answers for it
    PRUNED = "pruned"  # left out by the Selector, with a stated residual risk
    BROKEN_OFF = "broken-off"  # failed in a run that was broken off, and was not judged again since
    GONE = "gone"  # a device that the class has gave no value at all
    ANSWERED = "answered"  # a later run of the same passed it, or has the value that was missing


SKIPPED = (Reason.NOT_RUN, Reason.PARTLY_RUN)
"""Reasons of what a test itself left out."""

_BROKEN = (Reason.NOT_REPORTED, Reason.ENVIRONMENT, Reason.INVALID)
"""Reasons why a test without a result says nothing about the node, and has to be looked at first."""

SEARCHED = 24
"""Fewest values in which a change within a run is searched for (`validator.changes.segments` says why)."""
MOSTLY, SEVERAL = 0.5, 4
"""Where other load disturbed this part of a run's speeds, so many at least, it is the first thing to say."""

Severity = tuple[int, int, bool, float, float]
"""What verdicts are sorted by, see `MetricVerdict.severity`."""


class Reference(StrEnum):
    """What a sample was compared with, strongest first. Only a baseline can accept a node.

    MACHINE is a baseline of this machine alone: it clears nothing that one of a fleet found.
    """

    FLEET = "fleet"
    MACHINE = "machine"
    PEERS = "peers"
    SELF = "self"
    NONE = "none"

    @property
    def is_baseline(self) -> bool:
        """Whether a baseline decided."""
        return self in (Reference.FLEET, Reference.MACHINE)


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """Somebody answers for failures until a day: they reject nothing, and are never a PASS.

    What is wrong rather than slow must be named: an exact result, a count of faults, a report of the hardware
    and the failure of a test itself are covered only where `metric` is their name, no pattern
    (`waivers.waiving`).

    Attributes:
        owner: Who answers for it.
        reason: Why it may fail.
        expires: Its last day, ISO 8601, UTC.
        test: Name of the test or benchmark, or a pattern with ``*`` and ``?``; empty: any. So are the others.
        metric: Of the metric.
        device: Of the device.
        component: Of the component.
        node: Of the node.
        expired: Its last day was over when the run began, or now, for runs that are judged by a file.
    """

    owner: str
    reason: str
    expires: str
    test: str = ""
    metric: str = ""
    device: str = ""
    component: str = ""
    node: str = ""
    expired: bool = False

    def __str__(self) -> str:
        return f"{self.owner} until {self.expires}: {self.reason}"

    @property
    def scope(self) -> str:
        """What it covers, in words."""
        names = ("test", "metric", "device", "component", "node")
        return ", ".join(f"{name} {text}" for name in names if (text := getattr(self, name)))


class Trouble(StrEnum):
    """Which kind of trouble a verdict tells of: what people count, never the exit code."""

    SLOW = "slow"  # worse than normal, for sure
    FAILED = "failed"  # wrong, broken, or reported by the hardware itself
    SINGLE = "single value"  # beyond the limit, and one value tells so: to be measured again first
    NOISY = "noisy"  # beyond the limit, and noise was allowed: to be measured again first
    BORDERLINE = "borderline"  # to be measured again or looked at first
    UNCLEAR = "unclear"  # measured, and could not be judged
    MISSING = "missing"  # no answer at all
    NONE = ""  # none

    def counted(self, number: int) -> str:
        """Return so many of the kind in words: ``2 slow``, ``8 of a single value``."""
        return f"{number} of a single value" if self is Trouble.SINGLE else f"{number} {self.value}"


class Triage(StrEnum):
    """What to do about a verdict: the order in which people read them, never the exit code."""

    REJECT = "reject"  # beyond the limit for sure
    RETEST = "retest"  # to be measured again first
    SHARED = (
        "shared"  # of a node: rejected for nothing but what many share; their cause is found first
    )
    INVESTIGATE = "investigate"  # to be looked at: unusual, changed, moved with its class
    NONE = ""  # nothing


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class MetricVerdict:
    """The verdict on one metric of one unit under test, with everything that explains it.

    Similarities are one-sided (only where the unit is worse counts), in [0, 1].

    Attributes:
        outcome: One of the five verdicts.
        reason: Why, for machines.
        text: Why, in one sentence for people.
        benchmark: Benchmark id.
        metric: Metric name.
        unit: Unit of all values here.
        better: The metric's direction.
        component: The part of the node that is blamed when the verdict is bad.
        node: Name of the node.
        test: Node id of the test that was judged; empty when the whole run was looked at.
        device: Device within the node.
        group: Label of the units that it was compared with; empty if there is none.
        scope: ``unit`` (the device on its own) or ``node`` (all of the node's values pooled).
        count: How many values were judged.
        value: Median of the values, None when there are none.
        expected: Median of the criterion's centre.
        limit: The median at which a uniformly worse unit would just cross the threshold, in its unit.
        similarity: One-sided similarity to the criterion.
        threshold: The similarity below which this outcome changes (the one that decided).
        practical: The practical threshold alpha.
        learned: The learned threshold, None when only alpha applies.
        certainty: Probability that the loss is beyond the limit that rejects, from the scatter of the values,
            their number and the spread of healthy units; None where it is nowhere near, or nothing tells.
        retest: Why a failure should be measured again before anything is repaired; empty if it is sure.
        percentile: Share of the healthy fleet, in percent, whose median is no better than this value.
        reference: Compared with fleet, peers or self.
        baseline: Digest-based id of the baseline, empty if none.
        population: From how many nodes and units the criterion was learned, e.g. ``312 nodes``.
        disturbance: What disturbed the machine during the measurement, in words; empty if nothing.
        evidence: Telemetry and change points found in the measurement, in words.
        action: Next step when the metric is bad.
        waiver: Who answers for its failure, or did until it expired; None if nobody does.
        part: Which part of the values is far off, in words, where only a part is; else empty.
        run: The collected run that it is about, whose waivers it was held against; empty while a run goes on.
        run_words: That run with its time, as `text` ends with it, where its node has several; else empty.
        recovered: It failed, and a later run has answered that.
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

    @property
    def loss(self) -> float | None:
        """Loss relative to what is normal: .12 is 12 % slower, 29 thirty times as long (`relative_loss`)."""
        return None if self.similarity is None else relative_loss(self.similarity, self.better)

    @property
    def compared_only(self) -> bool:
        """Whether nothing worse than MARGINAL was found, and that beside what is no norm."""
        fine = self.outcome in (Outcome.PASS, Outcome.MARGINAL)
        return fine and self.reference in (Reference.PEERS, Reference.SELF)

    @property
    def counted_as(self) -> str:
        """What it counts as: its outcome; NOT_JUDGED where it passed beside what is no norm."""
        passed = self.compared_only and self.outcome is Outcome.PASS
        return NOT_JUDGED if passed else self.outcome.value

    @property
    def shown_as(self) -> str:
        """Its word in tables: as it counts, but what a later run answered is no plain PASS."""
        return self.reason.name if self.reason is Reason.ANSWERED else self.counted_as

    @property
    def broken(self) -> bool:
        """Whether a test as a whole hung, died, is written wrongly or was kept from its work."""
        whole = self.outcome is Outcome.INCONCLUSIVE and not self.metric
        return whole and self.reason in _BROKEN

    @property
    def worth_a_look(self) -> bool:
        """Whether it rejects nothing and is to be looked at: unusual, or a part of its values is far off."""
        return self.outcome is Outcome.MARGINAL or (
            self.reason is Reason.UNDETECTABLE and bool(self.part)
        )

    @property
    def too_short(self) -> bool:
        """Whether it was judged as a whole only: too few values to search for a change within the run."""
        of_time = self.scope == "unit" and self.better in ("higher", "lower")
        judged = self.outcome in (Outcome.PASS, Outcome.MARGINAL, Outcome.FAIL)
        return judged and of_time and 0 < self.count < SEARCHED

    @property
    def triage(self) -> Triage:
        """What to do about it; verdicts of older journals, and of users' hooks, have one too."""
        if self.outcome is Outcome.FAIL:
            return Triage.RETEST if self.retest else Triage.REJECT
        if self.outcome is Outcome.MARGINAL:
            return Triage.INVESTIGATE
        undecided = self.outcome is Outcome.INCONCLUSIVE
        return _OF_REASON.get(self.reason, Triage.NONE) if undecided else Triage.NONE

    @property
    def trouble(self) -> Trouble:
        """Which kind of trouble it is; of what is only listed, too."""
        if self.outcome is Outcome.FAIL and not self.retest:
            measured = bool(self.similarity) and self.better != "equal"  # 0: not slow but wrong
            return Trouble.SLOW if measured else Trouble.FAILED
        if self.outcome is Outcome.FAIL and self.retest in UNSURE:
            return UNSURE[self.retest]
        return _TROUBLES.get(self.outcome, Trouble.NONE)

    @property
    def severity(self) -> Severity:
        """Sorts verdicts, the one to act on first: by triage, outcome, and the largest and surest loss."""
        triage = self.triage
        return (
            _TRIAGE_ORDER.index(triage),
            _OUTCOME_ORDER.index(self.outcome),
            self.reason not in (Reason.HARDWARE, Reason.GONE),  # which explain what tests found
            (self.similarity or 0.0) if triage else 0.0,
            -(self.certainty or 0.0) if triage else 0.0,
        )


RETEST = "RETEST"
"""What a rejected node is called that is to be measured again, or shares its cause with many others."""

ALLOWED_MISSING = 0.02
"""Share of a node's values that tables may lack: of faults that one value shows, as many may be missed."""

NOT_JUDGED = "NOT_JUDGED"
"""What represents an outcome where there are values and no norm to hold them against."""

SINGLE_VALUE = "a single value"
"""Why a failure is to be measured again that one value tells of (`MetricVerdict.retest`)."""

NOISY = "measured while the machine was let be noisy"
"""Why a failure is to be measured again that was found under wider limits (`MetricVerdict.retest`)."""

UNSURE = {SINGLE_VALUE: Trouble.SINGLE, NOISY: Trouble.NOISY}
"""Kind of trouble of a failure that is not near its limit, by why it is to be measured again all the same."""

HOST = ("", "cpu", "node")
"""Devices of which a node has one: nothing to tell apart, and the component says which part it is."""

LEAST_SEVERE: Severity = (len(Triage), 0, False, 0.0, 0.0)  # of what was not judged at all
_OF_REASON = {
    Reason.DISTURBED: Triage.RETEST,
    Reason.BROKEN_OFF: Triage.RETEST,
    Reason.TOO_FEW: Triage.RETEST,
    Reason.CLASS_SHIFT: Triage.INVESTIGATE,
    Reason.INVALID: Triage.INVESTIGATE,
    Reason.TOO_GOOD: Triage.INVESTIGATE,
    Reason.HARDWARE: Triage.INVESTIGATE,
}
"""Of verdicts that are INCONCLUSIVE; of the other reasons the blocker itself says what to do."""
_TRIAGE_ORDER = tuple(Triage)
_TROUBLES = {
    Outcome.FAIL: Trouble.BORDERLINE,  # what is sure is slow or failed
    Outcome.MARGINAL: Trouble.BORDERLINE,
    Outcome.INCONCLUSIVE: Trouble.UNCLEAR,
    Outcome.NOT_TESTED: Trouble.MISSING,
}
_DECISION_ORDER = ("REJECTED", "UNDECIDED", "ACCEPTED")
_OUTCOME_ORDER = ("FAIL", "MARGINAL", "INCONCLUSIVE", "NOT_TESTED", "PASS")


class Decision(StrEnum):
    """What is decided about a node; the value of an exit code hangs on it."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    UNDECIDED = "UNDECIDED"

    @property
    def exit_code(self) -> int:
        """0 accepted, 1 rejected, 20 neither."""
        return {"ACCEPTED": 0, "REJECTED": 1, "UNDECIDED": 20}[self.value]


def host_trouble(verdicts: Sequence[MetricVerdict]) -> str:
    """Say what of the whole host disturbed a run; empty where nothing did.

    That is other load during most of its measurements, or a host that was slower than in earlier runs where
    this explains most of what is inconclusive.
    """
    speeds = [one for one in verdicts if one.metric and one.better != "equal"]
    unclear = [one for one in speeds if one.outcome is Outcome.INCONCLUSIVE]
    slower = [one for one in unclear if HOST_SLOWER in one.disturbance]
    if slower and len(slower) >= MOSTLY * len(unclear):
        return (
            f"{HOST_SLOWER} in {len(slower)} of {len(speeds)} measurements (another guest of this machine, "
            "or a lower clock): run again later; if it lasts, learn anew"
        )
    disturbed = [one for one in speeds if one.reason is Reason.DISTURBED]
    if len(disturbed) < max(SEVERAL, MOSTLY * len(speeds)):
        return ""
    seen = "; ".join(disturbed[0].disturbance)
    return (
        f"other load disturbed {len(disturbed)} of {len(speeds)} measurements ({seen}): "
        "stop it, or run again later"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """What was decided about one node, and what stands in the way of more.

    Attributes:
        node: Name of the node.
        decision: Accepted, rejected or neither.
        headline: One sentence: the decision, the guilty component, the next step.
        components: Components with at least one failed metric, worst first.
        blocking: What prevents acceptance, what is to be said first before the others.
        listed: One line per thing that was not judged and does not block.
        counts: Outcome name -> how many metric verdicts (`MetricVerdict.counted_as`).
        baseline: Id of the baseline that decided, empty if none.
        residual_risk: Probability of an incident that pruned benchmarks leave; None if nothing was pruned.
        residual_interval: Its 95 % interval; None if unknown.
        triage: What to do first about what rejects, or else about what is MARGINAL.
        lowest: Similarity of what rejects and is to be acted on first, 0 where a test failed otherwise; None
            if nothing rejects.
        noted: One line per thing that was judged or seen, does not block, and should be known: a loss within
            the healthy spread, an attempt that was repeated, a waiver that covers nothing.
        absent: Benchmarks of the baseline that never ran on it, and that nothing explains.
        gone: Devices that its class has and that gave no value at all.
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

    @property
    def word(self) -> str:
        """What the decision is called: RETEST where the node is not to be taken out of service by itself."""
        waits = self.triage in (Triage.RETEST, Triage.SHARED)
        return RETEST if self.decision is Decision.REJECTED and waits else self.decision.value

    @property
    def hindrances(self) -> tuple[Blocker, ...]:
        """What prevents acceptance; of several absent benchmarks the one blocker that counts them."""
        if len(self.absent) < 2:
            return self.blocking
        return tuple(one for one in self.blocking if one.benchmark not in self.absent)

    @property
    def severity(self) -> tuple[int, int, bool, float, str]:
        """Sorts nodes, the one to act on first: by decision, triage, what is gone, and the largest loss."""
        places = _DECISION_ORDER.index(self.decision), _TRIAGE_ORDER.index(self.triage)
        return *places, not self.gone, 1.0 if self.lowest is None else self.lowest, self.node
