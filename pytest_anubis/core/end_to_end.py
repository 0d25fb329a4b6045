"""Parts and wholes: which failed micro benchmarks explain the loss of a training, a model or an overlap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_anubis.core.metric import wholes_of
from pytest_anubis.core.verdict import HOST, MetricVerdict, Outcome, Reason

END_TO_END = ("training", "workload", "collective.overlap")
"""Components of benchmarks that use many parts at once, as users do; others measure one part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPlace:
    """A metric on a device."""

    benchmark: str
    metric: str
    device: str
    component: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEndLoss:
    """The loss of an end-to-end benchmark, next to the micro benchmarks of the same device.

    Attributes:
        whole: The end-to-end metric.
        explained_by: Metrics of micro benchmarks that failed there, too, the worst first.
        passed: How many other micro benchmarks there were judged and did not fail.
    """

    whole: MetricPlace
    explained_by: tuple[MetricPlace, ...]
    passed: int


def is_end_to_end(component: str) -> bool:
    """Return whether benchmarks of a component use many parts at once."""
    return not set(END_TO_END).isdisjoint(wholes_of(component))


def place_of_metric(verdict: MetricVerdict) -> MetricPlace:
    """Return the metric and device of a verdict."""
    return MetricPlace(
        benchmark=verdict.benchmark,
        metric=verdict.metric,
        device=verdict.device,
        component=verdict.component,
    )


def end_to_end_losses(verdicts: Iterable[MetricVerdict]) -> tuple[EndToEndLoss, ...]:
    """Return the losses of end-to-end benchmarks among the verdicts of a node, the worst first."""
    every = sorted(verdicts, key=lambda verdict: verdict.severity)
    micro = [v for v in every if v.component and not is_end_to_end(v.component)]
    failed = [v for v in micro if v.outcome is Outcome.FAIL and v.reason is not Reason.HARDWARE]
    passed = [v for v in micro if v.outcome in (Outcome.PASS, Outcome.MARGINAL)]
    parts: dict[
        str, tuple[tuple[MetricPlace, ...], int]
    ] = {}  # by what a whole uses: many are alike
    found: dict[MetricPlace, EndToEndLoss] = {}
    for whole in every:
        bad = whole.outcome in (Outcome.FAIL, Outcome.MARGINAL)
        if not (bad and is_end_to_end(whole.component) and whole.better in ("higher", "lower")):
            continue
        used = "" if whole.scope == "node" or whole.device == "node" else whole.device
        if used not in parts:
            parts[used] = _parts(failed, passed, used)
        explained_by, others = parts[used]
        place = place_of_metric(whole)
        found.setdefault(place, EndToEndLoss(whole=place, explained_by=explained_by, passed=others))
    return tuple(found.values())


def _parts(
    failed: Iterable[MetricVerdict], passed: Iterable[MetricVerdict], used: str
) -> tuple[tuple[MetricPlace, ...], int]:
    """Return the failed metrics of a device, and how many other micro benchmarks of it did not fail.

    Args:
        failed: Verdicts of micro benchmarks that failed.
        passed: Verdicts of micro benchmarks that did not fail.
        used: What an end-to-end benchmark used: a device, or "" for all devices of the node.
    """
    bad = tuple(dict.fromkeys(place_of_metric(v) for v in failed if _is_of(v, used)))
    names = {v.benchmark for v in passed if _is_of(v, used)}
    return bad, len(names.difference(one.benchmark for one in bad))


def _is_of(part: MetricVerdict, used: str) -> bool:
    """Return whether a micro benchmark measured what was used; that of a card includes its links."""
    if not used:
        return True
    if part.scope == "node":
        return False
    return used in part.device.split(">") or {used, part.device} <= set(HOST)
