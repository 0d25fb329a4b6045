"""The ledger of waivers: which have expired, which cover nothing, and which must name what they cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_anubis.core.run import RunEvidence
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Waiver
from pytest_anubis.core.waivers.waiving import (
    OWN_CHECK,
    concerns,
    covers,
    name_of,
    needs_its_name,
    speaks_of,
)
from pytest_anubis.validator.deciding.ledger import Answers


def waiver_lines(
    verdicts: Sequence[MetricVerdict], evidence: RunEvidence, node: str, answers: Answers | None
) -> tuple[list[str], list[str]]:
    """Return (what blocks, what is only told) of the waivers that concern a node, one line each.

    A waiver that has expired blocks where it covers anything that was run: somebody has to look at it again.
    Of the others those are told that covered no failure.

    Args:
        verdicts: All verdicts of the node, as they count beside its waivers.
        evidence: Has the waivers, and the tests that were to run.
        node: Name of the node.
        answers: Which devices were judged, by metric; None where every verdict has its device.
    """
    blocking, told = [], []
    for waiver in evidence.waivers:
        if not concerns(waiver, node):
            continue
        what = f"the waiver for {waiver.scope} ({waiver.owner}: {waiver.reason})"
        known = _met(waiver, verdicts, evidence, answers)
        if waiver.expired and known:
            blocking.append(f"{what} expired on {waiver.expires}: mend it, or renew the waiver")
        elif waiver.expired or not known:
            day = f" and expired on {waiver.expires}" if waiver.expired else ""
            told.append(f"{what} matches nothing of this run{day}: correct or remove it")
        elif not any(verdict.waiver == waiver for verdict in verdicts):
            told.append(f"{what}: {_unused(waiver, verdicts)}")
    return blocking, told


def _met(
    waiver: Waiver,
    verdicts: Iterable[MetricVerdict],
    evidence: RunEvidence,
    answers: Answers | None,
) -> bool:
    """Return whether a waiver is about anything that was run, however it came out."""
    about = speaks_of if waiver.metric == OWN_CHECK else covers
    others = _without_verdict(waiver, verdicts, evidence, answers)
    return any(about(waiver, one) for one in verdicts) or any(covers(waiver, one) for one in others)


def _without_verdict(
    waiver: Waiver,
    verdicts: Iterable[MetricVerdict],
    evidence: RunEvidence,
    answers: Answers | None,
) -> Iterator[MetricVerdict]:
    """Yield what stands for passed tests and devices that have no verdict of their own here."""
    for benchmark, device in evidence.planned:
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
