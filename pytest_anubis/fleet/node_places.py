"""Where each node of a fleet stands today: rejected, cut short, never measured, undecided, due, accepted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_anubis.core.asking.next_step import STEP, first_act, open_act
from pytest_anubis.core.history import CLOCKS_DIFFER, NodeRecord
from pytest_anubis.core.verdict import (
    RETEST,
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Triage,
)
from pytest_anubis.fleet.launching.health_check import span_text
from pytest_anubis.fleet.launching.host_list import is_host
from pytest_anubis.report.export.drain_reason import LEADER, drain_reason, line, worst_of
from pytest_anubis.report.text.failure_text import place_text
from pytest_anubis.report.text.node_row import LOOK
from pytest_anubis.report.text.numbers import count_text, percent
from pytest_anubis.store.fleet.last_runs import LastRun, NodeLast
from pytest_anubis.store.fleet.unfiled import push_command, store_of

_IN_SERVICE = "in service"
_OUT = ("drained", "repair")
_NOTHING = (0, 0, True, 1.0, "")  # severity of a node without a rejection


class Place(StrEnum):
    """Where a node stands, the worst first."""

    QUARANTINED = "REJECTED"  # rejected and not put into service since, drained, or in repair
    CUT_SHORT = "CUT SHORT"  # a run began after its last verdict and never ended
    NEVER = "NEVER MEASURED"  # no run of it came to a verdict
    UNDECIDED = "UNDECIDED"  # its last run could not say
    DUE = "DUE"  # accepted, but too long ago, or too likely to have an incident
    FIT = "ACCEPTED"  # accepted, and not due


_IN_AGAIN = "put it into service when it is mended ('anubis history state')"
_ACTS = {
    Place.CUT_SHORT: "see whether its run goes on, else measure it again",
    Place.NEVER: "measure it",
    Place.DUE: "measure it again",
    Place.FIT: "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """Where one node stands, and why.

    Attributes:
        node: Its name.
        place: Where it stands.
        why: In one line for people, without its age.
        since: Since when it is called so, seconds since 1970; None if unknown.
        hardware_class: The node's class.
        state: As the operator noted it: ``in service``, ``drained``, ``repair``.
        decision: Of its last verdict; empty before the first.
        run: The run that the line is about; empty if there is none.
        reason: As a scheduler has it, at most 128 characters; empty where the node is not rejected.
        component: The part that is blamed; empty if none is.
        device: The device that the worst finding is about, with its slot where a journal tells it.
        risk: Probability of an incident within the horizon that its last verdict leaves; None: unknown.
        retest: Whether what rejects it is to be measured again before anything is done.
        look: Whether something on it is worth a look, though it is accepted.
        group: Whether it is rejected only for what all nodes have that share a trait with it.
        act: What is done first about it, in few words; empty where there is nothing.
        severity: Sorts nodes in one place as their verdicts are sorted everywhere.
    """

    node: str
    place: Place
    why: str
    since: float | None
    hardware_class: str = ""
    state: str = _IN_SERVICE
    decision: str = ""
    run: str = ""
    reason: str = ""
    component: str = ""
    device: str = ""
    risk: float | None = None
    retest: bool = False
    look: bool = False
    group: bool = False
    act: str = ""
    severity: tuple[int, int, bool, float, str] = _NOTHING

    @property
    def word(self) -> str:
        """What it is called: its place, RETEST, or DRAINED and REPAIR as its operator noted it."""
        if self.place is Place.QUARANTINED and self.state in _OUT:
            return self.state.upper()
        if self.place is Place.FIT and self.look:
            return LOOK
        waits = self.retest or self.group
        return RETEST if waits and self.place is Place.QUARANTINED else self.place.value

    @property
    def to_drain(self) -> bool:
        """Whether it is rejected and still in service."""
        return bool(self.reason) and self.place is Place.QUARANTINED and self.state == _IN_SERVICE


def places_of(
    nodes: Iterable[NodeLast],
    *,
    now: float,
    risks: Mapping[str, float],
    accepted_risk: float,
    max_age: float | None = None,
    listed: Sequence[str] = (),
) -> tuple[NodePlace, ...]:
    """Return where nodes stand, the worst first; those that were removed are left out.

    Args:
        nodes: What is known last of each.
        now: Seconds since 1970.
        risks: Node -> probability of an incident that its last verdict leaves; empty where no risk is known.
        accepted_risk: An accepted node with more than it is due.
        max_age: Seconds after which an accepted node is due whatever its risk; None: never.
        listed: Nodes that the fleet has, measured or not.
    """
    known = {one.node.name: one for one in nodes}
    for name in listed:
        known.setdefault(name, NodeLast(node=NodeRecord(name=name), has_run=False))
    found = [
        _place(one, now, risks.get(name), accepted_risk, max_age)
        for name, one in known.items()
        if one.node.state != "removed"
    ]
    order = tuple(Place)
    return tuple(
        sorted(
            found,
            key=lambda one: (
                order.index(one.place),
                not one.to_drain,  # nobody has done anything about these yet
                one.word != LOOK,
                -(one.risk or 0.0) * (one.place is Place.DUE),
                one.severity[:-1],
                one.since or 0.0,
                one.node,
            ),
        )
    )


def _place(
    one: NodeLast, now: float, risk: float | None, accepted_risk: float, max_age: float | None
) -> NodePlace:
    last, node = one.last, one.node
    place, why, since = _standing(one, now, risk, accepted_risk, max_age)
    rejected = last is not None and last.verdict.decision is Decision.REJECTED
    worst = _worst(last) if last is not None and place is not Place.DUE else None
    return NodePlace(
        node=node.name,
        place=place,
        why=why,
        since=since,
        hardware_class=node.hardware_class,
        state=node.state,
        decision=last.verdict.decision.value if last else "",
        run=one.open if place is Place.CUT_SHORT else last.run if last else "",
        reason=reason_of(last) if last is not None and rejected else "",
        component=worst.component if worst else "",
        device=place_text(worst.device, last.cards) if worst and last and worst.device else "",
        risk=risk,
        retest=rejected and _verdict(one).triage is Triage.RETEST,
        look=last is not None and any(one.worth_a_look for one in last.verdicts),
        group=rejected and _verdict(one).triage is Triage.SHARED,
        act=_act(one, place),
        severity=_verdict(one).severity if rejected else _NOTHING,
    )


def _act(one: NodeLast, place: Place) -> str:
    """Return what is done first about a node that stands in some place."""
    if place is Place.UNDECIDED and one.unfiled:
        return f"{push_command(store_of(one.unfiled[0]))} files them"
    if place in _ACTS or one.last is None:
        return _ACTS.get(place, _IN_AGAIN)
    if place is Place.UNDECIDED:
        # A history has the headline alone, which ends with the first blocker's step.
        step = one.last.verdict.headline.partition(STEP)[2]
        return step or next(map(open_act, one.last.verdict.blocking), "measure again")
    worst, triage = _worst(one.last), _verdict(one).triage
    if place is not Place.QUARANTINED or one.last.verdict.decision is not Decision.REJECTED:
        return _IN_AGAIN if one.node.state in _OUT else ""
    if worst is None:
        return ""
    if triage is Triage.SHARED:
        return one.last.verdict.headline.partition(STEP)[2] or "find the cause that they share"
    if triage is Triage.RETEST:
        return "measure again first"
    sure = worst.outcome is Outcome.FAIL and triage is Triage.REJECT
    bad = [one for one in one.last.verdicts if one.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
    return first_act(replace(worst, retest="") if sure else worst, bad)


def _verdict(one: NodeLast) -> NodeVerdict:
    """Return a node's verdict; what more than one run found need not be measured again."""
    verdict = (
        one.last.verdict
        if one.last
        else NodeVerdict(node="", decision=Decision.UNDECIDED, headline="")
    )
    sure = verdict.triage is Triage.RETEST and bool(one.standing.confirmed)
    return replace(verdict, triage=Triage.REJECT) if sure else verdict


