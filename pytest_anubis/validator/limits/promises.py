"""Apply operators' decisions to criteria: losses that are promised to fail (`--promise`), and slower groups.

It also states how many healthy nodes a promise rejects, and drops criteria that no sample could fail.
`baseline_learning`, `learning_findings` and `kept_decisions` use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from pytest_anubis.core.baseline import Criterion, Finding, cannot_fail
from pytest_anubis.core.metric import found_from, percent_text, size_text, wholes_of
from pytest_anubis.validator.limits.power import detectable, promised_threshold
from pytest_anubis.validator.limits.tails import Tail

SLACK = 1.001
"""Allowed rounding of a kept promise."""

Decision = Literal["", "both", "faster"]
"""What an operator decided about a slower group: nothing yet, both groups are good, or only the faster
one."""

Price = tuple[float, str]
"""Share of the healthy nodes or runs that a promise rejects, and in words: ``12 % of the healthy nodes``."""

UNKNOWN_PRICE: Price = (0.0, "")


def promised(criterion: Criterion, promises: Mapping[str, float]) -> float | None:
    """Return the loss that was promised for a criterion's metric, its component, or all metrics.

    `promises` maps a metric or component (``network`` includes ``network.loopback``; empty: all) to a loss.
    """
    for key in (criterion.metric.name, *wholes_of(criterion.component), ""):
        if key in promises:
            return promises[key]
    return None


def with_promises(
    criteria: Sequence[Criterion],
    lucky: Sequence[float],
    tails: Sequence[tuple[Tail, float] | None],
    promises: Mapping[str, float],
) -> tuple[tuple[Criterion, ...], tuple[Finding, ...]]:
    """Tighten every criterion that would not find the promised loss, and report what that rejects.

    Args:
        criteria: Criteria with their thresholds.
        lucky: How much better than typical one healthy unit in twenty is, for each criterion.
        tails: Healthy tail and units of a node, for each criterion; None if no tail is known.
        promises: See `promised`.
    """
    out, findings = [], []
    for criterion, own, tail in zip(criteria, lucky, tails, strict=True):
        promise = promised(criterion, promises)
        if promise is not None and criterion.second is not None:
            criterion = apply_decision(
                criterion, "faster"
            )  # a promise does not allow a slower group
        exact = criterion.metric.better == "equal"
        if promise is None or exact or (criterion.detectable or math.inf) <= promise:
            out.append(criterion)
            continue
        better, name = criterion.metric.better, criterion.metric.name
        form = f"{name} [node]" if criterion.scope == "node" else name
        threshold = promised_threshold(better, promise, own)
        _, whom = _rejected(criterion, threshold, tail)
        cost = f"; that rejects {whom}" if whom else ""
        out.append(
            replace(
                criterion,
                alpha=threshold,
                learned=threshold,
                unconfirmed=None,
                detectable=detectable(better, threshold, own),
            )
        )
        found = detectable(better, threshold, own)
        kept = f"a loss of {size_text(promise, better)} is promised to fail, although its noise allows more"
        if found > promise * SLACK:
            kept = (
                f"the promise of {size_text(promise, better)} cannot be kept: losses are found from "
                f"{found_from(found, better)} on"
            )
        findings.append(
            Finding(
                kind="promise",
                benchmark=criterion.benchmark,
                metric=name,
                text=f"{form}: {kept}{cost}",
            )
        )
    return tuple(out), tuple(findings)


def promise_prices(
    criteria: Sequence[Criterion],
    lucky: Sequence[float],
    tails: Sequence[tuple[Tail, float] | None],
) -> Callable[[Criterion, float], Price]:
    """Return a function that computes which healthy nodes or runs a promise would reject.

    The arguments are those of `with_promises`.
    """
    known: dict[tuple[str, ...], tuple[Criterion, float, tuple[Tail, float] | None]] = {}
    for criterion, own, tail in zip(criteria, lucky, tails, strict=True):
        known.setdefault(_key(criterion), (criterion, own, tail))

    def price(criterion: Criterion, promise: float) -> Price:
        found = known.get(_key(criterion))
        if found is None:
            return UNKNOWN_PRICE
        before, own, tail = found
        return _rejected(before, promised_threshold(before.metric.better, promise, own), tail)

    return price


def _key(criterion: Criterion) -> tuple[str, ...]:
    return criterion.benchmark, criterion.metric.name, criterion.group, criterion.scope


def _rejected(criterion: Criterion, threshold: float, tail: tuple[Tail, float] | None) -> Price:
    """Return the share of healthy nodes or runs that a promised threshold rejects."""
    if tail is not None:
        each = math.exp(-float(tail[0].rarity(np.array([1 - threshold]))[0]))
        share = 1 - (1 - each) ** tail[1]
        return share, f"{percent_text(share)} of the healthy nodes"
    if criterion.unconfirmed is not None:  # one machine
        share = _of_runs(criterion, threshold)
        return share, f"up to {percent_text(share)} of its healthy runs"
    return UNKNOWN_PRICE


def _of_runs(criterion: Criterion, threshold: float) -> float:
    """Return the chance that a healthy run of one machine is beyond a threshold at its first look."""
    from scipy.special import stdtr

    distance = -math.log(threshold) / criterion.spread if criterion.spread > 0 else math.inf
    return float(1 - stdtr(max(criterion.units - 1, 1), distance))


def that_can_fail(
    criteria: Sequence[Criterion],
) -> tuple[tuple[Criterion, ...], tuple[Finding, ...]]:
    """Leave out criteria that no sample could fail, since judging by them means nothing."""
    kept, findings = [], []
    for criterion in criteria:
        why = cannot_fail(criterion)
        if not why:
            kept.append(criterion)
            continue
        name = criterion.metric.name
        form = f"{name} [node]" if criterion.scope == "node" else name
        text = f"{form}: no criterion, it could never fail: {why}"
        findings.append(
            Finding(kind="no-criterion", benchmark=criterion.benchmark, metric=name, text=text)
        )
    return tuple(kept), tuple(findings)


def apply_decision(criterion: Criterion, what: Literal["both", "faster"]) -> Criterion:
    """Return a criterion after a decision about its second population, which can be changed later.

    ``both``: the slower group is good too, so everything down to its limit passes. ``faster``: it is not, so
    the practical threshold is that of the faster group again.
    """
    second = criterion.second
    if second is None:
        return criterion
    learned = criterion.learned if second.decided != "both" else second.before
    better, known = criterion.metric.better, criterion.detectable
    lucky = 0.0
    if known is not None:
        alike = 1 / (1 + known) if better == "lower" else 1 - known
        lucky = max(criterion.rejects_below / alike - 1, 0.0) if alike > 0 else 0.0
    low = second.threshold
    alpha, limit, before = second.alpha, learned, None
    if what == "both":
        alpha, limit, before = low, low if learned is None else min(low, learned), learned
    threshold = min(alpha, 1.0 if limit is None else limit)
    return replace(
        criterion,
        alpha=alpha,
        learned=limit,
        detectable=None if known is None else detectable(better, threshold, lucky),
        second=replace(second, decided=what, before=before),
    )
