"""The health check of a node: whether it is fit by its runs' verdicts so far; it measures nothing.

`anubis health` passes the answer to Slurm or Kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_anubis.codec.moments import day_of
from pytest_anubis.core.history import CLOCK_TOLERANCE
from pytest_anubis.core.standing.standing_of import Holds, Standing
from pytest_anubis.core.standing.standing_verdict import lapsed_text
from pytest_anubis.core.verdict import Decision
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.report.export.drain_reason import LEADER, line, reason_code, unjudged_text
from pytest_anubis.store.kept_runs import KeptRun, NodeStanding

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


@dataclass(frozen=True, slots=True)
class Health:
    """The answer of a health check."""

    decision: Decision  # the last verdict's; UNDECIDED if it says nothing about today
    text: str  # one line, as a drain reason
    kept: KeptRun | None = None  # the run behind it; None if there is none
    # What rejects the node is to be measured again before it is taken out of service
    retest: bool = False


def health_of(
    standing: NodeStanding | None,
    node: str,
    *,
    now: float,
    max_age: float | None,
    boot: str,
    alive: bool = True,
    holds: Holds | None = None,
) -> Health:
    """Return whether a node is fit by all its runs; unknown, old or interrupted runs leave it UNDECIDED.

    A rejected node stays rejected, however old that is and whatever ran since without judging what had
    failed: neither time nor another test repairs anything.

    Args:
        standing: What is known of the node; None before its first run.
        node: Its name.
        now: Seconds since 1970.
        max_age: Seconds after which an acceptance is too old; None: never.
        boot: Id of this start of the machine; empty if unknown.
        alive: A process still writes the journal of the run that goes on, if one does.
        holds: Says which waivers of its runs hold; default: by their own last days, at `now`.
    """
    holds = holds or holds_on(day_of(now))
    today = standing.standing(holds) if standing else Standing()
    kept = standing.kept(today) if standing else None
    if standing is None or kept is None:
        code = "NO-VERDICT"
        began = "no run"
        if standing is not None and standing.running:
            code = "NO-VERDICT" if alive else "CUT-SHORT"
            began = f"run {standing.running} began {_ago(now - standing.since)}"
        return _open(code, f"{node}: {began} here; judge it with pytest --anubis", kept)
    if today.decision is not Decision.REJECTED and len(machines := standing.machines) > 1:
        one, other = (several[-1].judged.run for several in machines[:2])
        why = f"two machines are called {node}: name each with --anubis-node (runs {one}, {other})"
        return _open("TWO-MACHINES", why, kept)
    if today.answered:
        why = "rejected, and its defect closed since: judge it with pytest --anubis"
        return _open("ANSWERED", why, kept)
    if today.decision is not Decision.ACCEPTED:
        reason = lapsed_text(today) or _reason(kept, today)
        if not reason.startswith(LEADER):
            reason = line(f"{LEADER}{today.decision}", reason, run=kept.judged.run)
        again = kept.retest and not (today.confirmed or today.lapsed)
        return Health(today.decision or Decision.UNDECIDED, reason, kept, retest=again)
    age = now - kept.judged.ended
    if standing.running and standing.boot and boot and standing.boot != boot:
        return _open("CUT-SHORT", f"the machine went down during run {standing.running}", kept)
    if standing.running and not alive:
        why = f"run {standing.running} ended and left no verdict (killed, or the disk was full)"
        return _open("CUT-SHORT", why, kept)
    limit = float("inf") if max_age is None else max_age
    if standing.running and now - standing.since > limit:
        began = _ago(now - standing.since)
        return _open("CUT-SHORT", f"run {standing.running} began {began} and never ended", kept)
    if age < -CLOCK_TOLERANCE:
        return _open("CLOCK", f"accepted {span_text(-age)} in the future: the clocks differ", kept)
    if age > limit:
        return _open("OLD-VERDICT", f"accepted {_ago(age)}, the limit is {span_text(limit)}", kept)
    said = ", ".join(filter(None, (_ago(age), unjudged_text(kept.unjudged))))
    return Health(Decision.ACCEPTED, line(f"{LEADER}ACCEPTED", said, run=kept.judged.run), kept)


def _reason(kept: KeptRun, today: Standing) -> str:
    """Return why a run decided so, without failures that a later run answered."""
    failed = kept.judged.failed
    left = [key for key in failed if key in today.failures]
    if not left or (kept.reason and len(left) == len(failed)):
        return kept.reason or str(today.decision)
    benchmark, metric, device, _ = left[0]
    code = reason_code(metric or benchmark.rpartition("::")[2].removeprefix("test_"))
    more = f"and {len(left) - 1} more" if len(left) > 1 else ""
    return line(code, device, "failed", more, run=kept.judged.run)


def _open(code: str, why: str, kept: KeptRun | None) -> Health:
    return Health(Decision.UNDECIDED, line(f"{LEADER}{code}", why), kept)


def _ago(seconds: float) -> str:
    return f"{span_text(seconds)} ago"


def span_text(seconds: float) -> str:
    """Return a span of time, coarsely: ``3 d``."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
