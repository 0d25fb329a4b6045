"""Every collective operation over a sweep of sizes, and the algorithms of the all-reduce one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture
from pytest_anubis.benchmarking.applicability import has_switches
from suites.tools.nics import active_ports

if TYPE_CHECKING:
    from pytest_anubis.core.nominal_rate import NominalRate
    from suites.collective.group import RankGroup

KIB, MIB = 1 << 10, 1 << 20
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
SWEEP = {"64KiB": 64 * KIB, "1MiB": MIB, "32MiB": 32 * MIB}
"""Sizes: at the first the time is that of launches and messages, at the last a link shows its rate."""

LARGE = {"1GiB": 1024 * MIB}
"""Beyond these on accelerators: where NVLink has nearly its full rate."""

ROUND = 0.05
"""Seconds that one value covers, about: single operations vary with the scheduling of the ranks."""

ALGORITHMS = {"ring": "Ring", "tree": "Tree", "nvls": "NVLS"}
"""Ours -> NCCL's name. With NVLS the switches add what a ring only passes on: a link that is slow one way, or
a switch plane that cannot add, shows in one of them and is hidden by the other."""

ADAPTERS_ALONE = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
"""Without peer copies, shared memory and sums by switches NCCL has the adapters alone, all at once, with
their way from and to the cards: what jobs of several nodes use."""

NVLS_CARDS = 3
"""From so many on NCCL uses NVLS."""

NO_ALGORITHM = "no algorithm/protocol available"
"""NCCL's message where the requested algorithm does not exist for these cards."""

ALGORITHM_BYTES = {"smoke": 1024 * MIB, "standard": 8192 * MIB, "soak": 8192 * MIB}
ADAPTER_BYTES = 1024 * MIB
"""Through the adapters: their rate is reached sooner, and is a fraction of that of the links."""

pytestmark = pytest.mark.anubis(
    scope="node", profiles=("standard", "soak"), resources=["cpu", "network"]
)


