"""The status of each node of a fleet today, from its last runs, and the list of nodes to drain.

`anubis fleet status`, ``drain-list``, ``plan`` and `anubis health` call it. It drains nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pytest_anubis.core.alike_devices import without_repeats
from pytest_anubis.core.history import CLOCK_TOLERANCE, OUT_OF_SERVICE, NodeRecord
from pytest_anubis.core.machine_marks import are_of_one_host
from pytest_anubis.core.standing.recorded_run import key_of, unjudged_in
from pytest_anubis.core.standing.standing_of import Standing
from pytest_anubis.core.verdict import LOOK, Decision, MetricVerdict, Triage
from pytest_anubis.fleet.launching.health_check import span_text
from pytest_anubis.fleet.launching.host_list import is_host
from pytest_anubis.report.export.drain_reason import LEADER, drain_reason, line, unjudged_text
from pytest_anubis.report.text.failure_text import place_text
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.numbers import count_text, percent
from pytest_anubis.store.fleet.last_runs import DecidingRun, NodeState
from pytest_anubis.store.fleet.unfiled import push_command, store_of

_IN_SERVICE = "in service"


class Status(StrEnum):
    """Status of a node, the worst first."""

    QUARANTINED = "REJECTED"  # rejected and not put into service since, drained, or in repair
    CUT_SHORT = "CUT SHORT"  # a run began after its last verdict and never ended
    NEVER = "NEVER MEASURED"  # no run of it reached a verdict
    UNDECIDED = "UNDECIDED"  # its last run could not decide
    DUE = "DUE"  # accepted, but too long ago, or too likely to have an incident
    FIT = "ACCEPTED"  # accepted, and not due


_ACTS = {
    Status.CUT_SHORT: "see whether its run goes on, else measure it again",
    Status.NEVER: "measure it",
    Status.DUE: "measure it again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The status of one node, and why."""

    node: str
    status: Status
    why: str  # the reason in one line for people, without its age
    since: float | None  # when it got this status, seconds since 1970; None if unknown
    hardware_class: str = ""
    state: str = _IN_SERVICE  # as the operator set it: ``in service``, ``drained``, ``repair``
    run: str = ""  # the run behind the reason; empty if there is none
    # The reason for a scheduler, at most 128 characters; empty if the node is not rejected
    reason: str = ""
    # Probability of an incident within the horizon that its last verdict leaves; None: unknown
    risk: float | None = None
    act: str = ""  # what to do first about it, in few words; empty if nothing
    row: NodeRow | None = None  # its last verdict as every text shows it; None before the first

    @property
    def word(self) -> str:
        """The status for people: RETEST, or DRAINED and REPAIR as its operator set it, override others."""
        if self.status is Status.QUARANTINED and self.state in OUT_OF_SERVICE:
            return self.state.upper()
        judged = self.status in (Status.QUARANTINED, Status.FIT) and self.row is not None
        return self.row.word if judged and self.row else self.status.value

    @property
    def to_drain(self) -> bool:
        """Whether it is rejected and still in service."""
        return bool(self.reason) and self.status is Status.QUARANTINED and self.state == _IN_SERVICE

    @property
    def decision(self) -> str:
        """The decision of its last verdict; empty before the first."""
        return self.row.verdict.decision.value if self.row else ""

    @property
    def retest(self) -> bool:
        """Whether it is to be measured again before anything else is done."""
        return self._triage is Triage.RETEST

    @property
    def group(self) -> bool:
        """Whether it is rejected only for what all nodes have that share a trait with it."""
        return self._triage is Triage.SHARED

    @property
    def _triage(self) -> Triage:
        """What is to be done about its rejection; nothing if it is not rejected."""
        return self.row.verdict.triage if self.reason and self.row else Triage.NONE

    @property
    def unjudged(self) -> int:
        """How many metrics of the run behind it have no criterion."""
        return unjudged_in(self.row.verdicts) if self.row else 0

    @property
    def component(self) -> str:
        """The part to blame; empty if there is none."""
        return self._worst.component if self._worst else ""

    @property
    def device(self) -> str:
        """The device of the worst finding, with its slot if that is known."""
        worst = self._worst
        return (
            place_text(worst.device, self.row.cards) if worst and worst.device and self.row else ""
        )

    @property
    def _worst(self) -> MetricVerdict | None:
        """What to act on first; None of an accepted node."""
        open_yet = self.status is not Status.DUE and self.decision != Decision.ACCEPTED
        return self.row.worst if open_yet and self.row else None

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key that puts the node to act on first, in judge's order where a verdict decides."""
        judged = self.status in (Status.QUARANTINED, Status.UNDECIDED, Status.FIT)
        severity = self.row.verdict.severity[:-1] if judged and self.row else ()
        return (
            _ORDER.index(self.status),
            not self.to_drain,  # an operator has already acted on the others
            self.word != LOOK,
            -(self.risk or 0.0) * (self.status is Status.DUE),
            not severity,
            severity,
            0.0 if severity else self.since or 0.0,
            self.node,
        )


