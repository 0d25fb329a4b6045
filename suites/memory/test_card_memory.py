"""A card's memory by footprint: writing alone, what the second-level cache delivers, dependent loads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture
from pytest_anubis.benchmarking.capture import EAGER, as_graph

WRITTEN = {"smoke": 1 << 30, "standard": 2 << 30, "soak": 4 << 30}
"""Bytes of the array: far larger than caches of tens of megabytes."""

CACHED = 16 << 20
"""Most bytes that are read from the second-level cache: half of a card's cache is near a unit, half far away,
and what is in use by both halves is there twice."""

SUMS = 64
"""How often one launch reads them: a gigabyte, which makes the launch itself small."""

STEPS = 128
"""Pairs of dependent loads that are launched as one graph."""

_GOAL = "Memory feeds the arithmetic units at the rate of its class"
_ACTION = (
    "Compare the memory clock with a healthy card's, read its corrected errors and remapped rows, and run "
    "the patterns over all of its memory"
)


def cache_of(anubis_device: DeviceFixture) -> int:
    """Return the bytes that are read from a card's second-level cache: a quarter of what it has."""
    import torch

    told = 0
    if anubis_device.kind == "cuda":
        properties = torch.cuda.get_device_properties(anubis_device.torch)
        told = getattr(properties, "L2_cache_size", 0)
    if not told:
        pytest.skip("nobody says how large this device's cache is")
    return min(told // 4, CACHED)


@pytest.mark.anubis(
    component="memory.bandwidth",
    scope="device",
    cost="3s",
    metrics=["write_rate"],
    goal=_GOAL,
    question="Does writing alone reach the rate of its class?",
    action=_ACTION,
)
def test_write(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """An array far larger than the caches is written at its rate, and every element is right."""
    if anubis_device.kind == "cpu":
        pytest.skip("not applicable: no accelerator")
    from pytest_anubis.benchmarking.sizes import fitting
    from suites.memory.card_rates import Write

    wanted = anubis_node.pick(**WRITTEN)
    write = Write(fitting(wanted, anubis_device.torch) // 8, anubis_device.torch)
    anubis_metric.measure("write_rate", write.run, work=write.bytes, unit="GB/s", better="higher")
    wrong = write.wrong_elements()
    assert wrong == 0, f"{wrong} elements do not hold what was written last"


@pytest.mark.anubis(
    component="memory.cache",
    scope="device",
    cost="3s",
    metrics=["cache_rate"],
    goal="The cache that all units of a card share delivers the rate of its class",
    question="How quickly do all units together read what the second-level cache holds?",
    action="Compare the clock under load; a card that is slow here only lost a part of its cache",
)
def test_cache(anubis_metric: MetricFixture, anubis_device: DeviceFixture) -> None:
    """An array that fits into the cache is read at its rate, and every sum is right."""
    if anubis_device.kind == "cpu":
        pytest.skip("not applicable: no accelerator")
    from suites.memory.card_rates import CacheRead

    read = CacheRead(cache_of(anubis_device), SUMS, anubis_device.torch)
    anubis_metric.measure("cache_rate", read.run, work=read.bytes, unit="GB/s", better="higher")
    read.run()
    wrong = read.wrong_sums()
    assert wrong == 0, f"{wrong} of {SUMS} sums are wrong"


@pytest.mark.anubis(
    component="memory.latency",
    scope="device",
    cost="3s",
    metrics=["chase_time"],
    goal="A card gets at its data as quickly as its class does",
    question="How long does one launch take that needs what the one before brought?",
    action=_ACTION,
)
@pytest.mark.parametrize("level", ["l2", "memory"])
def test_chase(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
    level: str,
) -> None:
    """Dependent loads, a launch each and all in one graph, come back in time and lead where they should."""
    if anubis_device.kind != "cuda":
        pytest.skip(
            "not applicable: no accelerator of NVIDIA's or AMD's, whose launches make a graph"
        )
    from pytest_anubis.benchmarking.sizes import fitting
    from suites.memory.card_rates import CardChase

    device = anubis_device.torch
    size = (
        cache_of(anubis_device) if level == "l2" else fitting(anubis_node.pick(**WRITTEN), device)
    )
    chase = CardChase(size, device)
    graph, reason = as_graph(lambda: chase.run(STEPS), device, first=lambda: chase.run(1))
    record_property("chase", f"eager: {reason}" if reason else "captured as a graph")
    walk = graph.replay if graph is not None else lambda: chase.run(STEPS)
    group = EAGER if reason else ""
    anubis_metric.measure("chase_time", walk, unit="us", better="lower", group=group)
    chase.begin()
    walk()
    anubis_device.synchronize()
    assert chase.arrived(STEPS), "the last loads led astray: one brought what was not written"
    wrong = chase.wrong_links()
    assert wrong == 0, f"{wrong} places do not hold what was written"
