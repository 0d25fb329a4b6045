"""Tables of a recommendation network that are spread over ranks: lookups, updates and both exchanges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis import MetricFixture
from suites.shared_ranks import times_within

if TYPE_CHECKING:
    from suites.traffic.group import TrafficGroup

ON_ACCELERATORS: dict[str, Any] = {"rows": 1 << 20, "width": 128}
ON_A_HOST: dict[str, Any] = {"rows": 1 << 16, "width": 64}
"""Sizes of a table: 512 MiB on an accelerator, of which a rank has about eight, or less where that and what
a step draws take more than half of its memory."""

SAMPLES = {True: 4096, False: 256}
"""Of each rank in a step, on accelerators or not."""

ROW_WISE = 120
"""Rows that a sample sums of the first table, times the ranks: more than a rank's share of all, so that this
table is kept by rows."""

POOLING = (32, 24, 16, 12, 8, 6, 4)
"""Rows that a sample sums of the other tables, seven for each rank, which have equal work so."""

WARM = 3


@pytest.mark.anubis(
    component="traffic.tables",
    scope="node",
    cost={"cpu": "25s", "accelerator": {1: "0.1s", 2: "20s"}},
    deadline="420s",
    metrics=["sharded_rate"],
    profiles=("standard", "soak"),
    resources=["cpu", "network"],
    goal="Recommendation networks whose tables are spread over the node train at the rate of its class",
    question="How many samples a second look up and update tables that other ranks have?",
    action="Compare the test's properties with a healthy node: where lookups alone are slow look at the "
    "memory, where the exchange is run the collective operations and the copies between cards",
)
def test_sharded_tables(
    anubis_metric: MetricFixture,
    ranks: TrafficGroup,
    record_property: Callable[[str, object], None],
) -> None:
    """Steps of tables that are whole on ranks or spread by rows take their time, and all bits are right."""
    from suites.recommendation.placement import BY_ROWS, placed
    from suites.recommendation.tables import SMALL

    shape = ON_ACCELERATORS if ranks.on_accelerators else ON_A_HOST
    samples = SAMPLES[ranks.on_accelerators] * ranks.world
    pooling = (ROW_WISE * ranks.world, *(POOLING * ranks.world))
    places = placed(pooling, ranks.world)
    samples = ranks.prepare_tables(places, samples=samples, pooling=pooling, **shape)
    taken = [ranks.tables() for _ in range(WARM)]
    alone, exchange = min(one.alone for one in taken), min(one.exchange for one in taken)
    record_property(
        "sharded_step", f"without exchange {1e3 * alone:.3g} ms, exchange {1e3 * exchange:.3g} ms"
    )
    times = times_within(ranks.loaded, min(one.together for one in taken))
    anubis_metric.collect(
        "sharded_rate",
        lambda: samples / ranks.tables(times).together,
        unit="samples/s",
        better="higher",
    )
    wrong = ranks.wrong_rows()
    assert not wrong, f"wrong rows after timed steps: {'; '.join(wrong)}"
    for small in (placed(SMALL.pooling, ranks.world), [BY_ROWS] * SMALL.tables):
        right_tables(ranks, small)


def right_tables(ranks: TrafficGroup, places: list[int]) -> None:
    """Assert that small tables at their places have right sums, and after updates their constant bits."""
    import torch

    from suites.recommendation.tables import BITS, SMALL, bits_after_updates

    samples = -(-SMALL.samples // ranks.world) * ranks.world
    right = BITS
    if samples != SMALL.samples:
        right = bits_after_updates(torch.device("cpu"), replace(SMALL, samples=samples))
    wrong, bits = ranks.check_tables(places, samples)
    assert wrong == 0, f"{wrong} sums of tables at ranks {places} are wrong"
    assert bits == right, (
        f"updates of tables at ranks {places} left other bits than those of every device"
    )
