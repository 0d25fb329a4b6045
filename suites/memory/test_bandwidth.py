"""Memory bandwidth by the four operations of STREAM, and by reading alone."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture
from pytest_anubis.benchmarking.sizes import fitting

ELEMENT = 8
"""Bytes of a number in double precision."""

ARRAYS = 3
LONG = ("standard", "soak")
LONGER = {"triad": {"cpu": LONG, "accelerator": ("smoke", *LONG)}, "scale": LONG, "add": LONG}
"""Operations by the profiles that have them. In ``smoke`` the others cover the same channels, and on hosts
`test_core_stream` is a triad."""

CACHE = {"smoke": 512 << 20, "standard": 1 << 40, "soak": 1 << 40}
"""Bytes of last-level cache that a host's arrays are made for, at most: in ``smoke`` they are filled soon.
Some virtual machines report the cache of the whole processor, which the host's guests share. Arrays that are
not much larger are read at a rate that depends on how much of it the other guests leave."""

CORE_CACHE = {**CACHE, "smoke": 192 << 20}
"""The same for the arrays of single cores, which all together are larger."""

PIECE = 256 << 20
"""Bytes of an array that a host streams in one call: some ten milliseconds on a slow one."""

BYTES = {"smoke": 1 << 30, "standard": 2 << 30, "soak": 4 << 30}
"""Bytes of one of the arrays on an accelerator: far larger than caches of tens of megabytes."""


CORES = {"smoke": 4, "standard": 8, "soak": 64}
"""Cores that are measured one after the other: of each last-level cache one, as far as that goes. More would
take more than seconds a value, and more of the memory."""

CORE_ROUNDS = {"smoke": 12, "standard": 12, "soak": None}
"""Values of these cores; None: by the profile. They are slow to take, and repeat well."""

PAIR_CORES = 16
"""Cores of a node that stream at once: as many as fill the link to another node."""

PAIR_ROUNDS = 11

BEYOND = 4
"""Times the last-level cache that the arrays of such cores are large, at least."""

MOVED = 200e6
"""Bytes that one core moves for one value, at least one pass: some ten milliseconds."""


@pytest.mark.anubis(
    component="memory.bandwidth",
    scope="device",
    host=("standard", "soak"),
    cost={"cpu": "2s", "accelerator": "3s"},
    version=3,  # arrays beyond the largest caches on hosts in `smoke`
    metrics=["stream_rate"],
    goal="Memory feeds the arithmetic units at the rate of its class",
    question="Do all memory channels deliver their full bandwidth?",
    action="Compare the number, size, speed and slots of the memory modules with a healthy node, read "
    "the corrected-error counts, and look for remapped rows on an accelerator",
)
@pytest.mark.parametrize(
    "operation",
    [
        *("copy", "read"),
        *(
            pytest.param(one, marks=pytest.mark.anubis(profiles=profiles))
            for one, profiles in LONGER.items()
        ),
    ],
)
@pytest.mark.usefixtures("torch_settings")
def test_stream(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    anubis_node: NodeFixture,
    operation: str,
) -> None:
    """A pass over arrays far larger than the caches delivers its rate, and every element is right."""
    from suites.memory.caches import memory_size, read_caches
    from suites.memory.stream import OPERATIONS, Stream, elements_for

    if operation == "read" and anubis_device.kind == "mps":
        pytest.skip(
            "not applicable: a sum is exact in double precision only, which this device has not"
        )
    if anubis_device.kind == "cpu":
        arrays = anubis_node.pick(smoke=OPERATIONS[operation][0], standard=1, soak=1)
        elements = elements_for(
            min(read_caches().last_total, anubis_node.pick(**CACHE)), memory_size(), arrays
        )
    else:
        wanted = anubis_node.pick(**BYTES)
        elements = fitting(wanted, anubis_device.torch, times=ARRAYS) // ELEMENT
    dtype = "float32" if anubis_device.kind == "mps" else "float64"
    pieces = max(1, elements * ELEMENT // PIECE) if anubis_device.kind == "cpu" else 1
    stream = Stream(operation, elements, anubis_device.torch, dtype=dtype, pieces=pieces)
    anubis_metric.measure(
        "stream_rate", stream.run, work=stream.bytes, unit="GB/s", better="higher"
    )
    wrong = stream.wrong_elements()
    assert wrong == 0, f"{operation}: {wrong} of {elements} elements are wrong"


@pytest.mark.anubis(
    component="memory.bandwidth",
    scope="node",
    resources=["cpu"],
    cost={"cpu": "2.5s", "accelerator": "10s"},
    profiles={"cpu": ("smoke", "standard", "soak"), "accelerator": ("standard", "soak")},
    metrics=["slowest_core_stream_rate"],
    goal="Every part of a processor gets at the memory at the rate of its class",
    question="What does the slowest core get from the memory while all others are idle?",
    action="Compare the cores in the test's properties: one that is slow, or all behind one cache, is the "
    "processor or its link to the memory; all of them slow is the memory's speed or the firmware's settings",
)
def test_core_stream(
    anubis_metric: MetricFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
) -> None:
    """One core after another passes over arrays far larger than its caches, and every element is right."""
    from suites.memory.caches import cores_across, memory_size, read_caches
    from suites.memory.stream import OPERATIONS, CoreStreams, elements_for

    most = min(anubis_node.pick(**CORES), anubis_node.cores)
    cpus = cores_across(os.sched_getaffinity(0), most)
    elements = elements_for(
        min(read_caches().last, anubis_node.pick(**CORE_CACHE)),
        memory_size() // len(cpus),
        arrays=OPERATIONS["triad"][0],
    )
    arrays = OPERATIONS["triad"][0]
    passes = max(1, round(MOVED / (arrays * elements * ELEMENT)))
    streams = CoreStreams("triad", elements, cpus, passes=passes)
    anubis_metric.collect(
        "slowest_core_stream_rate",
        lambda: streams.turn() / 1e9,
        unit="GB/s",
        better="higher",
        rounds=anubis_node.pick(**CORE_ROUNDS),
    )
    for cpu, rates in streams.rates.items():
        record_property(f"CPU {cpu}", f"{statistics.median(rates) / 1e9:.1f} GB/s")
    wrong = streams.wrong_elements()
    assert not wrong, f"wrong elements of {elements} by CPU: {wrong}"


@pytest.mark.anubis(
    component="memory.numa",
    scope="node",
    resources=["cpu"],
    cost="40s",
    deadline="600s",
    profiles=("standard", "soak"),
    goal="Every processor gets at its own memory and at its neighbours' at the rate of its class",
    question="How many bytes a second do a processor's cores read and write in the memory of each node?",
    action="Compare the pairs: all to one node, that memory (a far memory that trained down, CXL too); all "
    "from one, that processor; one pair, the link between the two",
)
def test_numa_bandwidth(anubis_metric: MetricFixture) -> None:
    """Cores of each node stream in the memory of each node at their rate, and every element is right."""
    from pytest_anubis.benchmarking.sizes import host_memory
    from suites.joint_rounds import collect_jointly
    from suites.memory import numa
    from suites.memory.caches import memory_size, read_caches
    from suites.memory.stream import OPERATIONS, NodeStreams, elements_for

    nodes = numa.read_nodes()
    starts = {node: sorted(cpus & os.sched_getaffinity(0)) for node, cpus in nodes.items()}
    starts = {node: cpus[:PAIR_CORES] for node, cpus in starts.items() if cpus}
    if len(nodes) < 2:
        pytest.skip("not applicable: one NUMA node")
    most = max(map(len, starts.values()), default=1)
    arrays, cache = OPERATIONS["triad"][0], read_caches().last
    elements = elements_for(cache // most, memory_size() // (most * len(nodes)), arrays=arrays)
    room = min(host_memory()[0] // len(nodes), *map(numa.available, nodes))
    while arrays * most * elements * ELEMENT > room // 2:
        elements //= 2
        if arrays * most * elements * ELEMENT < BEYOND * cache:
            pytest.skip(
                f"of each node's memory {room / 1e6:.0f} MB can be used now, in half of which arrays of "
                f"{most} cores are not {BEYOND} times the last-level cache: end what else takes memory"
            )
    anywhere = {cpu for cpus in starts.values() for cpu in cpus}
    streams = {}
    try:
        for end in nodes:  # in each memory as many as one processor needs, which all of them use
            with numa.place(set(starts.get(end, anywhere)), end):
                streams[end] = NodeStreams("triad", elements, most)
    except numa.NotPossible as error:
        pytest.skip(str(error))

    def once() -> dict[str, float]:
        return {
            f"bandwidth_{start}_to_{end}": streams[end].rate(cpus) / 1e9
            for start, cpus in starts.items()
            for end in nodes
        }

    last = f"bandwidth_{[*starts][-1]}_to_{[*nodes][-1]}"
    collect_jointly(anubis_metric, once, last, unit="GB/s", better="higher", rounds=PAIR_ROUNDS)
    wrong = {end: found for end, one in streams.items() if (found := one.wrong_elements())}
    assert not wrong, f"wrong elements by the node of their memory: {wrong}"
