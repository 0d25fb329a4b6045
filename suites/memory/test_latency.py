"""Memory latency by a chain of dependent loads, from the second-level cache to the memory."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable

import pytest

from pytest_anubis import MetricFixture

STEPS = {"l2": 5_000_000, "llc": 1_500_000, "dram": 250_000}
"""Loads a round: a few tens of milliseconds each."""

ROUNDS = 11
"""Values of each pair of NUMA nodes."""


@pytest.mark.anubis(
    component="memory.latency",
    scope="node",
    cost="3s",
    metrics=["load_latency"],
    goal="The CPU gets at its data as quickly as its class does",
    question="How long does one load take that has to wait for the one before?",
    action="Compare CPU frequency, memory speed, NUMA and power-saving settings in the firmware with a "
    "healthy node; look for neighbours on the same socket",
)
@pytest.mark.parametrize("level", ["l2", "llc", "dram"])
def test_load_latency(anubis_metric: MetricFixture, level: str) -> None:
    """Loads come back in time and right, and every line of the chain holds what was written."""
    from suites.memory import chase, native
    from suites.memory.caches import memory_size, read_caches

    caches = read_caches()
    if level == "llc" and caches.last <= caches.level2:
        pytest.skip("not applicable: no cache behind the second level")
    compiler = native.find_compiler()
    if compiler is None:
        pytest.skip("no C compiler found: install one, e.g. apt install gcc")
    size = min(chase.footprint(level, caches), memory_size() // 8)
    library = native.load(chase.SOURCE, compiler, native.cache_folder())
    steps = STEPS[level]
    with chase.Chase(library, size) as chain:
        chain.run(min(chain.lines, 4 * steps))  # brings the lines where they belong
        anubis_metric.collect(
            "load_latency", lambda: chain.latency(steps), unit="ns", better="lower"
        )
        assert chain.arrived(), "the last loads led astray: one brought what was not written"
        wrong = chain.wrong_links()
        assert wrong == 0, (
            f"{wrong} of {chain.lines} lines of the chain do not hold what was written"
        )


@pytest.mark.anubis(
    component="memory.numa",
    scope="node",
    cost="2s",
    profiles=("standard", "soak"),
    metrics=["local_latency", "remote_latency"],
    goal="Every processor gets at its own memory and at its neighbours' as quickly as its class does",
    question="How long does one load take, from each processor to the memory of each?",
    action="Compare the pairs in the test's properties: one slow column is that node's memory, one slow row "
    "that processor, a single slow pair the link between the two",
)
def test_numa_latency(
    anubis_metric: MetricFixture, record_property: Callable[[str, object], None]
) -> None:
    """Loads from each node's CPUs to each node's memory come back in time and right."""
    from suites.memory import chase, native, numa
    from suites.memory.caches import memory_size, read_caches

    nodes = numa.read_nodes()
    starts = {node: cpus & os.sched_getaffinity(0) for node, cpus in nodes.items()}
    starts = {node: cpus for node, cpus in starts.items() if cpus}
    if len(nodes) < 2:
        pytest.skip("not applicable: one NUMA node")
    compiler = native.find_compiler()
    if compiler is None:
        pytest.skip("no C compiler found: install one, e.g. apt install gcc")
    library = native.load(chase.SOURCE, compiler, native.cache_folder())
    size = min(chase.footprint("dram", read_caches()), memory_size() // (8 * len(nodes)))
    latencies: dict[bool, list[float]] = {True: [], False: []}
    for start, cpus in starts.items():
        for end in nodes:
            try:
                with numa.place(cpus, end), chase.Chase(library, size) as chain:
                    chain.run(STEPS["dram"])
                    values = [chain.latency(STEPS["dram"]) for _ in range(ROUNDS)]
                    assert chain.arrived(), f"loads from node {start} to node {end} led astray"
                    wrong = chain.wrong_links()
            except numa.NotPossible as error:
                pytest.skip(str(error))
            assert wrong == 0, f"{wrong} lines of the chain in node {end}'s memory are wrong"
            record_property(f"node {start} to node {end}", f"{statistics.median(values):.1f} ns")
            latencies[start == end] += values
    for near, name in ((True, "local_latency"), (False, "remote_latency")):
        if latencies[near]:  # no local ones where this process may use no CPU beside memory
            anubis_metric.record(name, latencies[near], unit="ns", better="lower")
