"""What to do about a verdict: one answer for headlines, terminals and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.metric import counts_faults
from pytest_anubis.core.verdict import (
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
    Triage,
    Trouble,
)

AGAIN = "measure again while nothing else runs here"
SCATTERED = f"nothing to repair, its usual value is as good as expected: {AGAIN}"
"""Of values that lie unusually, but not by their median: noise does that, and no part to be replaced."""

TOLD = (Reason.TEST_FAILED, Reason.UNSET)
"""Of these the verdict's own text says what is wrong, and with what; no part is known to be worse."""


ABSENT = "measure there what is missing"
"""What resolves that there is no value."""

STEP = ". Next step: "
"""Separates an undecided headline from the step at its end."""

THROUGHOUT = 3
"""Components in which a node is worse from which on one cause is likelier than several."""

FIRST = 90
"""Most characters of a benchmark's own step that end a line about a node; the dossier has all of it."""

WRONG, COUNTED = "wrong", "counted"
"""Words for results that are wrong and not slow, and for more of what is no fault by itself."""
BY_PART = (
    ("power psu", "read the events of its power supplies, then compare its power limit"),
    ("cooling thermal fan", "check fans, air flow and temperatures under load"),
    ("nvlink link xgmi p2p", "read link states and error counts, then reseat or swap the card"),
    (
        "pcie transfer",
        "compare width and speed of its slot (lspci -vv), reseat it, then swap the riser",
    ),
    ("disk storage nvme ssd", "read the drive's health (smartctl -a), then swap it"),
    (
        "network fabric rdma nic ib infiniband collective nccl",
        "check cable, transceiver and error counts of its ports",
    ),
    (
        "gpu+memory accelerator+memory hbm",
        "read its memory errors and remapped rows, then swap the card",
    ),
    (WRONG, "take it out of service: wrong results are silent corruption"),
    (COUNTED, "look at what it counts, and what raised it"),
    (
        "gpu accelerator card",
        "compare its clock and temperature under load, then swap the card",
    ),
    ("memory dram dimm", "read the memory's error counts (edac), compare its modules"),
    ("cpu compute host", "compare clock, governor and firmware settings with a healthy node"),
    ("training inference workload", "look at the other benchmarks of the same devices first"),
)
"""What is done first about a part whose benchmark names no step: words of its name (all of those joined by a
plus), and the step; the first that fits."""


def throughout(verdicts: Iterable[MetricVerdict]) -> tuple[int, int]:
    """Return in how many metrics and components a node is worse, where one cause is likely; else zeros.

    Args:
        verdicts: Those of the node that are FAIL or MARGINAL.
    """
    slow = [one for one in verdicts if one.metric and one.similarity is not None]
    components = {one.component for one in slow}
    metrics = {(one.benchmark, one.metric) for one in slow}
    many = len(components) >= THROUGHOUT and len(metrics) >= 2 * THROUGHOUT
    return (len(metrics), len(components)) if many else (0, 0)


def first_act(verdict: MetricVerdict, bad: Iterable[MetricVerdict] = ()) -> str:
    """Return what is done first about what rejects a node, in few words that end a line.

    That is to measure again what is not sure; else to look for what a node shares that is worse nearly
    everywhere; else the first sentence of the benchmark's own step, or what its component usually asks for.

    Args:
        verdict: The worst of the node.
        bad: All of its verdicts that are FAIL or MARGINAL.
    """
    if verdict.triage is Triage.RETEST:
        return "measure again first"
    if throughout(bad)[0]:
        return "look at what they share: power, cooling, clocks"
    if verdict.reason is Reason.GONE:
        return "see whether the node's driver lists it, reseat it, then swap it"
    own = re.split(r"[.;:] ", verdict.action.strip(), maxsplit=1)[0].rstrip(".")
    if own and len(own) <= FIRST:
        return own[0].lower() + own[1:] if own[1:2].islower() else own
    return _usual(verdict) or (f"{own[: FIRST - 2].rpartition(' ')[0]} ..." if own else _CAUSE)


def as_shared(verdict: NodeVerdict, cause: Blocker) -> NodeVerdict:
    """Return a rejection that a cause explains alone which many nodes share: that is its first blocker.

    The headline ends with the cause's step, as a history has nothing else of it.
    """
    others = (one for one in verdict.blocking if one.kind is not Hindrance.SHARED)
    said = verdict.headline.partition(STEP)[0].removesuffix(".")
    return replace(
        verdict,
        triage=Triage.SHARED,
        blocking=(cause, *others),
        headline=f"{said}{STEP}{cause.act}",
    )


def shared_act(verdict: NodeVerdict | None) -> str:
    """Return what resolves the cause that alone rejects a node, and many others; empty of any other node."""
    shared = verdict is not None and verdict.triage is Triage.SHARED
    return verdict.blocking[0].act if verdict is not None and shared and verdict.blocking else ""


