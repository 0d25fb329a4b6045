"""Where about half of a small fleet is slow, no slow node passes as if nothing were known."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import judge_populations, learn_baseline


def fleet(nodes: int, slow: int, better: str = "higher") -> Population:
    """Return five values of each node; the first ones are half as fast."""
    values = 100 * np.exp(np.random.default_rng(nodes).normal(0, 0.005, (nodes, 5)))
    values[:slow] *= 0.5 if better == "higher" else 2.0
    unit = "GB/s" if better == "higher" else "ms"
    return population_of(
        values.tolist(),
        metric=Metric(name="gemm", unit=unit, better="higher" if better == "higher" else "lower"),
        benchmark="b",
        nodes=[f"n{n}" for n in range(nodes)],
        devices=["node"] * nodes,
        runs=["r"] * nodes,
    )


@pytest.mark.parametrize("better", ["higher", "lower"])
@pytest.mark.parametrize(("nodes", "slow"), [(8, 5), (10, 6), (12, 7), (10, 5), (30, 17)])
def test_a_node_of_an_open_slower_group_is_marginal(nodes: int, slow: int, better: str) -> None:
    population = fleet(nodes, slow, better)
    baseline = learn_baseline([population], hardware_class="", created="2026-01-01")
    assert baseline.undecided
    for judged in judge_populations([population], baseline):
        outcomes = [judged.verdict(row, baseline).outcome for row in range(slow)]
        assert set(outcomes) == {Outcome.MARGINAL}


@pytest.mark.parametrize(("nodes", "slow"), [(6, 4), (30, 20)])
def test_a_faster_group_is_a_finding(nodes: int, slow: int) -> None:
    found = learn_baseline([fleet(nodes, slow)], hardware_class="", created="2026-01-01").findings
    assert any("population" in finding.kind for finding in found)
    alike = learn_baseline([fleet(nodes, 0)], hardware_class="", created="2026-01-01").findings
    assert not any("population" in finding.kind for finding in alike)
