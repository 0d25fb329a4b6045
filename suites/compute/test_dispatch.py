"""Dispatch: what it costs to hand the device a piece of work, and the first one."""

from __future__ import annotations

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture
from pytest_anubis.benchmarking.applicability import compute_mode
from pytest_anubis.benchmarking.capture import graph_of
from pytest_anubis.benchmarking.placement import slot_of

LAUNCHES = 10_000
IN_A_GRAPH = 1000
"""Launches of a graph: its own launch is then a hundredth of its time."""

REPLAYS = 10

MODULE = "suites.compute.cold"
STARTS = {"smoke": 2, "standard": 10, "soak": 30}
"""Processes, one value each."""

LOADING = 120.0
"""Seconds that a process has to load torch."""

STARTING = 120.0
"""Seconds that a device has for its first result: some need half a minute to compile kernels."""
_START = "Work begins as soon as it is scheduled"
_START_ACTION = (
    "Switch the driver's persistence on; compare driver versions, and the time of each card alone with that "
    "beside the others"
)
_GOAL = "Small operations are limited by the device, not by the way to it"
_ACTION = (
    "Compare CPU frequency governor, driver version and interrupt load with a healthy node; on an "
    "accelerator also the width and speed of its PCIe link"
)


@pytest.mark.anubis(
    component="compute.dispatch",
    scope="device",
    cost="2s",
    timing="host",
    metrics=["dispatch_time"],
    goal=_GOAL,
    question="How long does the host take to hand over one more operation?",
    action=_ACTION,
)
@pytest.mark.usefixtures("torch_settings")
def test_dispatch(anubis_metric: MetricFixture, anubis_device: DeviceFixture) -> None:
    """Back-to-back launches of the smallest operation are quick, and none is lost."""
    from suites.compute.kernels import Launch

    launch = Launch(anubis_device.torch)
    anubis_metric.measure("dispatch_time", launch.run, unit="us", better="lower", clock="host")
    counted = launch.count(LAUNCHES)
    assert counted == LAUNCHES, f"{LAUNCHES} launches, the device counted {counted}"


@pytest.mark.anubis(
    component="compute.dispatch",
    scope="device",
    cost="2s",
    cards=1,
    timing="host",
    metrics=["round_trip"],
    goal=_GOAL,
    question="How long until the host sees the result of one operation?",
    action=_ACTION,
)
def test_round_trip(anubis_metric: MetricFixture, anubis_device: DeviceFixture) -> None:
    """A launch followed by waiting for it is quick, and none is lost."""
    from suites.compute.kernels import Launch

    launch = Launch(anubis_device.torch)

    def there_and_back() -> None:
        launch.run()
        anubis_device.synchronize()

    anubis_metric.measure("round_trip", there_and_back, unit="us", better="lower", clock="host")
    counted = launch.count(LAUNCHES)
    assert counted == LAUNCHES, f"{LAUNCHES} launches, the device counted {counted}"


@pytest.mark.anubis(
    component="compute.dispatch",
    scope="device",
    cost="12s",
    cards=1,
    profiles=("standard", "soak"),
    metrics=["graph_time"],
    goal=_GOAL,
    question="How long do a thousand of the smallest operations take that were handed over as one graph?",
    action="Compare driver and library versions, and the clock under load, with a healthy node",
)
def test_graph(anubis_metric: MetricFixture, anubis_device: DeviceFixture) -> None:
    """A graph of launches runs without the host, and none is lost."""
    if anubis_device.kind != "cuda":
        pytest.skip("not applicable: only launches of NVIDIA's and AMD's accelerators make a graph")
    from suites.compute.kernels import Launch

    launch = Launch(anubis_device.torch)

    def launch_all() -> None:
        for _ in range(IN_A_GRAPH):
            launch.run()

    graph = graph_of(launch_all, anubis_device.torch, first=launch.run)
    anubis_metric.measure("graph_time", graph.replay, unit="us", better="lower")

    def replay_all() -> None:
        for _ in range(REPLAYS):
            graph.replay()

    counted = launch.counted(replay_all)
    assert counted == REPLAYS * IN_A_GRAPH, (
        f"{REPLAYS} graphs of {IN_A_GRAPH} launches, the device counted {counted}"
    )


def cold_start(device: str) -> float:
    """Return the milliseconds from the first touch of a device to the first result, in a process of its own.

    Raises:
        AssertionError: The result is wrong.
        ChildError: The process failed or took too long.
    """
    from pytest_anubis.benchmarking.children import Child

    with Child(MODULE, name="cold start") as child:
        child.ask({"do": "ready"}, timeout=LOADING)
        found = child.ask({"do": "start", "device": device}, timeout=STARTING)
    assert found["wrong"] == 0, f"{found['wrong']} elements of the first product are wrong"
    return 1e3 * float(found["seconds"])


def require_second_context(slot: str) -> None:
    """Leave the test out where a card takes the context of one process only, and a worker's is there."""
    if (compute_mode(slot) or "").startswith("exclusive"):
        pytest.skip(
            "not applicable: in compute mode exclusive-process a worker's context keeps others out; "
            "nvidia-smi -c DEFAULT allows several"
        )


@pytest.mark.anubis(
    component="compute.start",
    scope="device",
    cost="8s",
    cards=1,
    profiles=("standard", "soak"),
    deadline="600s",
    timing="host",
    metrics=["cold_start"],
    goal=_START,
    question="How long does a new process wait for its first result from the device?",
    action=_START_ACTION,
)
def test_cold_start(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """A process makes its context, loads a library and multiplies: in time, and right."""
    require_second_context(anubis_device.pci)
    device = str(anubis_device.torch)
    anubis_metric.collect(
        "cold_start",
        lambda: cold_start(device),
        unit="ms",
        better="lower",
        rounds=anubis_node.pick(**STARTS),
    )


@pytest.mark.anubis(
    component="compute.start",
    scope="node",
    cost="12s",
    cards=1,
    deadline="600s",
    profiles=("smoke",),
    metrics=["cold_start"],
    goal=_START,
    question="How long does a new process wait for its first result from the node's first accelerator?",
    action=_START_ACTION,
)
def test_first_start(anubis_metric: MetricFixture, anubis_node: NodeFixture) -> None:
    """As `test_cold_start`, of one card: starts of eight, one after the other, would fill half of `smoke`."""
    import torch

    kind = torch.accelerator.current_accelerator()
    assert kind is not None
    if kind.type == "cuda":
        require_second_context(slot_of(torch.cuda.get_device_properties(0)))
    anubis_metric.collect(
        "cold_start",
        lambda: cold_start(f"{kind.type}:0"),
        unit="ms",
        better="lower",
        rounds=anubis_node.pick(**STARTS),
    )
