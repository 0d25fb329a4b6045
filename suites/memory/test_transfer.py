"""The way between host and device."""

from __future__ import annotations

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture

SIZES = {"smoke": 256 << 20, "standard": 1 << 30, "soak": 1 << 30}


@pytest.mark.anubis(
    component="memory.transfer",
    scope="device",
    cost="3s",
    timing="host",
    metrics=["host_to_device_rate", "device_to_host_rate"],
    goal="Data reaches every device at the rate of its link",
    question="Does the link between host and device deliver its full rate, both ways?",
    action="Compare the negotiated width and generation of the PCIe link with what the slot has, read "
    "its replay count, and reseat the device",
)
@pytest.mark.usefixtures("torch_settings")
def test_host_device_copy(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """Large copies run at the link's rate, and every byte comes back."""
    if anubis_device.kind == "cpu":
        pytest.skip("not applicable: no accelerator")
    from suites.memory.transfer import Transfer

    size = anubis_node.pick(**SIZES)
    transfer = Transfer(size, anubis_device.torch)
    for name, move in (
        ("host_to_device_rate", transfer.to_device),
        ("device_to_host_rate", transfer.to_host),
    ):
        anubis_metric.measure(name, move, work=float(size), unit="GB/s", better="higher")
    wrong = transfer.wrong_bytes(anubis_device.synchronize)
    assert wrong == 0, f"{wrong} of {size} bytes differ after a copy there and back"
