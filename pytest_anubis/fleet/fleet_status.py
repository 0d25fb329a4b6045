"""The status of each node of a fleet today, from its last runs, and the list of nodes to drain."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_anubis.core.asking.next_step import STEP, first_act, look_act, open_act
from pytest_anubis.core.history import CLOCK_TOLERANCE, NodeRecord
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


class Status(StrEnum):
    """Status of a node, the worst first."""

    QUARANTINED = "REJECTED"  # rejected and not put into service since, drained, or in repair
    CUT_SHORT = "CUT SHORT"  # a run began after its last verdict and never ended
    NEVER = "NEVER MEASURED"  # no run of it reached a verdict
    UNDECIDED = "UNDECIDED"  # its last run could not decide
    DUE = "DUE"  # accepted, but too long ago, or too likely to have an incident
    FIT = "ACCEPTED"  # accepted, and not due


_BACK = "put it into service: anubis history state --node NODE --as in-service"
_ACTS = {
    Status.CUT_SHORT: "see whether its run goes on, else measure it again",
    Status.NEVER: "measure it",
    Status.DUE: "measure it again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The status of one node, and why.

    Attributes:
        node: Its name.
        status: Its status.
        why: The reason in one line for people, without its age.
        since: When it got this status, seconds since 1970; None if unknown.
        hardware_class: The node's class.
        state: As the operator set it: ``in service``, ``drained``, ``repair``.
        decision: Of its last verdict; empty before the first.
        run: The run behind the reason; empty if there is none.
        reason: The reason for a scheduler, at most 128 characters; empty if the node is not rejected.
        component: The part to blame; empty if there is none.
        device: The device of the worst finding, with its slot if a journal has it.
        risk: Probability of an incident within the horizon that its last verdict leaves; None: unknown.
        retest: It is to be measured again before anything else is done.
        look: It is accepted, and something on it is worth a look.
        group: It is rejected only for what all nodes have that share a trait with it.
        act: What to do first about it, in few words; empty if nothing.
        severity: Sorts nodes of one status as their verdicts are sorted everywhere.
    """

    node: str
    status: Status
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
        """The status for people: RETEST, or DRAINED and REPAIR as its operator set it, override others."""
        if self.status is Status.QUARANTINED and self.state in _OUT:
            return self.state.upper()
        if self.status is Status.FIT and self.look:
            return LOOK
        waits = self.retest or self.group
        return RETEST if waits and self.status is Status.QUARANTINED else self.status.value

    @property
    def to_drain(self) -> bool:
        """Whether it is rejected and still in service."""
        return bool(self.reason) and self.status is Status.QUARANTINED and self.state == _IN_SERVICE


def statuses_of(
    nodes: Iterable[NodeLast],
    *,
    now: float,
    risks: Mapping[str, float],
    accepted_risk: float,
    max_age: float | None = None,
    listed: Sequence[str] = (),
) -> tuple[NodeStatus, ...]:
    """Return the status of nodes, the worst first, without those that were removed.

    Args:
        nodes: What is known last of each.
        now: Seconds since 1970.
        risks: Node -> probability of an incident that its last verdict leaves; empty if no risk is known.
        accepted_risk: An accepted node with a higher risk is due.
        max_age: Seconds after which an accepted node is due whatever its risk; None: never.
        listed: Nodes of the fleet, measured or not.
    """
    known = {one.node.name: one for one in nodes}
    for name in listed:
        known.setdefault(name, NodeLast(node=NodeRecord(name=name), has_run=False))
    found = [
        _status(one, now, risks.get(name), accepted_risk, max_age)
        for name, one in known.items()
        if one.node.state != "removed"
    ]
    order = tuple(Status)
    return tuple(
        sorted(
            found,
            key=lambda one: (
                order.index(one.status),
                not one.to_drain,  # an operator has already acted on the others
                one.word != LOOK,
                -(one.risk or 0.0) * (one.status is Status.DUE),
                one.severity[:-1],
                one.since or 0.0,
                one.node,
            ),
        )
    )


