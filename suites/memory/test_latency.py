"""Memory latency by a chain of dependent loads, from the second-level cache to the memory."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from suites.joint_rounds import collect_jointly
from suites.memory import chase, native, numa
from suites.memory.caches import memory_size, read_caches

STEPS = {"l2": 5_000_000, "llc": 1_500_000, "dram": 250_000}
"""Loads a round: a few tens of milliseconds each."""

LOADS = {"l2": 4_000_000, "llc": 600_000, "dram": 100_000}
"""Loads of a round of one level alone: some twenty milliseconds."""

WARM = 4
"""Rounds whose loads bring the lines where they belong; memory's own lines have no such place."""

ROUNDS = 11
"""Values of each pair of NUMA nodes, and of each footprint."""

SWEPT = 64 << 20
"""Bytes up to which every machine's sweep goes."""

SHORT_ON_HOSTS = pytest.mark.anubis(
    cost={"cpu": "3s", "accelerator": "27s"},
    profiles={"cpu": ("smoke", "standard", "soak"), "accelerator": ("standard", "soak")},
)
"""Of what ``smoke`` measures on hosts, and leaves to longer profiles where there are accelerators to test."""


def right(chain: chase.Chase, where: str) -> None:
    """Assert that the last loads arrived where they lead, and that every line holds what was written."""
    assert chain.arrived(), f"the last loads {where} led astray: one brought what was not written"
    wrong = chain.wrong_links()
    assert wrong == 0, (
        f"{wrong} of {chain.lines} lines of the chain {where} do not hold what was written"
    )