_ORDER = tuple(Status)


def statuses_of(
    nodes: Iterable[NodeState],
    *,
    now: float,
    risks: Mapping[str, float],
    accepted_risk: float,
    max_age: float | None = None,
    listed: Sequence[str] = (),
) -> tuple[NodeStatus, ...]:
    """Return the status of nodes, the worst first, without those that were removed and not measured since.

    Args:
        nodes: What is known last of each.
        now: Seconds since 1970.
        risks: Node -> probability of an incident that its last verdict leaves; empty if no risk is known.
        accepted_risk: An accepted node with a higher risk is due.
        max_age: Seconds after which an accepted node is due whatever its risk; None: never.
        listed: Nodes of the fleet, measured or not.
    """
    known = {one.node.name: one for one in nodes}
    for name in unknown_of(listed, known):
        known[name] = NodeState(node=NodeRecord(name=name), has_run=False)
    found = [
        _status(one, now, risks.get(name), accepted_risk, max_age)
        for name, one in known.items()
        if one.node.state != "removed" or _measured_since(one, one.node.changed or 0.0)
    ]
    return tuple(sorted(found, key=lambda one: one.order))


def _measured_since(one: NodeState, moment: float) -> bool:
    """Return whether a node has a run that began after a moment."""
    started = one.last.started if one.last is not None else 0.0
    return max(started, one.open_since) > moment


