"""Computing and communicating at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture
from suites.joint_rounds import collect_with
from suites.shared_ranks import times_within

if TYPE_CHECKING:
    from suites.collective.group import RankGroup

MIB = 1 << 20
ON_ACCELERATORS = {"size": 1536 * MIB, "products": 4, "order": 8192}
"""Six milliseconds of each on eight H100: what a shorter all-reduce loses is hidden behind the products."""

STEPS = 3
"""Steps a round on a host: single ones vary with who wakes whom, and more of them would last too long to
stand between two readings of the host's state."""


@pytest.mark.anubis(
    component="collective.overlap",
    scope="node",
    cost={
        "cpu": "6s",
        "accelerator": {1: "0.1s", 2: "10s"},
    },  # the ranks of the all-reduce are there
    profiles={"cpu": ("standard", "soak"), "accelerator": ("smoke", "standard", "soak")},
    deadline="300s",
    metrics=["overlap_stretch", "overlapped_step"],
    resources=["cpu", "network"],
    goal="Training hides its communication behind its computing as well as on its class's nodes",
    question="How much longer is a step when an all-reduce runs behind the matrix products?",
    action="If GEMM and all-reduce alone are normal, look for what they share: power limit, memory "
    "bandwidth, cores of the communication threads",
)
def test_overlap(anubis_metric: MetricFixture, ranks: RankGroup) -> None:
    """An all-reduce behind matrix products stretches them as little as on other nodes; both are right."""
    from suites.collective.group import LOADED

    if ranks.on_accelerators:
        size = ranks.fitting(ON_ACCELERATORS["size"])
        ranks.prepare(**{**ON_ACCELERATORS, "size": size}, dtype="bfloat16")
    else:
        ranks.prepare(8 * MIB, products=3, order=512, dtype="float32")
    for _ in range(3):
        step = ranks.overlap(STEPS)
    steps = STEPS
    if ranks.on_accelerators:
        one = step.compute + step.communicate + step.together
        steps = max(STEPS, times_within(LOADED, one))

    def stretch() -> tuple[float, float]:
        parts = ranks.overlap(steps)
        return parts.stretch, parts.together * 1e3

    together = collect_with(anubis_metric, "overlap_stretch", stretch, unit="1", better="lower")
    anubis_metric.record(
        "overlapped_step",
        together,  # of the same rounds, as each times all parts
        unit="ms",
        better="lower",
        rounds_of="overlap_stretch",
    )
    wrong = ranks.wrong_elements()
    assert wrong == 0, f"{wrong} elements of the overlapped sum and products are wrong"