@pytest.mark.anubis(
    component="collective.operations",
    cost={"cpu": "200s", "accelerator": {1: "0.1s", 2: "200s"}},
    deadline="900s",
    metrics=[f"{operation}_{label}" for operation in OPERATIONS for label in SWEEP],
    goal="Ranks of one machine exchange data at the rate of its class, whatever the pattern and the size",
    question="Which bus bandwidth does each collective operation reach at each size?",
    action="Low at small sizes only: latency of the links, launches, cores that share work. Low at large "
    "ones: run the peer copies to find the link. Low in one operation: its algorithm; compare NCCL's version "
    "and variables with a healthy node",
)
def test_operations(
    anubis_metric: MetricFixture,
    ranks: RankGroup,
    record_property: Callable[[str, object], None],
) -> None:
    """Six operations at several sizes deliver their rates, and every element is right on every rank."""
    from suites.collective.operations import BUS

    sizes = {**SWEEP, **(LARGE if ranks.on_accelerators else {})}
    wrong = {}
    for operation in OPERATIONS:
        factor = BUS[operation](ranks.world)
        for label, wanted in sizes.items():
            size = ranks.prepare_exchange(operation, ranks.fitting(3 * wanted) // 3)
            seconds = min(ranks.exchange(3) for _ in range(3))
            times = max(1, round(ROUND / seconds))
            rates = anubis_metric.collect(
                f"{operation}_{label}",
                _rate(ranks, size * factor, times),
                unit="GB/s",
                better="higher",
            )
            middle = sorted(rates)[len(rates) // 2]
            record_property(
                f"{operation}_{label}",
                f"{middle:.3g} GB/s on the bus, {middle / factor:.3g} GB/s by size and time",
            )
            wrong[f"{operation} {label}"] = ranks.wrong_in_exchange()
    wrong = {what: count for what, count in wrong.items() if count}
    assert not wrong, f"wrong elements over {ranks.world} ranks: {wrong}"


def _rate(ranks: RankGroup, carried: float, times: int) -> Callable[[], float]:
    return lambda: carried / ranks.exchange(times) / 1e9


@pytest.mark.anubis(
    component="collective.allreduce",
    cost={"cpu": "0.1s", "accelerator": {1: "0.1s", 2: "20s"}},
    cards=2,
    deadline="420s",
    metrics=["bus_bandwidth"],
    goal="Ranks of one machine exchange gradients at the rate of its class, by every way through its links",
    question="Which bus bandwidth does an all-reduce reach that has to use this algorithm?",
    action="Low with NVLS only: the switches (fabric manager, its log, a switch plane); low with a ring "
    "only: a link of one pair, which the peer copies name; low with all: clocks, power, or the driver",
)
@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_all_reduce_by(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, algorithm: str
) -> None:
    """An all-reduce by one of NCCL's algorithms delivers its rate, and every element is right."""
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("not applicable: fewer than two accelerators")
    if algorithm == "nvls" and torch.cuda.device_count() < NVLS_CARDS:
        pytest.skip("not applicable: with two cards NCCL lets no switch add")
    if algorithm == "nvls" and torch.version.hip is not None:
        pytest.skip("not applicable: only NVIDIA's switches add")
    if algorithm == "nvls" and torch.cuda.get_device_capability(0) < (9, 0):
        pytest.skip("not applicable: switches add for compute capability 9.0 and above")
    from pytest_anubis.benchmarking.children import ChildError
    from suites.collective.group import RankGroup

    count, variables = torch.cuda.device_count(), {"NCCL_ALGO": ALGORITHMS[algorithm]}
    with RankGroup(count, anubis_node.cores, environment=variables) as group:
        try:
            group.join()
            size = group.fitting(anubis_node.pick(**ALGORITHM_BYTES))
            group.prepare(size)
            rate = max(group.bus_bandwidth(size, 10) for _ in range(3))
        except ChildError as refused:
            if algorithm == "nvls" and NO_ALGORITHM in str(refused).lower():
                # Where there are switches that add, NCCL finds no NVLS once the fabric has lost it.
                what = f"NCCL has no {variables['NCCL_ALGO']} on this node"
                if has_switches():
                    pytest.fail(f"{what}, though its cards hang on an NVSwitch fabric: {refused}")
                pytest.skip(f"{what}: {refused}")
            raise
        # With others than a ring links carry more, or less, than the bus bandwidth says.
        nominal = anubis_node.nominal("nvlink") if algorithm == "ring" else None
        wrong = _collected(anubis_metric, group, size, rate, nominal)
    assert wrong == 0, f"{wrong} elements of the sum over {count} ranks are wrong"


@pytest.mark.anubis(
    component="network.collective",
    cost={"cpu": "0.1s", "accelerator": {1: "0.1s", 2: "9s"}},
    cards=2,
    deadline="300s",
    metrics=["bus_bandwidth"],
    goal="Network adapters carry the gradients of all cards at once at the rate of their class",
    question="Which bus bandwidth does an all-reduce reach through the network adapters alone?",
    action="Run perftest's loopback of each port, and with each card's memory: one that is low is the "
    "adapter, its cable or its slot. Where each is right by itself: the PCIe switches, ACS, the IOMMU",
)
def test_all_reduce_through_adapters(
    anubis_metric: MetricFixture, anubis_node: NodeFixture
) -> None:
    """An all-reduce of this node's cards through its RDMA adapters delivers its rate, every element right."""
    import torch

    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip("not applicable: fewer than two accelerators")
    if not active_ports():
        pytest.skip("not applicable: no port of an RDMA adapter is up")
    from suites.collective.group import RankGroup

    with RankGroup(count, anubis_node.cores, environment=ADAPTERS_ALONE) as group:
        group.join()
        size = group.fitting(ADAPTER_BYTES)
        group.prepare(size)
        rate = max(group.bus_bandwidth(size, 3) for _ in range(2))
        wrong = _collected(anubis_metric, group, size, rate, anubis_node.nominal("adapters"))
    assert wrong == 0, f"{wrong} elements of the sum over {count} ranks are wrong"


def _collected(
    anubis_metric: MetricFixture,
    group: RankGroup,
    size: int,
    rate: float,
    nominal: NominalRate | None,
) -> int:
    """Measure all-reduces of a size that were seen at a rate; return how many elements of a sum are wrong."""
    from suites.collective.group import LOADED

    times = group.times_within(LOADED, size, rate)
    anubis_metric.collect(
        "bus_bandwidth",
        lambda: group.bus_bandwidth(size, times) / 1e9,
        unit="GB/s",
        better="higher",
        nominal=nominal,
    )
    return group.wrong_elements()
