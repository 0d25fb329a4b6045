"""Matrix products: the rate of the arithmetic units, per element type."""

from __future__ import annotations

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture


@pytest.mark.anubis(
    component="compute.matrix",
    scope="device",
    host=True,
    cost="3s",
    metrics=["gemm_rate"],
    goal="Every device computes at the rate of its class, and computes right",
    question="Does every core and matrix unit deliver its full rate under sustained load?",
    action="Check clocks, power limit and temperature under load; if they are as on a healthy device, "
    "run the standard profile on this device alone and then exchange it",
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.usefixtures("torch_settings")
def test_gemm(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture, dtype: str
) -> None:
    """A large square matrix product delivers its rate and is right to the last bit."""
    from suites.compute.kernels import Gemm

    if dtype == "float64" and anubis_device.kind == "mps":
        pytest.skip("not applicable: this device has no double precision")
    if anubis_device.kind == "cpu":
        size = anubis_node.pick(smoke=1024, standard=2048, soak=4096)
    else:
        size = anubis_node.pick(smoke=8192, standard=8192, soak=16384)
        if dtype == "float64":  # many accelerators have a small part of their rate for it
            size //= 2
    gemm = Gemm(size, dtype, anubis_device.torch)
    anubis_metric.measure("gemm_rate", gemm.run, work=gemm.work, unit="TFLOP/s", better="higher")
    error = gemm.relative_error()
    assert error < gemm.tolerance, (
        f"{dtype} product of size {size} is off by {error:.1e}, tolerance {gemm.tolerance:.0e}"
    )
    wrong = gemm.wrong_rows()
    assert wrong == 0, f"{wrong} of {size} rows of an exact {dtype} product are wrong"
