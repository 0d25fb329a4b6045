"""Is this node fit, by what is known already? Answered from its last verdict, at once."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_anubis.core.history import CLOCKS_DIFFER
from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.export.drain_reason import LEADER, line
from pytest_anubis.store.node_standing import NodeStanding

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True, slots=True)
class Health:
    """The answer.

    Attributes:
        decision: Of the last verdict; UNDECIDED where it says nothing about today.
        text: One line, as a drain reason.
        standing: What it rests on; None where there is nothing.
    """

    decision: Decision
    text: str
    standing: NodeStanding | None = None


def health_of(
    standing: NodeStanding | None, node: str, *, now: float, max_age: float | None, boot: str
) -> Health:
    """Return whether a node is fit by its last verdict; what is unknown, old or cut short is UNDECIDED.

    A node that was rejected stays so however old that is: time repairs nothing.

    Args:
        standing: What is known of it; None before its first run.
        node: Its name.
        now: Seconds since 1970.
        max_age: Seconds after which an acceptance says nothing any more; None: never.
        boot: Id of this start of the machine; empty where nobody knows.
    """
    if standing is None or not standing.decision:
        began = "no run"
        if standing is not None and standing.running:
            began = f"run {standing.running} began {_ago(now - standing.since)}"
        return _open("NO-VERDICT", f"{node}: {began}; judge it with pytest --anubis", standing)
    told = Health(Decision(standing.decision), standing.reason, standing)
    if told.decision is not Decision.ACCEPTED:
        return told
    age = now - standing.ended
    if standing.running and standing.boot and boot and standing.boot != boot:
        return _open("CUT-SHORT", f"the machine went down during run {standing.running}", standing)
    limit = float("inf") if max_age is None else max_age
    if standing.running and now - standing.since > limit:
        began = _ago(now - standing.since)
        return _open("CUT-SHORT", f"run {standing.running} began {began} and never ended", standing)
    if age < -CLOCKS_DIFFER:
        return _open("CLOCK", f"accepted {_span(-age)} in the future: the clocks differ", standing)
    if age > limit:
        return _open("OLD-VERDICT", f"accepted {_ago(age)}, the limit is {_span(limit)}", standing)
    return Health(told.decision, line(f"{LEADER}ACCEPTED", _ago(age), run=standing.run), standing)


def _open(code: str, why: str, standing: NodeStanding | None) -> Health:
    return Health(Decision.UNDECIDED, line(f"{LEADER}{code}", why), standing)


def _ago(seconds: float) -> str:
    return f"{_span(max(0.0, seconds))} ago"


def _span(seconds: float) -> str:
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
