"""Next steps for verdicts and blockers, and commands to type, the same in headlines, terminals and pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_anubis.core.blocker import Blocker, Hindrance
from pytest_anubis.core.measurement import HOST_SLOWER
from pytest_anubis.core.metric import counts_faults, first_of
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reason,
    Reference,
    Triage,
    Trouble,
)

AGAIN = "measure again while nothing else runs here"
_TOGETHER = "push the imports that have them in the same call ('anubis push FOLDER')"
SCATTERED = f"nothing to repair, its usual value is as good as expected: {AGAIN}"
"""Step for values that are unusual although their median is not: noise, and no faulty part."""

SELF_EXPLAINED = (Reason.TEST_FAILED, Reason.UNSET)
"""Reasons of verdicts whose text says all that is known; no component is known to be worse."""


ABSENT = "measure there what is missing"
"""Step for a missing value."""

STEP = ". Next step: "
"""Separator between a headline and its step; `decision_headline` writes the same words for rejections."""

_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""A PCI address. No other name from a journal, which may be hostile, is put into a command to type."""

MAX_SHARING = 4
"""Devices of a shared part that a step names."""

MIN_COMPONENTS = 3
"""Components in which a node must be worse for one common cause to be more likely than several."""

MAX_STEP = 90
"""Characters of a benchmark's own step at the end of a node's line; the dossier has all of it."""

WRONG = "wrong"
"""Pseudo part for wrong results."""
COUNTED = "counted"
"""Pseudo part for a count of events that are no faults by themselves."""
STEPS_OF_PARTS = (
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
    ("gpu accelerator card", "compare its clock and temperature under load, then swap the card"),
    ("memory dram dimm", "read the memory's error counts (edac), compare its modules"),
    ("cpu compute host", "compare clock, governor and firmware settings with a healthy node"),
    ("training inference workload", "look at the other benchmarks of the same devices first"),
)
"""Words in a component's name (joined by a plus: all of them) and the first step for it, if its benchmark
names none; the first match counts."""


MIN_DISTURBED_SHARE = 0.5
"""Share of a run's speeds that other load must disturb for the decision to name it first."""
MIN_DISTURBED = 4
"""Number of speeds that it must disturb for that."""


def throughout(verdicts: Iterable[MetricVerdict]) -> tuple[int, int]:
    """Return in how many metrics and components a node is worse; zeros if one cause is unlikely."""
    slow = [one for one in verdicts if one.metric and one.similarity is not None]
    components = {one.component for one in slow}
    metrics = {(one.benchmark, one.metric) for one in slow}
    many = len(components) >= MIN_COMPONENTS and len(metrics) >= 2 * MIN_COMPONENTS
    return (len(metrics), len(components)) if many else (0, 0)


def host_trouble(verdicts: Sequence[MetricVerdict]) -> str:
    """Return what disturbed the whole host during a run; empty if nothing did.

    Other load counts if it disturbed most measurements; a host that was slower than in earlier runs counts if
    most inconclusive verdicts name it.
    """
    speeds = [one for one in verdicts if one.metric and one.better != "equal"]
    unclear = [one for one in speeds if one.outcome is Outcome.INCONCLUSIVE]
    slower = [one for one in unclear if HOST_SLOWER in one.disturbance]
    if slower and len(slower) >= MIN_DISTURBED_SHARE * len(unclear):
        return (
            f"{HOST_SLOWER} in {len(slower)} of {len(speeds)} measurements (another guest of this machine, "
            "or a lower clock): run again later; if it lasts, learn anew"
        )
    disturbed = [one for one in speeds if one.reason is Reason.DISTURBED]
    if len(disturbed) < max(MIN_DISTURBED, MIN_DISTURBED_SHARE * len(speeds)):
        return ""
    seen = "; ".join(disturbed[0].disturbance)
    return (
        f"other load disturbed {len(disturbed)} of {len(speeds)} measurements ({seen}): "
        "stop it, or run again later"
    )


