"""What the learning noticed that people should look at, in the order in which a baseline tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pytest_anubis.core.baseline import Criterion, Finding
from pytest_anubis.core.metric import found_from, loss_size, similarity_text
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.learning.subpopulations import cluster_finding
from pytest_anubis.validator.learning.undecided_groups import UNDECIDED
from pytest_anubis.validator.limits.promises import Price

PROMISED = 0.1
"""Loss that a promise is proposed for: what `--promise` is shown with everywhere."""

DEAREST = 0.1
"""Share of the healthy ones that a promise may reject and be proposed: whoever pays more had better leave the
metric out."""


def learning_findings(
    results: Sequence[LearnedCriterion],
    criteria: Sequence[Criterion],
    note: str,
    tightened: Sequence[Finding],
    node_attributes: Mapping[str, Mapping[str, str]] | None,
    price: Callable[[Criterion, float], Price],
) -> tuple[Finding, ...]:
    """Return the findings on populations, on what repeats badly, and on how many nodes there are.

    Args:
        results: What was learned of every metric.
        criteria: Those that are left of it, with their thresholds.
        note: What is to be said about the limits as a whole; empty if nothing.
        tightened: Findings on promises: what they say of a metric's noise is not said again.
        node_attributes: Node -> attributes, to name what separates a subpopulation.
        price: Which healthy ones a promise for a criterion would reject.
    """
    found: list[Finding] = []
    groups = [c for c in criteria if c.second is not None and c.second.decided]
    decided = {(UNDECIDED, c.benchmark, c.metric.name) for c in groups}  # a promise did it
    of_devices = {group for item in results if not _pooled(item) for group in _groups(item)}
    for item in results:
        # Of a node's pooled values a group is told that its devices do not tell.
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
        for cluster in item.clusters:
            if (*_place(item), cluster.side) in known:
                continue
            middle = item.criterion.typical
            found.append(
                cluster_finding(item.population, item.rows, cluster, middle, node_attributes)
            )
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
            loose[finding], whose[finding] = _least_loss(criterion), criterion
    if loose:  # a reader who sees one line only sees the worst, and what would mend it
        worst = min(loose, key=lambda f: (-loose[f], f.benchmark, f.metric, f.text))
        if loose[worst] > PROMISED:
            remedy = _remedy(worst.metric, *price(whose[worst], PROMISED))
            told = replace(worst, text=f"{worst.text}; {remedy}")
            loose[told] = loose.pop(worst)
    found += loose
    found.sort(key=lambda f: (f.kind, -loose.get(f, 0.0), f.benchmark, f.metric, f.text))
    if note:
        found.insert(0, Finding(kind="few-nodes", text=note))
    return tuple(dict.fromkeys(found))


def _place(item: LearnedCriterion) -> tuple[str, str, str]:
    population = item.population
    return population.benchmark, population.metric.name, population.group


def _pooled(item: LearnedCriterion) -> bool:
    return item.criterion is not None and item.criterion.scope == "node"


def _groups(item: LearnedCriterion) -> list[tuple[str, str, str, str]]:
    """Return which groups were found next to the majority: metric and side, undecided ones by the latter."""
    undecided = [(*_place(item), UNDECIDED)] if item.undecided is not None else []
    return undecided or [(*_place(item), cluster.side) for cluster in item.clusters]


def _least_loss(criterion: Criterion) -> float:
    """Return the smallest loss that a criterion finds, on one scale for both directions, in [0, 1]."""
    least = criterion.detectable or 0.0
    return least / (1 + least) if criterion.metric.better == "lower" else least


def _remedy(name: str, share: float, rejects: str) -> str:
    """Name the option that mends it, and its price; one that costs too much is no mend."""
    if share > DEAREST:
        return (
            f"no --promise mends it: one of {100 * PROMISED:.0f} % would reject {rejects}; measure it "
            f"longer, or leave it out: --without {name}"
        )
    return (
        f"--promise {name}={PROMISED:.0%} makes a loss of {100 * PROMISED:.0f} % fail all the same"
        + (f", and rejects {rejects}" if rejects else "")
    )


def _unrepeatable(criterion: Criterion) -> str:
    """Say so when a metric cannot show a loss as small as alpha asks for; of what is coarse it is known."""
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