def _status(
    one: NodeLast, now: float, risk: float | None, accepted_risk: float, max_age: float | None
) -> NodeStatus:
    last, node = one.last, one.node
    status, why, since = _standing(one, now, risk, accepted_risk, max_age)
    rejected = last is not None and last.verdict.decision is Decision.REJECTED
    worst = _worst(last) if last is not None and status is not Status.DUE else None
    return NodeStatus(
        node=node.name,
        status=status,
        why=why,
        since=since,
        hardware_class=node.hardware_class,
        state=node.state,
        decision=last.verdict.decision.value if last else "",
        run=one.open if status is Status.CUT_SHORT else last.run if last else "",
        reason=reason_of(last) if last is not None and rejected else "",
        component=worst.component if worst else "",
        device=place_text(worst.device, last.cards) if worst and last and worst.device else "",
        risk=risk,
        retest=rejected and _verdict(one).triage is Triage.RETEST,
        look=last is not None and bool(_unusual(last)),
        group=rejected and _verdict(one).triage is Triage.SHARED,
        act=_act(one, status),
        severity=_verdict(one).severity if rejected else _NOTHING,
    )


def _act(one: NodeLast, status: Status) -> str:
    """Return what to do first about a node; of one that is out of service, what brings it back."""
    step = _step(one, status)
    if status is not Status.QUARANTINED or one.node.state not in _OUT:
        return step
    last = one.last
    passed = last is not None and last.verdict.decision is Decision.ACCEPTED
    if last is not None and passed and last.started > (one.node.changed or 0.0):
        return f"it has passed since: {_BACK}"
    mend = "" if _verdict(one).triage is Triage.RETEST else f"{step or 'repair it'}, then "
    return f"{mend}measure it again; once it passes, {_BACK}"


