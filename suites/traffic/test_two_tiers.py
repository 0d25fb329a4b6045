"""An all-reduce that loads two tiers of links at once, which other benchmarks load one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis import MetricFixture

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
    metrics=["within_share", "across_share"],
    profiles=("standard", "soak"),
    resources=["cpu", "network"],
    goal="Links within halves of the node and across them keep their rates when both carry data",
    question="Which share of its rate alone has each tier in an all-reduce that loads both at once?",
    action="A share below the class's with normal rates alone is what tiers share: a switch, its power, PCIe "
    "root ports, memory; compare the node's map with a healthy one",
)
def test_two_tiers(
    anubis_metric: MetricFixture,
    ranks: TrafficGroup,
    record_property: Callable[[str, object], None],
) -> None:
    """Chunks that begin within or across groups, shared out by load, keep both tiers busy; sums are right."""
    from suites.traffic.group import groups_of, times_within

    if groups_of(ranks.world) == 1:
        pytest.skip(f"not applicable: {ranks.world} ranks are no two groups of two or more")
    size = ON_ACCELERATORS if ranks.on_accelerators else ON_A_HOST
    seen, stages = ranks.prepare_tiers(size, CHUNKS, WARM)
    inside = sum(stage.tier == 0 for stage in stages if stage.place == 0)
    rates = " and ".join(f"{tier.bandwidth / 1e9:.3g}" for tier in seen)
    record_property("chunks", f"{inside} of {CHUNKS} begin within, by {rates} GB/s of the tiers")
    one = ranks.tiers(stages)
    times = times_within(ranks.loaded, one.within + one.across + one.together)
    taken: dict[float, Any] = {}

    def share() -> float:
        tiers = ranks.tiers(stages, times)
        found = tiers.within / tiers.together
        taken[found] = tiers.across / tiers.together
        return found

    kept = anubis_metric.collect("within_share", share, unit="1", better="higher")
    # Of the same rounds, as each has all forms.
    anubis_metric.record(
        "across_share",
        [taken[value] for value in kept],
        unit="1",
        better="higher",
        rounds_of="within_share",
    )
    wrong = ranks.wrong_in_tiers(stages)
    assert wrong == 0, f"{wrong} sums over {ranks.world} ranks and two tiers are wrong"
