"""Other references than the fleet: the other devices of the same node, and the node's own history.

Both work without a baseline; both can reject or warn, but neither can accept (docs/validator.md): peers
are blind to a node that is slow as a whole, its own history to one that was slow from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray, Population, population_of
from pytest_anubis.core.verdict import MetricVerdict, Reference
from pytest_anubis.validator.judging import judge_sample
from pytest_anubis.validator.learning import FEWEST, LearnedCriterion, learn_criterion
from pytest_anubis.validator.peers import judge_by_peers


def peers_criterion(
    others: Sequence[FloatArray], metric: Metric, *, alpha: float = 0.95, benchmark: str = ""
) -> Criterion | None:
    """Learn from the other devices of a node what is normal for one of them.

    The limit is the prediction bound for one more device, from the spread of the others.

    Args:
        others: One sample for each other device (of the same group, in the same run).
        metric: What was measured.
        alpha: Practical limit.
        benchmark: Benchmark id.

    Returns:
        None with fewer than three usable others.
    """
    return _from_samples(others, metric, alpha, benchmark)


def judge_peers(
    population: Population, *, alpha: float = 0.95, error_rate: float = 0.01
) -> list[MetricVerdict]:
    """Judge every device against the other devices of its node, in the same run.

    Args:
        population: Devices of one or more nodes; each node is judged on its own.
        alpha: Practical limit.
        error_rate: Chance that a healthy node is rejected; of several metrics see `judge_by_peers`.

    Returns:
        One verdict per row, in order; INCONCLUSIVE where a device has fewer than three usable peers.
    """
    (judged,) = judge_by_peers([population], alpha=alpha, error_rate=error_rate)
    return list(judged.verdicts())


def judge_self(
    values: FloatArray | Sequence[float],
    history: Sequence[FloatArray],
    *,
    metric: Metric,
    benchmark: str,
    alpha: float = 0.95,
    component: str = "",
    node: str = "",
    device: str = "",
    disturbance: Sequence[str] = (),
) -> MetricVerdict:
    """Judge a device against its own earlier runs: finds decay.

    Args:
        values: The values of this run.
        history: One sample for each earlier healthy run of the same device.
        metric: What was measured.
        benchmark: Benchmark id.
        alpha: Practical limit.
        component: Component to blame.
        node: Name of the node.
        device: Device within the node.
        disturbance: What disturbed the machine.

    Returns:
        INCONCLUSIVE with fewer than three earlier runs.
    """
    criterion = _from_samples(history, metric, alpha, benchmark)
    verdict = judge_sample(
        values,
        criterion,
        metric=metric,
        benchmark=benchmark,
        component=component,
        node=node,
        device=device,
        disturbance=disturbance,
        reference=Reference.SELF,
        population=f"{len(history)} earlier runs of this device",
    )
    if criterion is None:
        text = f"{metric.name} has {len(history)} earlier runs to compare with, {FEWEST} needed"
        return replace(verdict, text=text)
    return verdict


def strongest(
    values: FloatArray | Sequence[float],
    *,
    metric: Metric,
    benchmark: str,
    criterion: Criterion | None = None,
    baseline: Baseline | None = None,
    peers: Sequence[FloatArray] = (),
    history: Sequence[FloatArray] = (),
    alpha: float = 0.95,
    component: str = "",
    node: str = "",
    device: str = "",
    disturbance: Sequence[str] = (),
) -> MetricVerdict:
    """Judge by the strongest reference there is: the fleet, else the peers, else the own history.

    Args:
        values: The values of this run.
        metric: What was measured.
        benchmark: Benchmark id.
        criterion: The fleet's, if there is one.
        baseline: Where it is from.
        peers: Samples of the other devices of the node.
        history: Samples of earlier runs of the device.
        alpha: Practical limit without a baseline.
        component: Component to blame.
        node: Name of the node.
        device: Device within the node.
        disturbance: What disturbed the machine.

    Returns:
        A verdict that names its reference; without any, that there is no baseline or no criterion.
    """
    near = (
        None
        if criterion is not None
        else peers_criterion(peers, metric, alpha=alpha, benchmark=benchmark)
    )
    if criterion is None and near is None and len(history) >= FEWEST:
        return judge_self(
            values, history, metric=metric, benchmark=benchmark, alpha=alpha,
            component=component, node=node, device=device, disturbance=disturbance,
        )  # fmt: skip
    return judge_sample(
        values,
        criterion or near,
        baseline,
        metric=metric,
        benchmark=benchmark,
        disturbance=disturbance,
        reference=Reference.FLEET
        if criterion is not None
        else Reference.PEERS
        if near
        else Reference.NONE,
        population=f"{len(peers)} other devices of this node" if near else "",
        component=component,
        node=node,
        device=device,
    )


def _from_samples(
    samples: Sequence[FloatArray], metric: Metric, alpha: float, benchmark: str
) -> Criterion | None:
    learned = learned_from(samples, metric, alpha, benchmark)
    return learned.criterion if learned is not None else None


def learned_from(
    samples: Sequence[FloatArray], metric: Metric, alpha: float, benchmark: str
) -> LearnedCriterion | None:
    """Learn from samples as from runs of one machine; None with fewer than three."""
    if len(samples) < FEWEST:
        return None
    count = len(samples)
    return learn_criterion(
        population_of(
            [np.asarray(sample, dtype=np.float64) for sample in samples],
            metric=metric,
            benchmark=benchmark,
            nodes=["same"] * count,
            devices=["same"] * count,
            runs=[str(i) for i in range(count)],
        ),
        alpha=alpha,
        one_machine=True,
    )
