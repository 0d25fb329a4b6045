from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.validator import learn_criterion, one_sided
from pytest_anubis.validator.limits.leave_one_out import leave_one_out_losses


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

    def learn(chosen: list[int]) -> tuple[float, ...]:
        learned = learn_criterion(
            population_of(
                [samples[i] for i in chosen],
                metric=Metric(name="m", unit="s", better=better),
                benchmark="b",
                nodes=[f"n{owners[i]}" for i in chosen],
                devices=[str(i) for i in chosen],
            )
        )
        assert learned.criterion is not None
        return learned.criterion.centre

    everyone = list(range(len(owners)))
    learned = learn_criterion(
        population_of(
            samples,
            metric=Metric(name="m", unit="s", better=better),
            benchmark="b",
            nodes=[f"n{o}" for o in owners],
            devices=[str(i) for i in everyone],
        )
    )
    losses = leave_one_out_losses(learned.rows, learned.losses, learned.rows.usable)
    for node in range(4):
        centre = learn([i for i in everyone if owners[i] != node])
        for i in everyone:
            if owners[i] == node:
                assert losses[i] == pytest.approx(
                    1 - one_sided(samples[i], centre, better), abs=1e-9
                )