def _step(one: NodeLast, status: Status) -> str:
    """Return the first step against what was found on a node."""
    if status is Status.UNDECIDED and one.unfiled:
        return f"{push_command(store_of(one.unfiled[0]))} files them"
    if status in _ACTS or one.last is None:
        return _ACTS.get(status, "")
    if status is Status.FIT:
        look = min(_unusual(one.last), key=lambda verdict: verdict.severity, default=None)
        return "" if look is None else look_act(look)
    if status is Status.UNDECIDED:
        # A history only has the headline, which ends with the first blocker's step.
        step = one.last.verdict.headline.partition(STEP)[2]
        return step or next(map(open_act, one.last.verdict.blocking), "measure again")
    worst, triage = _worst(one.last), _verdict(one).triage
    if worst is None or one.last.verdict.decision is not Decision.REJECTED:
        return ""
    if triage is Triage.SHARED:
        return one.last.verdict.headline.partition(STEP)[2] or "find the cause that they share"
    if triage is Triage.RETEST:
        return "measure again first"
    sure = worst.outcome is Outcome.FAIL and triage is Triage.REJECT
    bad = [one for one in one.last.verdicts if one.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
    return first_act(replace(worst, retest="") if sure else worst, bad)


def _verdict(one: NodeLast) -> NodeVerdict:
    """Return a node's verdict; a finding that more than one run confirmed needs no retest."""
    verdict = (
        one.last.verdict
        if one.last
        else NodeVerdict(node="", decision=Decision.UNDECIDED, headline="")
    )
    sure = verdict.triage is Triage.RETEST and bool(one.standing.confirmed)
    return replace(verdict, triage=Triage.REJECT) if sure else verdict


def _standing(
    one: NodeLast, now: float, risk: float | None, accepted_risk: float, max_age: float | None
) -> tuple[Status, str, float | None]:
    last, node = one.last, one.node
    rejected = last is not None and last.verdict.decision is Decision.REJECTED
    out, answered = node.state in _OUT, one.standing.answered
    if last is not None and rejected and (out or not answered):
        shared = _verdict(one).triage is Triage.SHARED
        why = f"rejected{', as all nodes that share a trait with it' if shared else ''}"
        since = node.changed if out else one.standing.since or last.at
        return Status.QUARANTINED, f"{why}: {reason_of(last)}", since
    if out:
        return Status.QUARANTINED, f"{node.state} by its operator", node.changed
    if one.unfiled:
        verb = "is" if len(one.unfiled) == 1 else "are"
        what = f"{count_text(len(one.unfiled), 'file')} of its runs {verb} not in the history"
        return Status.UNDECIDED, what, last.at if last else None
    if one.open:
        before = f"; before that {last.verdict.decision.value.lower()}" if last else ""
        return Status.CUT_SHORT, f"run {one.open} has not ended{before}", one.open_since
    if last is None:
        why = "no run of it came to a verdict" if one.has_run else "no run yet"
        return Status.NEVER, why, node.since or None
    if rejected:
        what = "put into service" if node.changed else "its defect closed"
        return Status.DUE, f"rejected, and {what} since: to be measured again", node.changed
    if last.verdict.decision is Decision.UNDECIDED:
        return Status.UNDECIDED, _short(last.verdict.headline, node.name), last.at
    if last.doubtful:
        return Status.UNDECIDED, "accepted by a clock that was ahead: measure it again", last.at
    if last.at - now > CLOCK_TOLERANCE:
        why = f"accepted {span_text(last.at - now)} in the future: the clocks differ"
        return Status.UNDECIDED, why, now
    if max_age is not None and now - last.at > max_age:
        return Status.DUE, f"accepted longer than {span_text(max_age)} ago{_of_risk(risk)}", last.at
    if risk is not None and risk > accepted_risk:
        return Status.DUE, f"risk {percent(risk)}", last.at
    return Status.FIT, "accepted", last.at


def reason_of(last: LastRun) -> str:
    """Return why a node is not accepted, as ``anubis health`` words it: at most 128 characters."""
    if last.verdicts or last.verdict.hindrances:
        return drain_reason(last.verdict, last.verdicts, last.run)
    return line(f"{LEADER}{last.verdict.decision.value}", last.verdict.headline, run=last.run)


def exit_code(statuses: Sequence[NodeStatus], damaged: int = 0) -> int:
    """Return 1 if a node is quarantined; 20 if none is, but one is not fit, unknown or missing; else 0.

    Args:
        statuses: The nodes.
        damaged: Number of files that cannot be read; they may be about a node that seems fit.
    """
    found = {one.status for one in statuses}
    if Status.QUARANTINED in found:
        return Decision.REJECTED.exit_code
    fit = found == {Status.FIT} and not damaged
    return (Decision.ACCEPTED if fit else Decision.UNDECIDED).exit_code


def drain_lines(statuses: Iterable[NodeStatus], *, scontrol: bool) -> tuple[list[str], list[str]]:
    """Return a line for each rejected node in service, and what was left out.

    Nodes to be measured again first, and nodes rejected only like all of a batch or driver, come last behind
    ``#``, so that nothing drains them. So do names that a scheduler would misread: ``n[1-9]`` would be nine
    other nodes, and ``n1~6bfd`` is a second machine named n1.

    Args:
        statuses: The nodes.
        scontrol: Write commands for a shell in status of names and reasons.

    Returns:
        The lines, and a line for each name that no scheduler takes.
    """
    lines, again, refused = [], [], []
    for one in statuses:
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


def _unusual(last: LastRun) -> list[MetricVerdict]:
    return [one for one in last.verdicts if one.worth_a_look]


def _of_risk(risk: float | None) -> str:
    return "" if risk is None else f", risk {percent(risk)}"


def _short(headline: str, node: str) -> str:
    """Return a headline without the node's name and the step, so that equal nodes become one line."""
    return (
        headline.partition(STEP)[0].removeprefix(f"node {node} ").removeprefix("undecided: ")
        or "undecided"
    )
