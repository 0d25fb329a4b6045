"""An all-reduce that loads two tiers of links at once, which other benchmarks load one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture
from suites.shared_ranks import times_within

if TYPE_CHECKING:
    from suites.traffic.group import TrafficGroup

MIB = 1 << 20
ON_ACCELERATORS, ON_A_HOST = 1024 * MIB, 16 * MIB
"""Bytes of the buffer."""

CHUNKS = 16
WARM = 3


@pytest.mark.anubis(
    component="traffic.tiers",
    scope="node",
    cost={"cpu": "0.1s", "accelerator": {1: "0.1s", 2: "0.1s", 4: "15s"}},
    deadline="420s",
    metrics=["tiers_stretch"],
    profiles=("standard", "soak"),
    resources=["cpu", "network"],
    goal="Links within halves of the node and across them keep their rates when both carry data",
    question="How much longer is an all-reduce that loads both tiers at once than the busier tier alone?",
    action="With normal rates of each tier alone (property `tier_rates`) look at what both share: a switch, "
    "its power, PCIe root ports, memory; compare the node's map with a healthy one. Else at the slow tier",
)
def test_two_tiers(
    anubis_metric: MetricFixture,
    ranks: TrafficGroup,
    record_property: Callable[[str, object], None],
) -> None:
    """Chunks that begin within or across groups, shared out by load, keep both tiers busy; sums are right."""
    from suites.traffic.group import groups_of

    if groups_of(ranks.world) == 1:
        pytest.skip(f"not applicable: {ranks.world} ranks are no two groups of two or more")
    size = ON_ACCELERATORS if ranks.on_accelerators else ON_A_HOST
    seen, stages = ranks.prepare_tiers(size, CHUNKS, WARM)
    inside = sum(stage.tier == 0 for stage in stages if stage.place == 0)
    within, across = (f"{tier.bandwidth / 1e9:.3g} GB/s" for tier in seen)
    record_property(
        "tier_rates",
        f"alone {within} within, {across} across: {inside} of {CHUNKS} chunks begin within",
    )
    one = ranks.tiers(stages)
    times = times_within(ranks.loaded, one.within + one.across + one.together)
    anubis_metric.collect(
        "tiers_stretch", lambda: ranks.tiers(stages, times).stretch, unit="1", better="lower"
    )
    wrong = ranks.wrong_in_tiers(stages)
    assert wrong == 0, f"{wrong} sums over {ranks.world} ranks and two tiers are wrong"