def unknown_of(listed: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the listed nodes that are not known by that name, nor by the host's other one, short or full."""
    of_host: dict[str, list[str]] = {}
    for name in known:
        of_host.setdefault(name.partition(".")[0], []).append(name)
    found = []
    for name in dict.fromkeys(listed):
        several = of_host.get(name.partition(".")[0], ())
        same = [one for one in several if are_of_one_host(name, one)]
        if name not in same and len(same) != 1:
            found.append(name)
    return found


def _status(
    one: NodeState, now: float, risk: float | None, accepted_risk: float, max_age: float | None
) -> NodeStatus:
    last, node = one.last, one.node
    row = None if last is None else _row(last, one.standing)
    status, why, since = _standing(one, row, now, risk, accepted_risk, max_age)
    rejected = last is not None and last.verdict.decision is Decision.REJECTED
    return NodeStatus(
        node=node.name,
        status=status,
        why=why,
        since=since,
        hardware_class=node.hardware_class,
        state=node.state,
        run=one.open if status is Status.CUT_SHORT else last.run if last else "",
        reason=reason_of(last) if last is not None and rejected else "",
        risk=risk,
        act=_act(one, row, status),
        row=row,
    )


def _row(last: DecidingRun, standing: Standing) -> NodeRow:
    """Return the row of a run; a failure that more than one run confirmed needs no retest."""
    verdict, metrics = last.verdict, last.verdicts
    if verdict.triage is Triage.RETEST and standing.confirmed:
        verdict = replace(verdict, triage=Triage.REJECT)
        metrics = tuple(
            replace(one, retest="") if key_of(one) in standing.confirmed else one for one in metrics
        )
    return NodeRow(
        verdict=verdict,
        verdicts=without_repeats(metrics),
        cards=last.cards,
        devices=frozenset(last.devices),
    )


def _act(one: NodeState, row: NodeRow | None, status: Status) -> str:
    """Return what to do first about a node; of one that is out of service, what brings it back."""
    if status is Status.UNDECIDED and one.unfiled:
        return f"{push_command(store_of(one.unfiled[0]))} files them"
    if status is Status.UNDECIDED and one.unjudged:
        return "'anubis judge' judges them; with --history the status counts filed ones"
    if status in _ACTS:
        return _ACTS[status]
    step = row.step if row is not None else ""
    if status is not Status.QUARANTINED or one.node.state not in OUT_OF_SERVICE:
        return step
    name = shlex.quote(one.node.name)
    back = f"put it into service: anubis history state --node {name} --as in-service"
    last = one.last
    decision = None if last is None else last.verdict.decision
    passed = decision is Decision.ACCEPTED
    if passed and last is not None and last.started > (one.node.changed or 0.0):
        return f"it has passed since: {back}"
    if row is None or row.verdict.triage is not Triage.RETEST:
        step = step if step and decision is Decision.REJECTED else "repair it"
        return f"{step}, then measure it again; once it passes, {back}"
    return f"measure it again; once it passes, {back}"


def _standing(
    one: NodeState,
    row: NodeRow | None,
    now: float,
    risk: float | None,
    accepted_risk: float,
    max_age: float | None,
) -> tuple[Status, str, float | None]:
    last, node = one.last, one.node
    rejected = last is not None and last.verdict.decision is Decision.REJECTED
    out, answered = node.state in OUT_OF_SERVICE, one.standing.answered
    if last is not None and row is not None and rejected and (out or not answered):
        since = node.changed if out else one.standing.since or last.at
        shared = row.verdict.triage is Triage.SHARED and row.verdict.blocking
        own = shared[0].fact if shared else f"{row.cause}{row.sure}"
        return Status.QUARANTINED, f"{own}; run {last.run}", since
    if out:
        return Status.QUARANTINED, f"{node.state} by its operator", node.changed
    if one.unfiled:
        verb = "is" if len(one.unfiled) == 1 else "are"
        what = f"{count_text(len(one.unfiled), 'file')} of its runs {verb} not in the history"
        return Status.UNDECIDED, what, last.at if last else None
    if one.unjudged:
        what = f"{count_text(one.unjudged, 'imported run')} of it here without a verdict"
        return Status.UNDECIDED, what, last.at if last else None
    if one.open:
        before = f"; before that {last.verdict.decision.value.lower()}" if last else ""
        return Status.CUT_SHORT, f"run {one.open} has not ended{before}", one.open_since
    if last is None or row is None:
        why = "no run of it came to a verdict" if one.has_run else "no run yet"
        return Status.NEVER, why, node.since or None
    if rejected:
        what = "put into service" if node.changed else "its defect closed"
        return Status.DUE, f"rejected, and {what} since: to be measured again", node.changed
    if last.verdict.decision is Decision.UNDECIDED:
        return Status.UNDECIDED, row.cause, last.at
    if last.doubtful:
        return Status.UNDECIDED, "accepted by a clock that was ahead: measure it again", last.at
    if last.at - now > CLOCK_TOLERANCE:
        why = f"accepted {span_text(last.at - now)} in the future: the clocks differ"
        return Status.UNDECIDED, why, now
    if max_age is not None and now - last.at > max_age:
        return Status.DUE, f"accepted longer than {span_text(max_age)} ago{_of_risk(risk)}", last.at
    if risk is not None and risk > accepted_risk:
        return Status.DUE, f"risk {percent(risk)}", last.at
    accepted = ", ".join(filter(None, ("accepted", unjudged_text(unjudged_in(last.verdicts)))))
    return Status.FIT, row.cause if row.to_look_at is not None else accepted, last.at


def reason_of(last: DecidingRun) -> str:
    """Return why a node is not accepted, as ``anubis health`` words it: at most 128 characters."""
    if last.verdicts or last.verdict.hindrances:
        return drain_reason(last.verdict, last.verdicts, last.run)
    return line(f"{LEADER}{last.verdict.decision.value}", last.verdict.headline, run=last.run)


def exit_code(statuses: Sequence[NodeStatus], damaged: int = 0) -> int:
    """Return 1 if a node is quarantined; 20 if none is, but one is not fit, unknown or missing; else 0.

    Damaged files may be about a node that seems fit.
    """
    found = {one.status for one in statuses}
    if Status.QUARANTINED in found:
        return Decision.REJECTED.exit_code
    fit = found == {Status.FIT} and not damaged
    return (Decision.ACCEPTED if fit else Decision.UNDECIDED).exit_code


def drain_lines(statuses: Iterable[NodeStatus], *, scontrol: bool) -> tuple[list[str], list[str]]:
    """Return a line for each rejected node in service, and one for each name that no scheduler takes.

    Nodes to be measured again first, and nodes rejected only like all of a batch or driver, come last behind
    ``#``, so that nothing drains them. So do names that a scheduler would misread: ``n[1-9]`` would be nine
    other nodes, and ``n1~6bfd`` is a second machine named n1. With `scontrol` the lines are commands for a
    shell instead of names and reasons.
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


def _of_risk(risk: float | None) -> str:
    return "" if risk is None else f", risk {percent(risk)}"
