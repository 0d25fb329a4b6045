"""List micro benchmarks that failed with an end-to-end one (training, workload, overlap) on its device.

They are its likely causes: same device, same run. None is tested as a cause. `summary_text`, `run_json`
and pages such as `dossier` use it to list them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pytest_anubis.core.field_types import Rare
from pytest_anubis.core.metric import wholes_of
from pytest_anubis.core.verdict import HOST, MetricVerdict, Outcome, Reason

END_TO_END = ("training", "workload", "collective.overlap")
"""Components of benchmarks that use many parts at once, as users do; others measure one part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPlace:
    """A metric on a device; of collected runs, in one run."""

    benchmark: str
    metric: str
    device: str
    component: str
    run: Annotated[str, Rare] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEndLoss:
    """The loss of an end-to-end benchmark, next to the micro benchmarks of the same device and run."""

    whole: MetricPlace  # the end-to-end metric
    # Metrics of micro benchmarks that failed on the same device in the same run, the worst first;
    # their causing it is likely and not tested
    explained_by: tuple[MetricPlace, ...]
    # Number of other micro benchmarks of that device and run that were judged and did not fail
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
        run=verdict.run,
    )


def end_to_end_losses(verdicts: Iterable[MetricVerdict]) -> tuple[EndToEndLoss, ...]:
    """Return the losses of end-to-end benchmarks among the verdicts of a node, the worst first."""
    every = sorted(verdicts, key=lambda verdict: verdict.severity)
    micro: dict[str, list[MetricVerdict]] = {}
    for one in every:
        if one.component and not is_end_to_end(one.component):
            micro.setdefault(one.run, []).append(one)
    # By run and by what a whole uses: many are alike.
    parts: dict[tuple[str, str], tuple[tuple[MetricPlace, ...], int]] = {}
    found: dict[MetricPlace, EndToEndLoss] = {}
    for whole in every:
        bad = whole.outcome in (Outcome.FAIL, Outcome.MARGINAL)
        if not (bad and is_end_to_end(whole.component) and whole.better in ("higher", "lower")):
            continue
        used = "" if whole.scope == "node" or whole.device == "node" else whole.device
        key = whole.run, used
        if key not in parts:
            parts[key] = _parts(micro.get(whole.run, ()), used)
        explained_by, others = parts[key]
        place = place_of_metric(whole)
        found.setdefault(place, EndToEndLoss(whole=place, explained_by=explained_by, passed=others))
    return tuple(found.values())


def _parts(micro: Iterable[MetricVerdict], used: str) -> tuple[tuple[MetricPlace, ...], int]:
    """Return the failed metrics of a device, and how many other micro benchmarks of it did not fail.

    Verdicts are those of one run's micro benchmarks, the worst first; `used` is what an end-to-end benchmark
    used: a device, or "" for all devices of the node.
    """
    of_it = [one for one in micro if _is_of(one, used)]
    bad = tuple(dict.fromkeys(place_of_metric(one) for one in of_it if _failed(one)))
    fine = [one for one in of_it if one.outcome in (Outcome.PASS, Outcome.MARGINAL)]
    names = {one.benchmark for one in fine if one.reason is not Reason.ANSWERED}
    return bad, len(names.difference(one.benchmark for one in bad))


def _failed(part: MetricVerdict) -> bool:
    """Return whether a micro benchmark failed in its run, even if a later run passed it."""
    if part.reason is Reason.ANSWERED:
        return (
            part.recovered and part.similarity is not None
        )  # else the hardware may have reported it
    return part.outcome is Outcome.FAIL and part.reason is not Reason.HARDWARE


def _is_of(part: MetricVerdict, used: str) -> bool:
    """Return whether a micro benchmark measured what was used; that of a card includes its links."""
    if not used:
        return True
    if part.scope == "node":
        return False
    return used in part.device.split(">") or {used, part.device} <= set(HOST)