@pytest.mark.anubis(
    component="memory.latency",
    scope="node",
    cost="3s",
    version=4,  # in a page of typical latency
    metrics=["load_latency"],
    goal="The CPU gets at its data as quickly as its class does",
    question="How long does one load take that has to wait for the one before?",
    action="Compare CPU frequency, memory speed, NUMA and power-saving settings in the firmware with a "
    "healthy node; look for neighbours on the same socket",
)
@pytest.mark.parametrize(
    "level", [*(pytest.param(one, marks=SHORT_ON_HOSTS) for one in ("l2", "llc")), "dram"]
)
def test_load_latency(anubis_metric: MetricFixture, anubis_node: NodeFixture, level: str) -> None:
    """Loads come back in time and right, and every line of the chain holds what was written."""
    caches = read_caches()
    if level == "llc" and caches.last <= caches.level2:
        pytest.skip("not applicable: no cache behind the second level")
    most = anubis_node.pick(smoke=768 << 20, standard=memory_size() // 8, soak=memory_size() // 8)
    size = min(chase.footprint(level, caches), memory_size() // 8, most)
    steps = LOADS[level]
    with chase.typical(native.compiled(chase.SOURCE), size) as chain:
        chain.run(min(chain.lines, WARM * steps))
        anubis_metric.collect(
            "load_latency", lambda: chain.latency(steps), unit="ns", better="lower"
        )
        right(chain, f"through {size} bytes")


@pytest.mark.anubis(
    component="memory.latency",
    scope="node",
    cost="60s",
    version=3,  # in pages of typical latency
    profiles=("standard", "soak"),
    metrics=[f"latency_{name}" for name in chase.sweep(SWEPT)],
    goal="The CPU gets at its data as quickly as its class does, however much of it there is",
    question="How long does one load take out of so many bytes?",
    action="The footprint from which on loads are slow points to the slow cache or pages: compare its "
    "size, ways that are taken away (resctrl), huge pages and neighbours with a healthy node",
)
def test_latency_by_footprint(anubis_metric: MetricFixture) -> None:
    """Loads out of each power of two of bytes up to four times the last cache come back in time and right."""
    caches = read_caches()
    # Half of the memory's eighth: a chain of the largest is as large as all the others together.
    sizes = chase.sweep(max(SWEPT, min(chase.footprint("dram", caches), memory_size() // 16)))
    library = native.compiled(chase.SOURCE)
    with ExitStack() as stack:
        chains = {
            name: stack.enter_context(chase.typical(library, size)) for name, size in sizes.items()
        }

        def through(name: str) -> float:
            """Return the latency of one footprint, whose lines the others have pushed out before."""
            steps = STEPS[
                "l2" if sizes[name] <= caches.level2 else "dram"
            ]  # ten milliseconds and more
            chains[name].run(min(chains[name].lines, WARM * steps))
            return chains[name].latency(steps)

        def once() -> dict[str, float]:
            return {f"latency_{name}": through(name) for name in sizes}

        *_, largest = sizes
        collect_jointly(
            anubis_metric, once, f"latency_{largest}", unit="ns", better="lower", rounds=ROUNDS
        )
        for name, chain in chains.items():
            right(chain, f"through {name}")


@pytest.mark.anubis(
    component="memory.numa",
    scope="node",
    cost="45s",
    profiles=("standard", "soak"),
    goal="Every processor gets at its own memory and at its neighbours' as quickly as its class does",
    question="How long does one load take, from each processor to the memory of each?",
    action="Compare the pairs: where all to one node are slow it is that node's memory, where all from one "
    "are, that processor, and one slow pair is the link between the two",
)
def test_numa_latency(
    anubis_metric: MetricFixture, record_property: Callable[[str, object], None]
) -> None:
    """Loads from each node's CPUs to each node's memory come back in time and right."""
    nodes = numa.read_nodes()
    starts = {node: cpus & os.sched_getaffinity(0) for node, cpus in nodes.items()}
    starts = {node: cpus for node, cpus in starts.items() if cpus}
    if len(nodes) < 2:
        pytest.skip("not applicable: one NUMA node")
    library = native.compiled(chase.SOURCE)
    size = min(chase.footprint("dram", read_caches()), memory_size() // (8 * len(nodes)))
    anywhere = set().union(*starts.values())
    with ExitStack() as stack:
        chains = {}
        try:
            for end in nodes:  # one in each memory, which all processors walk
                with numa.place(starts.get(end, anywhere), end):
                    chains[end] = stack.enter_context(chase.Chase(library, size))
        except numa.NotPossible as error:
            pytest.skip(str(error))
        pairs = [(start, end) for start in starts for end in nodes]

        def once() -> dict[str, float]:
            found = {}
            for start, end in pairs:
                with numa.on_cpus(starts[start]):
                    chains[end].run(STEPS["dram"] // 10)  # the thread has moved
                    found[pair_metric((start, end))] = chains[end].latency(STEPS["dram"])
            return found

        values = collect_jointly(
            anubis_metric, once, pair_metric(pairs[-1]), unit="ns", better="lower", rounds=ROUNDS
        )
        taken = {pair: values[pair_metric(pair)] for pair in pairs}
        for line in pair_lines(taken):
            sys.stdout.write(f"{line}\n")
        record_property("slowest_pairs", pair_lines(taken))
        for end, chain in chains.items():
            right(chain, f"in the memory of node {end}")


def pair_metric(pair: tuple[int, int]) -> str:
    """Return the name of a pair's metric: each has its own, so that the report names the slow one."""
    return f"latency_{pair[0]}_to_{pair[1]}"


def pair_lines(taken: Mapping[tuple[int, int], Sequence[float]]) -> list[str]:
    """Return a line for the local and one for the remote pairs: the slowest of them, and their median.

    Args:
        taken: Pair of processor and memory -> nanoseconds of a load.
    """
    lines = []
    for near, kind in ((True, "local"), (False, "remote")):
        medians = {
            pair: statistics.median(some)
            for pair, some in taken.items()
            if (pair[0] == pair[1]) is near
        }
        if medians:
            start, end = worst = max(medians, key=medians.__getitem__)
            middle = statistics.median(medians.values())
            lines.append(
                f"slowest {kind} pair: from node {start} to the memory of node {end} "
                f"{medians[worst]:.1f} ns, median of all {len(medians)} {middle:.1f} ns"
            )
    return lines
