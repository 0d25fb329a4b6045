"""What all nodes of a class lose together is said, though no node is rejected for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.core.verdict import Decision
from pytest_anubis.validator import learn_baseline
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet, judge_fleet

CARDS = 4


def fleet(seed: int, nodes: int, loss: float = 0.0, *, some: int | None = None) -> Population:
    """Return one value a card, with nodes that differ; the first `some` of them (all) lose a share."""
    rng = np.random.default_rng(seed)
    of_node = rng.normal(0, 0.008, nodes) + np.log(1 - loss) * (
        np.arange(nodes) < (nodes if some is None else some)
    )
    values = 100 * np.exp(of_node[:, None] + rng.normal(0, 0.008, (nodes, CARDS)))
    return population_of(
        [[value] for value in values.ravel().tolist()],
        metric=Metric(name="step_rate", unit="1/s", better="higher"),
        benchmark="t.py::training",
        nodes=[f"n{n}" for n in range(nodes) for _ in range(CARDS)],
        devices=[f"cuda:{c}" for _ in range(nodes) for c in range(CARDS)],
        runs=["r"] * nodes * CARDS,
    )


def judged(*several: Population) -> JudgedFleet:
    learned = learn_baseline([fleet(0, 100)], hardware_class="", created="2026-01-01")
    return judge_fleet(several, {"": learned})


def offsets(found: JudgedFleet) -> Sequence[str]:
    return [one.text for one in found.findings if one.kind == "class-offset"]


def test_a_small_loss_of_all_nodes_is_said_and_rejects_none() -> None:
    found = judged(fleet(1, 40, 0.02))
    assert len(offsets(found)) == 1
    accepted = [node.decision is Decision.ACCEPTED for node in found.nodes]
    assert sum(accepted) >= 38


@pytest.mark.parametrize("seed", range(20))
def test_nodes_like_those_that_were_learned_lose_nothing(seed: int) -> None:
    assert not offsets(judged(fleet(100 + seed, 40)))


def test_a_loss_of_some_nodes_is_no_loss_of_all() -> None:
    assert not offsets(judged(fleet(2, 40, 0.04, some=12)))


def test_few_nodes_and_better_nodes_are_not_compared() -> None:
    assert not offsets(judged(fleet(3, 6, 0.02)))
    assert not offsets(judged(fleet(4, 40, -0.03)))
    lower = replace(fleet(5, 40, 0.02), benchmark="t.py::other")
    assert not offsets(judged(lower))