def first_act(verdict: MetricVerdict, bad: Iterable[MetricVerdict] = ()) -> str:
    """Return the first step for a rejected node, in few words that end a line.

    An unsure failure is measured again; a node that is worse nearly everywhere, by all of its `bad` verdicts,
    is searched for a common cause; otherwise the worst verdict's own step counts, or the usual one of the
    component.
    """
    if verdict.triage is Triage.RETEST:
        return "measure again first"
    if throughout(bad)[0]:
        return "look at what they share: power, cooling, clocks"
    if verdict.reason is Reason.GONE:
        return "see whether the node's driver lists it, reseat it, then swap it"
    own = re.split(r"[.;:] ", verdict.action.strip(), maxsplit=1)[0].rstrip(".")
    if own and len(own) <= MAX_STEP:
        return own[0].lower() + own[1:] if own[1:2].islower() else own
    return _usual(verdict) or (f"{own[: MAX_STEP - 2].rpartition(' ')[0]} ..." if own else _CAUSE)


def as_shared(verdict: NodeVerdict, cause: Blocker) -> NodeVerdict:
    """Return a rejection with a shared cause as its first blocker, and its step in the headline."""
    others = (one for one in verdict.blocking if one.kind is not Hindrance.SHARED)
    led = _with_step(verdict, cause.act)
    return replace(led, blocking=(cause, *others), triage=Triage.SHARED)


def as_partial(verdict: NodeVerdict) -> NodeVerdict:
    """Return the verdict on an imported run, with the step against benchmarks that it lacks.

    Another import may have them.
    """
    if not lacks_benchmarks(verdict):
        return verdict
    first, *others = verdict.blocking
    act = f"{_TOGETHER}, or {first.act}"
    return replace(_with_step(verdict, act), blocking=(replace(first, act=act), *others))


def lacks_benchmarks(verdict: NodeVerdict) -> bool:
    """Return whether a node is undecided first of all for benchmarks that did not run on it."""
    if verdict.decision is not Decision.UNDECIDED or not verdict.blocking:
        return False
    first = verdict.blocking[0]
    return first.kind is Hindrance.ABSENT or first.benchmark in verdict.absent


def _with_step(verdict: NodeVerdict, act: str) -> NodeVerdict:
    """Return the verdict with a step in its headline, which is all that a history keeps."""
    head = verdict.headline.partition(STEP)[0].removesuffix(".")
    return replace(verdict, headline=f"{head}{STEP}{act}")


def shared_act(verdict: NodeVerdict | None) -> str:
    """Return the step against what nodes share, or all slow devices of this one; empty without either."""
    if verdict is None:
        return ""
    if verdict.triage is Triage.SHARED and verdict.blocking:
        return verdict.blocking[0].act
    return _part_act(verdict)


def _part_act(verdict: NodeVerdict) -> str:
    """Return the step against the part that alone explains a rejection; empty without such a part."""
    part = next(iter(verdict.shared), None)
    if part is None or verdict.decision is not Decision.REJECTED or part.kind == "all":
        return ""
    if not part.alone or not set(part.components).issuperset(verdict.components):
        return ""
    how = f" (lspci -vv -s {part.name})" if _PCI_ADDRESS.fullmatch(part.name) else ""
    return (
        f"check {part.called}{how}, which {first_of(part.devices, MAX_SHARING)} share; if it is fine, "
        "replace the slowest of these; then measure again"
    )


def with_part_act(verdict: NodeVerdict) -> NodeVerdict:
    """Return a rejection with the step against the part that alone explains it in its headline."""
    act = _part_act(verdict)
    return _with_step(verdict, act) if act else verdict


def open_act(blocker: Blocker) -> str:
    """Return the step that resolves a blocker, in few words that end a line."""
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
"""Step for an INCONCLUSIVE verdict by its reason; for other reasons: measure again."""


def _usual(verdict: MetricVerdict) -> str:
    """Return the usual step for a component, else for the benchmark or device; empty if none is known."""
    found: set[str] = set()
    if verdict.better in ("equal", "lower") and verdict.trouble is Trouble.FAILED:
        if verdict.better == "equal" or counts_faults(verdict.metric, verdict.unit):
            found.add(WRONG)
        elif verdict.value is not None:
            found.add(COUNTED)
    component = _words(verdict.component)
    on_card = {"accelerator"} if verdict.device.startswith("cuda:") else set()
    if component & {"memory", "compute"}:
        component |= on_card  # "memory" of a card is not the host's
    named = _words(f"{verdict.benchmark.rpartition('::')[2]} {verdict.metric}")
    return _step(found | component) or _step(found | named) or _step(on_card)


