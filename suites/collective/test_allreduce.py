"""All-reduce: what training spends on communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture

if TYPE_CHECKING:
    from suites.collective.group import RankGroup

MIB = 1 << 20
BYTES = {"smoke": 1024 * MIB, "standard": 8192 * MIB, "soak": 8192 * MIB}
"""Size on accelerators: NVLink reaches its full rate at some gigabytes, at 256 MiB nine tenths of it."""


@pytest.mark.anubis(
    component="collective.allreduce",
    scope="node",
    cost={"cpu": "8s", "accelerator": {1: "0.1s", 2: "14s", 8: "20s"}},  # the ranks begin first
    # On hosts an all-reduce goes over the loopback interface: what it shows beyond the TCP, memory and matrix
    # benchmarks is how the ranks share the cores, which takes more values than `smoke` has.
    profiles={"cpu": ("standard", "soak"), "accelerator": ("smoke", "standard", "soak")},
    deadline="300s",
    metrics=["bus_bandwidth"],
    resources=["cpu", "network"],
    goal="Ranks of one machine exchange gradients at the rate of its class",
    question="Does every link between the ranks carry its full rate in an all-reduce?",
    action="On accelerators read the link states and error counts and run pairs alone to find the slow "
    "link; on a CPU compare with the TCP benchmarks, which use the same loopback interface",
)
def test_all_reduce(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, ranks: RankGroup
) -> None:
    """Summing a large buffer over all ranks delivers its rate, and every element is right."""
    from suites.collective.group import LOADED

    if ranks.on_accelerators:
        size, times = ranks.fitting(anubis_node.pick(**BYTES)), 10
    else:
        size, times = 64 * MIB, 3
    ranks.prepare(size)
    for _ in range(3):
        rate = ranks.bus_bandwidth(size, times)
    if ranks.on_accelerators:
        times = max(times, ranks.times_within(LOADED, size, rate))
    anubis_metric.collect(
        "bus_bandwidth",
        lambda: ranks.bus_bandwidth(size, times) / 1e9,
        unit="GB/s",
        better="higher",
        nominal=anubis_node.nominal("nvlink") if ranks.on_accelerators else None,
    )
    wrong = ranks.wrong_elements()
    assert wrong == 0, f"{wrong} elements of the sum over {ranks.world} ranks are wrong"
