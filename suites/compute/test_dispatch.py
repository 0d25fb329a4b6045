"""Dispatch: what it costs to hand the device a piece of work."""

from __future__ import annotations

import pytest

from pytest_anubis import DeviceFixture, MetricFixture

LAUNCHES = 10_000
_GOAL = "Small operations are limited by the device, not by the way to it"
_ACTION = (
    "Compare CPU frequency governor, driver version and interrupt load with a healthy node; on an "
    "accelerator also the width and speed of its PCIe link"
)


@pytest.mark.anubis(
    component="compute.dispatch",
    scope="device",
    cost="1s",
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
    cost="1s",
    timing="host",
    metrics=["round_trip"],
    goal=_GOAL,
    question="How long until the host sees the result of one operation?",
    action=_ACTION,
)
def test_round_trip(anubis_metric: MetricFixture, anubis_device: DeviceFixture) -> None:
    """A launch followed by waiting for it is quick, and none is lost."""
    if anubis_device.kind == "cpu":
        pytest.skip("not applicable: a CPU runs every operation before the call returns")
    from suites.compute.kernels import Launch

    launch = Launch(anubis_device.torch)

    def there_and_back() -> None:
        launch.run()
        anubis_device.synchronize()

    anubis_metric.measure("round_trip", there_and_back, unit="us", better="lower", clock="host")
    counted = launch.count(LAUNCHES)
    assert counted == LAUNCHES, f"{LAUNCHES} launches, the device counted {counted}"
