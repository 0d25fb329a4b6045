"""Collect the findings of learning for people, in the order in which a baseline lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pytest_anubis.core.baseline import DOUBTFUL, Criterion, Finding
from pytest_anubis.core.metric import found_from, loss_size, similarity_text
from pytest_anubis.core.nominal_rate import ATTAINED
from pytest_anubis.core.shown_loss import nominal_text
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.learning.subpopulations import cluster_finding
from pytest_anubis.validator.learning.undecided_groups import UNDECIDED
from pytest_anubis.validator.limits.promises import Price

PROMISED = 0.1
"""Loss for which a promise is proposed, as in all examples of `--promise`."""
MAX_PRICE = 0.1
"""Largest share of healthy nodes that a proposed promise may reject; beyond, the metric is better left
out."""


def learning_findings(
    results: Sequence[LearnedCriterion],
    criteria: Sequence[Criterion],
    note: str,
    tightened: Sequence[Finding],
    node_attributes: Mapping[str, Mapping[str, str]] | None,
    price: Callable[[Criterion, float], Price],
) -> tuple[Finding, ...]:
    """Return the findings on populations, on metrics that repeat badly, and on too few nodes.

    Criteria are those that are left, with their thresholds. Metrics with a tightened promise get no second
    finding about noise. `node_attributes` name what separates a subpopulation; `price` says which healthy
    nodes a promise for a criterion would reject.
    """
    found: list[Finding] = []
    groups = [c for c in criteria if c.second is not None and c.second.decided]
    decided = {(UNDECIDED, c.benchmark, c.metric.name) for c in groups}  # by a promise
    of_devices = {group for item in results if not _pooled(item) for group in _groups(item)}
    for item in results:
        # A group of pooled values is reported only if the devices have no such group.
        known = of_devices if _pooled(item) else set()
        found.extend(
            f
            for f in item.findings
            if f.kind != "second-population"
            and (f.kind, f.benchmark, f.metric) not in decided
            and not (f.kind == UNDECIDED and known.intersection(_groups(item)))
        )
        if item.criterion is None or item.undecided is not None:
            continue
        found += _below_nominal(item.criterion)
        for cluster in item.clusters:
            if (*item.population.series, cluster.side) in known:
                continue
            middle = item.criterion.typical
            found.append(cluster_finding(item.rows, cluster, middle, node_attributes))
    loose: dict[Finding, float] = {}
    whose: dict[Finding, Criterion] = {}
    promised = {(finding.benchmark, finding.metric) for finding in tightened}
    for criterion in criteria:
        if (criterion.benchmark, criterion.metric.name) in promised:
            continue
        text = _unrepeatable(criterion)
        if text:
            finding = Finding(
                kind="not-repeatable",
                benchmark=criterion.benchmark,
                metric=criterion.metric.name,
                text=text,
            )
            loose[finding], whose[finding] = criterion.shown_loss or 0.0, criterion
    if loose:  # the worst comes first, with a remedy
        worst = min(loose, key=lambda f: (-loose[f], f.benchmark, f.metric, f.text))
        if loose[worst] > PROMISED:
            remedy = _remedy(worst.metric, *price(whose[worst], PROMISED))
            with_remedy = replace(worst, text=f"{worst.text}; {remedy}")
            loose[with_remedy] = loose.pop(worst)
    found += loose
    found.sort(key=lambda f: (f.kind, -loose.get(f, 0.0), f.benchmark, f.metric, f.text))
    if note:
        found.insert(0, Finding(kind="few-nodes", text=note))
    return tuple(dict.fromkeys(found))


def _below_nominal(criterion: Criterion) -> list[Finding]:
    """Return a finding if what a criterion makes normal is far below what the hardware could deliver."""
    metric = criterion.metric
    attained = metric.nominal and metric.nominal.attained(criterion.typical, metric.better)
    if not attained or attained >= ATTAINED:
        return []
    share = nominal_text(metric.nominal, criterion.typical, metric.better, metric.unit)
    text = (
        f"{metric.name}: a value that {share}, would be normal from now on: look at the links before this "
        "baseline accepts nodes"
    )
    return [Finding(kind=DOUBTFUL, benchmark=criterion.benchmark, metric=metric.name, text=text)]


def _pooled(item: LearnedCriterion) -> bool:
    return item.criterion is not None and item.criterion.scope == "node"


def _groups(item: LearnedCriterion) -> list[tuple[str, str, str, str]]:
    """Return the groups next to the majority, by metric and side, which is UNDECIDED if they are."""
    undecided = [(*item.population.series, UNDECIDED)] if item.undecided is not None else []
    return undecided or [(*item.population.series, cluster.side) for cluster in item.clusters]


def _remedy(name: str, share: float, rejects: str) -> str:
    """Name the option that helps, and its price, or say that a promise costs too much."""
    if share > MAX_PRICE:
        return (
            f"no --promise mends it: one of {100 * PROMISED:.0f} % would reject {rejects}; measure it "
            f"longer, or leave it out: --without {name}"
        )
    return (
        f"--promise {name}={PROMISED:.0%} makes a loss of {100 * PROMISED:.0f} % fail all the same"
        + (f", and rejects {rejects}" if rejects else "")
    )


def _unrepeatable(criterion: Criterion) -> str:
    """Say that a metric cannot show a loss as small as alpha; empty if it can, or is known to be coarse."""
    if criterion.metric.better == "equal" or criterion.repeatability is None or criterion.coarse:
        return ""
    loose = criterion.learned is not None and criterion.learned < criterion.alpha
    if criterion.repeatability >= criterion.alpha and not loose:
        return ""
    better, detects = criterion.metric.better, ""
    if criterion.detectable:
        detects = f"; it shows losses of {found_from(criterion.detectable, better)} and more"
    return (
        f"{criterion.metric.name} repeats to {similarity_text(criterion.repeatability)} and cannot show a "
        f"loss of {loss_size(criterion.alpha, better)}{detects}"
    )
