from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.validator import learn_criterion, one_sided
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.limits.leave_one_out import leave_one_out_losses
from tests.validator.known import known


@given(
    st.lists(st.integers(3, 6), min_size=4, max_size=4),
    st.integers(0, 10**6),
    st.sampled_from(["higher", "lower"]),
)
def test_equals_learning_again_without_the_node(
    counts: list[int], seed: int, better: Direction
) -> None:
    owners = [node for node, count in enumerate(counts) for _ in range(count)]
    rng = np.random.default_rng(seed)
    samples = [rng.uniform(99, 101, 3) for _ in owners]

    def learn(chosen: list[int]) -> LearnedCriterion:
        population = population_of(
            [samples[i] for i in chosen],
            metric=Metric(name="m", unit="s", better=better),
            benchmark="b",
            nodes=[f"n{owners[i]}" for i in chosen],
            devices=[str(i) for i in chosen],
        )
        return learn_criterion(population)

    everyone = list(range(len(owners)))
    learned = learn(everyone)
    losses = leave_one_out_losses(learned.rows, learned.losses, learned.rows.usable)
    for node in range(4):
        others = learn([i for i in everyone if owners[i] != node])
        centre = known(others.criterion).centre
        for i in everyone:
            if owners[i] == node:
                loss = 1 - one_sided(samples[i], centre, better)
                assert losses[i] == pytest.approx(loss, abs=1e-9)