def _standing(
    one: NodeLast, now: float, risk: float | None, accepted_risk: float, max_age: float | None
) -> tuple[Place, str, float | None]:
    last, node = one.last, one.node
    rejected = last is not None and last.verdict.decision is Decision.REJECTED
    out, answered = node.state in _OUT, one.standing.answered
    if last is not None and rejected and (out or not answered):
        shared = _verdict(one).triage is Triage.SHARED
        why = f"rejected{', as all nodes that share a trait with it' if shared else ''}"
        since = node.changed if out else one.standing.since or last.at
        return Place.QUARANTINED, f"{why}: {reason_of(last)}", since
    if out:
        return Place.QUARANTINED, f"{node.state} by its operator", node.changed
    if one.unfiled:
        verb = "is" if len(one.unfiled) == 1 else "are"
        what = f"{count_text(len(one.unfiled), 'file')} of its runs {verb} not in the history"
        return Place.UNDECIDED, what, last.at if last else None
    if one.open:
        before = f"; before that {last.verdict.decision.value.lower()}" if last else ""
        return Place.CUT_SHORT, f"run {one.open} has not ended{before}", one.open_since
    if last is None:
        why = "no run of it came to a verdict" if one.has_run else "no run yet"
        return Place.NEVER, why, node.since or None
    if rejected:
        what = "put into service" if node.changed else "its defect closed"
        return Place.DUE, f"rejected, and {what} since: to be measured again", node.changed
    if last.verdict.decision is Decision.UNDECIDED:
        return Place.UNDECIDED, _short(last.verdict.headline, node.name), last.at
    if last.doubtful:
        return Place.UNDECIDED, "accepted by a clock that was ahead: measure it again", last.at
    if last.at - now > CLOCKS_DIFFER:
        why = f"accepted {span_text(last.at - now)} in the future: the clocks differ"
        return Place.UNDECIDED, why, now
    if max_age is not None and now - last.at > max_age:
        return Place.DUE, f"accepted longer than {span_text(max_age)} ago{_of_risk(risk)}", last.at
    if risk is not None and risk > accepted_risk:
        return Place.DUE, f"risk {percent(risk)}", last.at
    return Place.FIT, "accepted", last.at


