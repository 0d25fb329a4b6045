"""A mixture of experts spread over the ranks: many-to-many traffic, hidden behind products or not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis import MetricFixture
from pytest_anubis.benchmarking.precision import tolerance
from pytest_anubis.benchmarking.turns import values_in_turns
from suites.joint_rounds import collect_with
from suites.shared_ranks import times_within

if TYPE_CHECKING:
    from suites.traffic.group import PartTimes, TrafficGroup, Way

ON_ACCELERATORS: dict[str, Any] = {
    "width": 2048, "inner": 4096, "tokens": 8192, "dtype": "bfloat16",
}  # fmt: skip
ON_A_HOST: dict[str, Any] = {"width": 256, "inner": 512, "tokens": 1024, "dtype": "float32"}
"""Tokens of each rank; two experts on each, two for a token: one accelerator of eight sends 73 MB one way."""

TURNS = 5
"""Values of each way of which the quickest is chosen."""

WARM = 2
"""Layers before the first that counts: libraries choose kernels, and links and buffers are made."""


@pytest.mark.anubis(
    component="traffic.experts",
    scope="node",
    cost={"cpu": "45s", "accelerator": {1: "0.1s", 2: "20s"}},
    deadline="420s",
    version=2,  # `exchange_stretch` is over the longer part, not always over the products
    metrics=["layer_rate", "exchange_rate", "exchange_stretch"],
    profiles=("standard", "soak"),
    resources=["cpu", "network"],
    goal="A mixture of experts spread over the node's devices runs at the rate of its class",
    question="How many tokens a second pass experts on all ranks, and what does their exchange cost?",
    action="A low exchange with a normal all-reduce: links or planes that only many-to-many traffic loads, "
    "so run the peer copies; a long stretch with a normal exchange: power or memory that both share",
)
def test_experts(
    anubis_metric: MetricFixture,
    ranks: TrafficGroup,
    record_property: Callable[[str, object], None],
) -> None:
    """Tokens reach their experts on all ranks, all of them right, in the way that is quickest here."""
    size = ON_ACCELERATORS if ranks.on_accelerators else ON_A_HOST
    carried = ranks.prepare_experts(**size)
    way = choose(ranks, record_property)
    one = ranks.layer(way)
    times = times_within(ranks.loaded, one.alone + one.exchange + one.together)

    def rate() -> tuple[float, PartTimes]:
        layer = ranks.layer(way, times)
        return ranks.world * size["tokens"] / layer.together, layer

    kept = collect_with(anubis_metric, "layer_rate", rate, unit="tokens/s", better="higher")
    # Of the same rounds, as each has all forms.
    anubis_metric.record(
        "exchange_rate",
        [carried / layer.exchange / 1e9 for layer in kept],
        unit="GB/s",
        better="higher",
        rounds_of="layer_rate",
    )
    anubis_metric.record(
        "exchange_stretch",
        [layer.stretch for layer in kept],
        unit="1",
        better="lower",
        rounds_of="layer_rate",
    )
    right_layer(ranks, way)


def choose(ranks: TrafficGroup, record_property: Callable[[str, object], None]) -> Way:
    """Time all ways in turns, and return the quickest, which becomes a property of the test."""
    from suites.traffic.group import quickest

    ways = ranks.ways()
    one = max(ranks.layer_seconds(way, WARM) for way in ways)
    times = times_within(ranks.loaded / 2, one)
    asked = {way: partial(ranks.layer_seconds, way, times) for way in ways}
    seconds = values_in_turns(asked, rounds=TURNS)
    way = quickest(seconds)
    others = ", ".join(f"{other} {1e3 * min(seconds[other]):.3g} ms" for other in ways)
    record_property("exchange_way", f"{way}; least of {TURNS}: {others}")
    return way


def right_layer(ranks: TrafficGroup, way: Way) -> None:
    """Assert that a small layer is that of a loop over its tokens, and that no number goes astray."""
    from suites.traffic.group import SMALL

    errors, wrong = ranks.check_experts(way)
    for dtype, error in errors.items():
        most = tolerance(dtype, terms=SMALL["width"] * SMALL["inner"])
        assert error < most, f"experts in {dtype} are off by {error:.1e}, tolerance {most:.0e}"
    assert wrong == 0, f"{wrong} numbers were changed on their way to experts and back ({way})"
