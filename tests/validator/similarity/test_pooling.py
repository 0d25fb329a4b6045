"""All values of a node as one sample, in memory or where values lie that are too many for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population
from pytest_anubis.store.samples.spilled_values import SpilledValues
from pytest_anubis.validator.similarity.pooling import pooled


@pytest.mark.parametrize("sizes", [[2] * 6, [3, 1, 2, 2, 4, 1]], ids=["even", "uneven"])
def test_nodes_in_any_order_are_pooled_alike_in_memory_and_on_a_shelf(
    sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    population = Population(
        hardware_class="c",
        benchmark="b",
        metric=Metric(name="m", unit="ms", better="lower"),
        component="network",
        nodes=("n10", "n2", "n10", "n1", "n2", "n1"),
        devices=("d0", "d0", "d1", "d0", "d1", "d1"),
        runs=("r",) * 6,
        values=np.arange(float(offsets[-1])),
        offsets=offsets,
    )
    samples = [population.sample(row).tolist() for row in range(6)]
    wanted = {
        "n1": samples[3] + samples[5],
        "n10": samples[0] + samples[2],
        "n2": samples[1] + samples[4],
    }
    monkeypatch.setattr("pytest_anubis.core.gather.CHUNK", 3)  # several parts
    monkeypatch.setattr("pytest_anubis.store.samples.spilled_values._SMALL", 0)
    with SpilledValues(0, tmp_path) as storage:
        for found in (pooled(population), pooled(population, storage)):
            result = {name: found.sample(row).tolist() for row, name in enumerate(found.nodes)}
            assert result == wanted
            assert np.array_equal(found.offsets, np.cumsum([0, *map(len, wanted.values())]))
        assert list(tmp_path.iterdir())  # where the values lie
