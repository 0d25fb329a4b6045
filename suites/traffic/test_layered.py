"""Gradients exchanged layer by layer behind a step's products: what is needed first overtakes the others."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis import MetricFixture
from pytest_anubis.benchmarking.turns import values_in_turns
from suites.shared_ranks import times_within

if TYPE_CHECKING:
    from suites.traffic.group import Orders, TrafficGroup

MIB = 1 << 20
ON_ACCELERATORS: dict[str, Any] = {
    "size": 0, "products": 32, "order": 2048, "dtype": "bfloat16",
}  # fmt: skip
ON_A_HOST: dict[str, Any] = {
    "size": 16 * MIB, "products": 16, "order": 256, "dtype": "float32",
}  # fmt: skip
"""Bytes of all gradients, 0 for the network's own in single precision; products of a forward pass."""

TURNS = 5
"""Values of both orders, for the property."""

WARM = 3
"""Steps before the first that counts: the order is planned from them."""


@pytest.mark.anubis(
    component="traffic.layered",
    scope="node",
    cost={"cpu": "40s", "accelerator": {1: "0.1s", 2: "15s"}},
    deadline="420s",
    metrics=["layered_step"],
    profiles=("standard", "soak"),
    resources=["cpu", "network"],
    goal="Trainings hide the exchange of gradients behind their products as well as on their class's nodes",
    question="How long is a step whose gradients travel in chunks, those needed first overtaking the others?",
    action="If products and all-reduce alone are normal, look for what many small exchanges need: cores of "
    "the communication threads, launches, the links' latency",
)
@pytest.mark.parametrize("network", ["vgg16", "resnet50"])
def test_layered(
    anubis_metric: MetricFixture,
    ranks: TrafficGroup,
    record_property: Callable[[str, object], None],
    network: str,
) -> None:
    """A step that exchanges buckets of a network by priority takes its time, and all sums are right."""
    orders = ranks.prepare_layers(
        network, **(ON_ACCELERATORS if ranks.on_accelerators else ON_A_HOST), warm=WARM
    )
    times = times_within(ranks.loaded, ranks.layered_step(orders.first_needed))
    compared = values_in_turns(
        {
            "first in, first out": partial(ranks.layered_step, orders.first_come, times),
            "by priority": partial(ranks.layered_step, orders.first_needed, times),
        },
        rounds=TURNS,
    )
    said = [f"{name} {1e3 * statistics.median(took):.3g} ms" for name, took in compared.items()]
    record_property("layered_step", ", ".join(said))
    anubis_metric.collect(
        "layered_step",
        lambda: ranks.layered_step(orders.first_needed, times) * 1e3,
        unit="ms",
        better="lower",
    )
    right_sums(ranks, orders)


def right_sums(ranks: TrafficGroup, orders: Orders) -> None:
    """Assert that the gradients of both orders are the same: the sums over all ranks, exactly."""
    for name, order in (("first come", orders.first_come), ("priority", orders.first_needed)):
        wrong = ranks.wrong_in_layers(order)
        assert wrong == 0, f"{wrong} sums or rows of a product by {name} are wrong"
