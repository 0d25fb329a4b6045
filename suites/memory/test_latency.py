"""Memory latency by a chain of dependent loads, from the second-level cache to the memory."""

from __future__ import annotations

import pytest

from pytest_anubis import MetricFixture

STEPS = {"l2": 5_000_000, "llc": 1_500_000, "dram": 250_000}
"""Loads a round: a few tens of milliseconds each."""


@pytest.mark.anubis(
    component="memory.latency",
    scope="node",
    cost="2s",
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
