"""Disks that differ much and answer with heavy tails: whoever is far beyond that fails all the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator.judging.sample_judging import judge_sample
from pytest_anubis.validator.learning.baseline_learning import learn_baseline

DISKS, VALUES = 60, 200
SLOW = {7: 2.0, 23: 5.0, 41: 11.0}
"""Disk -> how many times as slow it is."""


def disks(seed: int, slow: Mapping[int, float]) -> Population:
    """Return latencies: t with three degrees on the log scale, sigma .3 between disks."""
    rng = np.random.default_rng(seed)
    levels = 5 * np.exp(0.3 * rng.standard_normal(DISKS))
    gather = Gather()
    for disk, level in enumerate(levels.tolist()):
        values = level * slow.get(disk, 1.0) * np.exp(0.2 * rng.standard_t(3, VALUES))
        gather.add(
            hardware_class="c",
            benchmark="test_disk.py::test_disk",
            component="storage.disk",
            group="",
            node=f"n{disk:02}",
            device="node",
            run="r",
            metric=Metric(name="latency", unit="ms", better="lower"),
            values=values.tolist(),
        )
    [population] = gather.populations()
    return population


@pytest.mark.parametrize("seed", range(3))
def test_a_disk_many_times_as_slow_fails_among_disks_that_differ(seed: int) -> None:
    population = disks(seed, SLOW)
    baseline = learn_baseline(
        [population], hardware_class="c", created="2026-01-01T00:00:00Z", alpha=0.6
    )
    [criterion] = baseline.criteria
    assert criterion.alpha == 0.6  # as typed, whatever the noise
    assert criterion.coarse  # of disks that differ so, half of the speed is no surprise
    found = [
        judge_sample(population.sample(row), criterion, baseline).outcome for row in range(DISKS)
    ]
    assert found[23] is found[41] is Outcome.FAIL
    if SLOW[7] - 1 >= (criterion.detectable or 0.0):
        assert found[7] in (Outcome.FAIL, Outcome.MARGINAL)
    healthy = [outcome for row, outcome in enumerate(found) if row not in SLOW]
    assert healthy.count(Outcome.FAIL) <= 2