def reason_of(last: LastRun) -> str:
    """Return why a node is not accepted, in the words of ``anubis health``: at most 128 characters."""
    if last.verdicts or last.verdict.hindrances:
        return drain_reason(last.verdict, last.verdicts, last.run)
    return line(f"{LEADER}{last.verdict.decision.value}", last.verdict.headline, run=last.run)


def exit_code(places: Sequence[NodePlace], damaged: int = 0) -> int:
    """Return 1 if a node is quarantined, 20 if none is but one is not fit, unknown or there is none, else 0.

    Args:
        places: Where they stand.
        damaged: How many files cannot be read: they may be about a node that seems fit.
    """
    found = {one.place for one in places}
    if Place.QUARANTINED in found:
        return Decision.REJECTED.exit_code
    fit = found == {Place.FIT} and not damaged
    return (Decision.ACCEPTED if fit else Decision.UNDECIDED).exit_code


def drain_lines(places: Iterable[NodePlace], *, scontrol: bool) -> tuple[list[str], list[str]]:
    """Return a line for each node that is rejected and still in service, and what was left out.

    Those that are to be measured again first, or are rejected only as all nodes of a batch or driver are,
    come last, as remarks behind ``#``: nothing drains them. So do those whose name no scheduler takes:
    ``n[1-9]`` would be nine others, and ``n1~6bfd`` is a second machine that calls itself n1.

    Args:
        places: The nodes.
        scontrol: Commands for a shell, instead of the name and the reason.

    Returns:
        The lines, and one line for each node whose name no scheduler takes.
    """
    lines, again, refused = [], [], []
    for one in places:
        if not one.to_drain:
            continue
        if not is_host(one.node):
            name = ascii(one.node[:40])
            refused.append(f"{name} is no name of a host: drain it by hand")
            again.append(f"# drain by hand: {name} {shlex.quote(one.reason)}")
            continue
        words = [f"NodeName={one.node}", "State=DRAIN", f"Reason={one.reason}"]
        command = shlex.join(["scontrol", "update", *words])
        line = command if scontrol else f"{one.node} {one.reason}"
        if one.retest:
            again.append(f"# measure again first: {line}")
        elif one.group:
            again.append(f"# a shared cause, find that first: {line}")
        else:
            lines.append(line)
    return [*lines, *again], refused


def _worst(last: LastRun) -> MetricVerdict | None:
    bad = [one for one in last.verdicts if one.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
    accepted = last.verdict.decision is Decision.ACCEPTED
    return None if accepted else worst_of(bad)


def _of_risk(risk: float | None) -> str:
    return "" if risk is None else f", risk {percent(risk)}"


def _short(headline: str, node: str) -> str:
    """Return a headline without the name and the step, which stand beside it: equal nodes become one line."""
    return (
        headline.partition(STEP)[0].removeprefix(f"node {node} ").removeprefix("undecided: ")
        or "undecided"
    )