def _words(text: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", text.lower()))


def _step(words: set[str]) -> str:
    """Return the step of the first part whose words are all among these; empty without one."""
    for names, step in STEPS_OF_PARTS:
        if any(words.issuperset(name.split("+")) for name in names.split()):
            return step
    return ""


_CAUSE = "find the cause, repair or replace what has it"


def scattered(verdict: MetricVerdict) -> bool:
    """Return whether values are unusual against their own past or peers although their median is no worse.

    Against a fleet's baseline such values may be hardware that halts now and then.
    """
    if verdict.reason is not Reason.UNUSUAL or verdict.outcome is not Outcome.MARGINAL:
        return False
    if verdict.reference not in (Reference.SELF, Reference.PEERS):
        return False
    if verdict.value is None or verdict.expected is None or verdict.better == "equal":
        return False
    lower = verdict.better == "lower"
    return verdict.value <= verdict.expected if lower else verdict.value >= verdict.expected


def look_act(verdict: MetricVerdict) -> str:
    """Return the step for an accepted node that is unusual, in few words that end a line."""
    if scattered(verdict):
        return AGAIN
    if not verdict.action and verdict.reason in _OF_OPEN:
        return _OF_OPEN[verdict.reason]
    act = first_act(verdict)
    return (
        f"measure again; if it stays: {'compare it with a healthy node' if act == _CAUSE else act}"
    )


def next_step(verdict: MetricVerdict) -> str:
    """Return what to do about a bad verdict: its benchmark's own step, or else a general one.

    An unsure failure is measured again first. Scattered values need no step against the hardware, and an
    unusual verdict has only its benchmark's step.
    """
    step = verdict.action
    if verdict.triage is Triage.RETEST:
        return f"measure again{f'; if the loss stays: {step}' if step else ''}"
    if scattered(verdict):  # a few values far off may be hardware that halts now and then
        return f"{AGAIN}; if that stays: {step}" if verdict.part and step else SCATTERED
    if step or verdict.outcome is not Outcome.FAIL:
        return step
    if verdict.reason is Reason.UNSET:
        return "record what the test's mark declares, then run the test again"
    return f"{_usual(verdict) or _CAUSE}; then measure again"


def next_steps(verdicts: Iterable[MetricVerdict]) -> dict[str, list[MetricVerdict]]:
    """Return each own step of bad verdicts -> its verdicts, in the given order.

    If several verdicts have one step, the surest decides its wording: a sure failure is not measured again
    first.
    """
    own = [verdict for verdict in verdicts if verdict.action]
    first: dict[str, MetricVerdict] = {}
    for verdict in sorted((v for v in own if not scattered(v)), key=lambda v: _CERTAINTY[v.triage]):
        first.setdefault(verdict.action, verdict)
    steps: dict[str, list[MetricVerdict]] = {}
    for verdict in own:
        surest = verdict if scattered(verdict) else first[verdict.action]
        steps.setdefault(next_step(surest), []).append(verdict)
    return steps


_CERTAINTY = {triage: place for place, triage in enumerate(Triage)}
"""Rank of a verdict by its triage, the surest first."""


SHIPPED = "--pyargs pytest_anubis.shipped.suites"
"""Arguments that run the benchmark set of the installed package in place."""


def learning(tests: str) -> str:
    """Return the command that learns from tests as typed for pytest; of `SHIPPED` it makes a copy first."""
    if tests.startswith(SHIPPED):
        return "anubis suites && anubis learn suites/"
    return f"anubis learn {tests}"


def with_options(line: str, options: Sequence[str]) -> str:
    """Return a command, perhaps with a remark in brackets, with pytest options in the form it takes."""
    if not options or not line:
        return line
    command, when, rest = line.rpartition(" (") if line.endswith(")") else (line, "", "")
    own = shlex.join(options)
    if "anubis learn" in command:
        own = shlex.quote(f"--pytest-args={own}")
    return f"{command} {own}{when}{rest}"
