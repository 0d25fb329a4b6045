"""A card's memory by footprint: writing alone, what the second-level cache delivers, dependent loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture
from pytest_anubis.benchmarking.capture import EAGER, as_graph

if TYPE_CHECKING:
    import torch

    from suites.memory.card_rates import CardChase

WRITTEN = {"smoke": 1 << 30, "standard": 2 << 30, "soak": 4 << 30}
"""Bytes of the array: far larger than caches of tens of megabytes."""

CACHED = 16 << 20
"""Most bytes that are read from the second-level cache: half of a card's cache is near a unit, half far away,
and what is in use by both halves is there twice."""

READ = 1 << 30
"""Bytes that one launch reads from the cache, at least: 0.1 ms at 10 TB/s, which makes the launch itself
small, however small the card's reported cache is."""

STEPS = 128
"""Pairs of dependent loads that are launched as one graph."""

WALKS = 32
"""Graphs of a value: 8,192 loads of a microsecond or two each, some tens of milliseconds."""

LEAD = 10
"""Values' worth of walks before anything counts: an idle card's clocks have to rise."""

LINE = 128
"""Bytes of a cache line of every card of today, or two of 64: a footprint where no load is far away."""

LONGER = pytest.mark.anubis(profiles=("standard", "soak"))

pytestmark = pytest.mark.anubis(
    scope="device",
    action="Compare the memory clock with a healthy card's, read its corrected errors and remapped rows, "
    "and run the patterns over all of its memory",
)


def cache_of(anubis_device: DeviceFixture) -> int:
    """Return the bytes that are read from a card's second-level cache: a quarter of what it has."""
    import torch

    cache = 0
    if anubis_device.kind == "cuda":
        properties = torch.cuda.get_device_properties(anubis_device.torch)
        cache = getattr(properties, "L2_cache_size", 0)
    if not cache:
        pytest.skip("the size of this device's cache is unknown")
    return min(cache // 4, CACHED)


@pytest.mark.anubis(
    component="memory.bandwidth",
    cost="12s",
    cards=1,
    profiles=("standard", "soak"),
    metrics=["write_rate"],
    goal="Memory feeds the arithmetic units at the rate of its class",
    question="Does writing alone reach the rate of its class?",
)
def test_write(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """An array far larger than the caches is written at its rate, and every element is right."""
    from pytest_anubis.benchmarking.sizes import fitting
    from suites.memory.card_rates import Write

    wanted = anubis_node.pick(**WRITTEN)
    write = Write(fitting(wanted, anubis_device.torch) // 8, anubis_device.torch)
    anubis_metric.measure("write_rate", write.run, work=write.bytes, unit="GB/s", better="higher")
    wrong = write.wrong_elements()
    assert wrong == 0, f"{wrong} elements do not hold what was written last"


@pytest.mark.anubis(
    component="memory.cache",
    cost="2.5s",
    cards=1,
    metrics=["cache_rate"],
    goal="The cache that all units of a card share delivers the rate of its class",
    question="How quickly do all units together read what the second-level cache holds?",
    action="Compare the clock under load; a card that is slow here only lost a part of its cache",
)
def test_cache(anubis_metric: MetricFixture, anubis_device: DeviceFixture) -> None:
    """An array that fits into the cache is read at its rate, and every sum is right."""
    from suites.memory.card_rates import CacheRead

    footprint = cache_of(anubis_device)
    sums = -(-READ // footprint)
    read = CacheRead(footprint, sums, anubis_device.torch)
    anubis_metric.measure("cache_rate", read.run, work=read.bytes, unit="GB/s", better="higher")
    read.run()
    wrong = read.wrong_sums()
    assert wrong == 0, f"{wrong} of {sums} sums are wrong"


@pytest.mark.anubis(
    component="memory.latency",
    cost="2s",
    cards=1,
    metrics=["chase_time"],
    goal="A card gets at its data as quickly as its class does",
    question="How long do a launch and its one load take together, where each needs what the one before "
    "brought?",
)
@pytest.mark.parametrize(
    "level",
    # A slow second level shows in the rate of `test_cache` too, the launch in what memory takes.
    [*(pytest.param(one, marks=LONGER) for one in ("line", "l2")), "memory"],
)
def test_chase(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
    level: str,
) -> None:
    """Dependent loads, a launch each and all in one graph, come back in time and lead where they should."""
    from suites.memory.card_rates import load_times

    chase = chase_through(level, anubis_device, anubis_node)
    walk, group = captured(chase, anubis_device.torch, record_property)
    load_times([walk], 2 * STEPS, LEAD * WALKS, anubis_device.torch)
    anubis_metric.collect(
        "chase_time",
        lambda: load_times([walk], 2 * STEPS, WALKS, anubis_device.torch)[0],
        unit="ns",
        better="lower",
        group=group,
        clock="device",
    )
    assert_right(chase, walk, anubis_device)


@pytest.mark.anubis(
    component="memory.latency",
    cost="12s",
    cards=1,
    profiles=("standard", "soak"),
    metrics=["far_load_time"],
    goal="A card gets at its data as quickly as its class does",
    question="How much longer does a load take that memory has to answer than one of a line in the cache?",
)
def test_far_load(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
) -> None:
    """Loads from memory and from one line in turns, whose launches are the same, differ by what is right."""
    from suites.memory.card_rates import load_times

    chases = [chase_through(level, anubis_device, anubis_node) for level in ("memory", "line")]
    walks, groups = zip(
        *(captured(chase, anubis_device.torch, record_property) for chase in chases), strict=True
    )
    if any(groups):
        pytest.skip("no graph can be captured: the host's launches hide how long a load takes")
    load_times(walks, 2 * STEPS, LEAD * WALKS, anubis_device.torch)

    def difference() -> float:
        far, near = load_times(walks, 2 * STEPS, WALKS, anubis_device.torch)
        return far - near

    anubis_metric.collect("far_load_time", difference, unit="ns", better="lower", clock="device")
    for chase, walk in zip(chases, walks, strict=True):
        assert_right(chase, walk, anubis_device)


def chase_through(level: str, device: DeviceFixture, node: NodeFixture) -> CardChase:
    """Return a chase through one line, a quarter of the cache, or far more than the caches."""
    if device.kind != "cuda":
        pytest.skip("not applicable: only launches of NVIDIA's and AMD's accelerators make a graph")
    from pytest_anubis.benchmarking.sizes import fitting
    from suites.memory.card_rates import CardChase

    if level == "memory":
        return CardChase(fitting(node.pick(**WRITTEN), device.torch), device.torch)
    return CardChase(LINE if level == "line" else cache_of(device), device.torch)


def assert_right(chase: CardChase, walk: Callable[[], object], device: DeviceFixture) -> None:
    """Assert that a walk ends where it should and that every place holds what was written."""
    chase.begin()
    walk()
    device.synchronize()
    assert chase.arrived(STEPS), "the last loads led astray: one brought what was not written"
    wrong = chase.wrong_links()
    assert wrong == 0, f"{wrong} places do not hold what was written"


def captured(
    chase: CardChase, device: torch.device, record_property: Callable[[str, object], None]
) -> tuple[Callable[[], object], str]:
    """Return what walks `STEPS` pairs of loads, a graph where one can be captured, and its values' group.

    What the host launches one by one takes several times as long: compared with its like only.
    """
    graph, reason = as_graph(lambda: chase.run(STEPS), device, first=lambda: chase.run(1))
    record_property("chase", f"eager: {reason}" if reason else "captured as a graph")
    if graph is None:
        return lambda: chase.run(STEPS), EAGER
    return graph.replay, ""
