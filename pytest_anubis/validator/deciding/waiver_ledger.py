"""Check the waivers of a node's decision: which expired, which cover nothing, which must name a metric.

`node_decision` uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from pytest_anubis.core.blocker import Blocker
from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Waiver
from pytest_anubis.core.waiving import (
    OWN_CHECK,
    concerns,
    covers,
    name_of,
    needs_its_name,
    speaks_of,
)
from pytest_anubis.validator.deciding.ledger import Answers

MAX_NAMES = 4
"""Known names that are listed after a misspelt one."""
_WORDS = ("test", "component", "device", "metric")


def waiver_lines(
    verdicts: Sequence[MetricVerdict], evidence: RunEvidence, node: str, answers: Answers | None
) -> tuple[list[Blocker], list[Blocker]]:
    """Return the lines about a node's waivers: those that block, and those that are only reported.

    An expired waiver blocks if it covers anything of the run, judged or only planned, so that its owner looks
    at it again. Any other waiver is reported if it covered no failure. Verdicts are those after waivers.
    `answers` name the devices that were judged, because `anubis judge` makes one verdict for all that pass;
    None: the verdicts name them.
    """
    blocking, reported = [], []
    for waiver in evidence.waivers:
        if not concerns(waiver, node):
            continue
        what = f"the waiver for {waiver.scope} ({waiver.owner}: {waiver.reason})"
        known = _met(waiver, verdicts, evidence, answers)
        if waiver.expired and known:
            why = f"{what} expired on {waiver.expires}"
            blocking.append(Blocker(cause=why, act="mend it, or renew the waiver"))
        elif waiver.expired or not known:
            day = f" and expired on {waiver.expires}" if waiver.expired else ""
            why = "" if known else _unknown(waiver, verdicts, evidence, answers)
            why = f"{what} matches nothing of this run{day}{why}"
            reported.append(Blocker(cause=why, act="correct or remove it"))
        elif not any(verdict.waiver == waiver for verdict in verdicts):
            reported.append(Blocker(subject=what, cause=_unused(waiver, verdicts)))
    return blocking, reported


def _met(
    waiver: Waiver,
    verdicts: Sequence[MetricVerdict],
    evidence: RunEvidence,
    answers: Answers | None,
) -> bool:
    """Return whether a waiver covers anything that was judged or planned, whatever came of it."""
    about = speaks_of if waiver.metric == OWN_CHECK else covers
    others = _without_verdict(waiver, verdicts, evidence, answers)
    return any(about(waiver, one) for one in verdicts) or any(covers(waiver, one) for one in others)


def _without_verdict(
    waiver: Waiver,
    verdicts: Sequence[MetricVerdict],
    evidence: RunEvidence,
    answers: Answers | None,
) -> Iterator[MetricVerdict]:
    """Yield a stand-in for each planned test without a verdict on a metric, and for each judged device."""
    measured = {v.benchmark for v in verdicts if v.metric} | {key[0] for key in answers or {}}
    for benchmark, device in evidence.planned:
        # If the waiver names no test, a name that is no known metric is misspelt.
        if benchmark not in measured and (waiver.test or not waiver.metric):
            yield _stand_in(benchmark, waiver.metric, device, waiver)
    components = {(v.benchmark, v.metric): v.component for v in verdicts}
    for (benchmark, metric, _), devices in (answers or {}).items():
        component = components.get((benchmark, metric), "") or waiver.component
        for device in devices:
            yield _stand_in(benchmark, metric, device, waiver, component)


def _stand_in(
    benchmark: str, metric: str, device: str, waiver: Waiver, component: str = ""
) -> MetricVerdict:
    return MetricVerdict(
        outcome=Outcome.PASS,
        reason=Reason.WITHIN,
        text="",
        benchmark=benchmark,
        metric=metric,
        device=device,
        component=component,
        node=waiver.node,
    )


def _unknown(
    waiver: Waiver,
    verdicts: Sequence[MetricVerdict],
    evidence: RunEvidence,
    answers: Answers | None,
) -> str:
    """Say which word of a waiver matches nothing, and which names there are.

    If the waiver names an existing test, only the metrics of that test count.
    """
    things = [*verdicts, *_without_verdict(waiver, verdicts, evidence, answers)]
    for name in _WORDS:
        pattern = getattr(waiver, name)
        only = Waiver(**{"owner": "", "reason": "", "expires": "", name: pattern})
        met = [one for one in things if covers(only, one)]
        if met or not pattern:
            things = met if name == "test" else things
            continue
        field = "benchmark" if name == "test" else name
        known = {getattr(one, field) for one in things} - {"", pattern}
        near = get_close_matches(pattern, sorted(known), 1)
        short = {one.rpartition("::")[2]: one for one in sorted(known)} if name == "test" else {}
        near = near or [short[one] for one in get_close_matches(pattern, sorted(short), 1)]
        hint = f"did you mean {near[0]!r}?" if near else ""
        if not hint and known:
            more = ", ..." if len(known) > MAX_NAMES else ""
            hint = f"there are {', '.join(sorted(known)[:MAX_NAMES])}{more}"
        return f", as no {name} of it is {pattern!r}{f' ({hint})' if hint else ''}"
    return ", as nothing has all of that at once"


def _unused(waiver: Waiver, verdicts: Iterable[MetricVerdict]) -> str:
    """Say why a waiver covered no failure."""
    for verdict in verdicts:
        if (
            verdict.outcome is Outcome.FAIL
            and speaks_of(waiver, verdict)
            and needs_its_name(verdict)
        ):
            return (
                f'it must name metric = "{name_of(verdict)}" to cover the failure of '
                f"{verdict.benchmark}, which is wrong and not slow"
            )
    return "nothing that it covers failed; remove it if it is no longer needed"