def open_act(blocker: Blocker) -> str:
    """Return what resolves a blocker, in few words that end a line."""
    if blocker.act:
        return blocker.act
    if blocker.kind is Hindrance.OPEN and blocker.word == Outcome.INCONCLUSIVE:
        return _OF_OPEN.get(blocker.reason, "measure again")
    lacks = (Hindrance.OPEN, Hindrance.UNANSWERED, Hindrance.MISSING)
    return ABSENT if blocker.kind in lacks else "measure again"


_LEARN = "learn what is normal of it: anubis learn RUNS"
_MEND = "mend what stopped it, then measure again"
_OF_OPEN: dict[str, str] = {
    Reason.NO_BASELINE: _LEARN,
    Reason.NO_CRITERION: _LEARN,
    Reason.DISTURBED: "measure again when nothing else runs there",
    Reason.TOO_GOOD: "check its unit, and that the work was done; then measure again",
    Reason.WRONG_UNIT: "import it again in the baseline's unit",
    Reason.OTHER_VERSION: "measure with the baseline's version, or learn anew",
    Reason.INVALID: "mend what recorded it, then measure again",
    Reason.UNSET: "mend what recorded it, then measure again",
    Reason.ENVIRONMENT: _MEND,
    Reason.NOT_REPORTED: _MEND,
    Reason.CLASS_SHIFT: "find what all nodes of the class share, or learn anew",
    Reason.HARDWARE: "read the kernel log and the part's counters, then measure again",
}
"""What answers a verdict that is INCONCLUSIVE, by its reason; any other is measured again."""


def _usual(verdict: MetricVerdict) -> str:
    """Return what a component that names no step usually asks for; empty if it is none of the known ones."""
    words = set(re.split(r"[^a-z0-9]+", verdict.component.lower()))
    if verdict.better in ("equal", "lower") and verdict.trouble is Trouble.FAILED:
        if verdict.better == "equal" or counts_faults(verdict.metric, verdict.unit):
            words.add(WRONG)
        elif verdict.value is not None:
            words.add(COUNTED)
    found = (
        act for keys, act in BY_PART if any(words.issuperset(k.split("+")) for k in keys.split())
    )
    return next(found, "")


_CAUSE = "find the cause, repair or replace what has it"


def scattered(verdict: MetricVerdict) -> bool:
    """Return whether a metric is unusual beside its own past or its peers, and its median is no worse.

    Where a fleet says what is normal, hardware that halts now and then looks the same.
    """
    if verdict.reason is not Reason.UNUSUAL or verdict.outcome is not Outcome.MARGINAL:
        return False
    if verdict.reference not in (Reference.SELF, Reference.PEERS):
        return False
    if verdict.value is None or verdict.expected is None or verdict.better == "equal":
        return False
    lower = verdict.better == "lower"
    return verdict.value <= verdict.expected if lower else verdict.value >= verdict.expected


def next_step(verdict: MetricVerdict) -> str:
    """Return what to do about a bad verdict: its benchmark's own step, else what holds of every such failure.

    What is to be measured again first says so, and what is only scattered has no step of the hardware's. A
    verdict that is only unusual has else no step but its own.
    """
    step = verdict.action
    if verdict.triage is Triage.RETEST:
        return f"measure again{f'; if the loss stays: {step}' if step else ''}"
    if scattered(verdict):  # a few values that are far off may be hardware that halts now and then
        return f"{AGAIN}; if that stays: {step}" if verdict.part and step else SCATTERED
    if step or verdict.outcome is not Outcome.FAIL:
        return step
    if verdict.reason is Reason.UNSET:
        return "record what the test's mark declares, then run the test again"
    return f"{_usual(verdict) or _CAUSE}; then measure again"


def next_steps(verdicts: Iterable[MetricVerdict]) -> dict[str, list[MetricVerdict]]:
    """Return the own steps of bad verdicts, each once, with those that it is for, in the given order.

    What a sure failure asks for needs no second measurement before it, whatever else asks for it; and where
    a failure is to be measured again, so is what was only unusual.
    """
    own = [verdict for verdict in verdicts if verdict.action]
    first: dict[str, MetricVerdict] = {}
    for verdict in sorted((v for v in own if not scattered(v)), key=lambda v: _CERTAINTY[v.triage]):
        first.setdefault(verdict.action, verdict)
    steps: dict[str, list[MetricVerdict]] = {}
    for verdict in own:
        told = verdict if scattered(verdict) else first[verdict.action]
        steps.setdefault(next_step(told), []).append(verdict)
    return steps


_CERTAINTY = {triage: place for place, triage in enumerate(Triage)}
"""Of verdicts with one step the least decides how it is reported."""
