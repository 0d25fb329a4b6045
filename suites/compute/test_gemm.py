"""Matrix products: the rate of the arithmetic units, per element type."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture
from pytest_anubis.benchmarking.applicability import require
from pytest_anubis.benchmarking.precision import single_precision

if TYPE_CHECKING:
    from suites.compute.kernels import Gemm

SIZES = {
    "cpu": {"smoke": 1024, "standard": 2048, "soak": 4096},
    "accelerator": {"smoke": 8192, "standard": 8192, "soak": 16384},
}
ALL, LONG = ("smoke", "standard", "soak"), ("standard", "soak")
ENERGY = "bfloat16"
"""Type for which ``smoke`` measures what work costs: it loads units and supply most."""

WINDOW = {"smoke": 0.6, "standard": 3.0, "soak": 10.0}
"""Seconds of load for one value of the efficiency: cards count their energy about ten times a second, so one
second is off by a few per cent at most, in both directions."""

WINDOWS = 5

pytestmark = [
    pytest.mark.anubis(
        component="compute.matrix",
        scope="device",
        metrics=["gemm_rate"],
        goal="Every device computes at the rate of its class, and computes right",
        question="Does every core and matrix unit deliver its full rate under sustained load?",
        action="Check clocks, power limit and temperature under load; if they are as on a healthy device, "
        "run the standard profile on this device alone and then exchange it",
    ),
    pytest.mark.usefixtures("torch_settings"),
]


def costing(dtype: str, *, smoke: str = "4s", **keys: object) -> Any:
    """Return a type with what its product costs: in the longer profiles with five windows of energy."""
    on_cards = {"smoke": smoke, "standard": "40s", "soak": "13min"}
    cost = {"cpu": "2s", "accelerator": on_cards}
    return pytest.param(dtype, marks=pytest.mark.anubis(cost=cost, **keys))


@pytest.mark.anubis(
    host=LONG,
    version=2,  # on a host in huge pages, whatever is set for shared memory
)
@pytest.mark.parametrize(
    "dtype",
    [
        costing("float32", smoke="4s"),
        costing(ENERGY, smoke="8s"),
        costing("float64", profiles={"cpu": ALL, "accelerator": LONG}),
    ],
)
def test_gemm(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture, dtype: str
) -> None:
    """A large square matrix product delivers its rate and is right to the last bit."""
    require(anubis_device.torch, dtype)
    gemm = _rates(anubis_metric, anubis_device, anubis_node, dtype)
    if anubis_device.kind != "cpu" and anubis_node.pick(
        smoke=dtype == ENERGY, standard=True, soak=True
    ):
        _efficiency(anubis_metric, anubis_device, gemm, anubis_node.pick(**WINDOW))
    _right(gemm, dtype)


@pytest.mark.anubis(cost="20s", profiles=LONG)
def test_gemm_tf32(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """The same in TF32, the short form of single precision that NVIDIA's matrix units have.

    Not what it takes of energy: units and supply are those of `bfloat16`, of which that is measured.
    """
    import torch

    if anubis_device.kind != "cuda" or torch.version.hip is not None:
        pytest.skip("not applicable: TF32 is for NVIDIA's accelerators")
    require(anubis_device.torch, "tf32")
    with single_precision(tf32=True):
        _right(_rates(anubis_metric, anubis_device, anubis_node, "tf32"), "tf32")


def _rates(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture, dtype: str
) -> Gemm:
    from suites.compute.kernels import Gemm

    on_cpu = anubis_device.kind == "cpu"
    size = anubis_node.pick(**SIZES["cpu" if on_cpu else "accelerator"])
    if (
        dtype == "float64" and not on_cpu
    ):  # many accelerators have a small part of their rate for it
        size //= 2
    gemm = Gemm(size, dtype, anubis_device.torch)
    if not on_cpu:
        anubis_metric.measure(
            "gemm_burst_rate",
            gemm.run,
            work=gemm.work,
            unit="TFLOP/s",
            better="higher",
            question="Which rate do the matrix units reach before heat and power limit them?",
            load="short",
        )
    anubis_metric.measure("gemm_rate", gemm.run, work=gemm.work, unit="TFLOP/s", better="higher")
    return gemm


def _right(gemm: Gemm, dtype: str) -> None:
    error = gemm.relative_error()
    assert error < gemm.tolerance, (
        f"{dtype} product of size {gemm.size} is off by {error:.1e}, tolerance {gemm.tolerance:.0e}"
    )
    wrong = gemm.wrong_rows()
    assert wrong == 0, f"{wrong} of {gemm.size} rows of an exact {dtype} product are wrong"


def _efficiency(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, gemm: Gemm, seconds: float
) -> None:
    from suites.compute.energy import CounterError, Efficiency

    window = Efficiency(gemm.run, gemm.work, anubis_device, seconds)
    if anubis_device.energy() is None or not window.moves():
        return
    try:
        anubis_metric.collect(
            "gemm_efficiency",
            window.value,
            unit="GFLOP/J",
            better="higher",
            question="How much energy does the device need for its work?",
            action="Compare power, voltage and temperature with a healthy device: one that needs more "
            "energy for the same work will slow down where its power is limited",
            rounds=WINDOWS,
        )
    except CounterError as silent:  # a sensor's fault is none of the device's work
        sys.stdout.write(f"gemm_efficiency: not measured: {silent}\n")
