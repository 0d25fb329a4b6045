"""One device under full load for long, in every element type that it has units for."""

from __future__ import annotations

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture

SIZES = {
    "cpu": {"smoke": 1024, "standard": 2048, "soak": 4096},
    "accelerator": {"smoke": 8192, "standard": 8192, "soak": 16384},
}
BURN = {
    "cpu": {"smoke": 1.0, "standard": 20.0, "soak": 600.0},
    "accelerator": {"smoke": 1.0, "standard": 10.0, "soak": 600.0},
}
"""Seconds under load before the rate counts."""

EVER = pytest.mark.anubis(cost={"cpu": "35s", "accelerator": "20s"}, profiles=("standard", "soak"))
ON_CARDS = pytest.mark.anubis(
    cost={"cpu": "25min", "accelerator": "20s"},
    profiles={"cpu": ("soak",), "accelerator": ("standard", "soak")},
)
LONGER = pytest.mark.anubis(
    cost={"cpu": "35s", "accelerator": "25min"},
    profiles={"cpu": ("standard", "soak"), "accelerator": ("soak",)},
)
"""Types whose units a shorter profile loads on accelerators by products, verified too, or by another type."""


@pytest.mark.anubis(
    component="compute.burn",
    scope="device",
    host=True,
    deadline="300s",
    metrics=["burn_rate", "burn_errors"],
    goal="Every device computes right, and at its rate, for as long as it is under load",
    question="What do the matrix units of this device sustain while its results are verified?",
    action="A wrong element: take the device out of service. A low rate: compare clock, power and "
    "temperature under load with a healthy device",
)
@pytest.mark.parametrize(
    "dtype",
    [
        *(pytest.param(one, marks=LONGER) for one in ("float64", "float32", "float16")),
        *(
            pytest.param(one, marks=EVER if one in ("bfloat16", "int8") else ON_CARDS)
            for one in ("bfloat16", "int8", "float8_e4m3fn", "float8_e4m3fnuz")
        ),
    ],
)
@pytest.mark.usefixtures("torch_settings")
def test_burn_device(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture, dtype: str
) -> None:
    """One device multiplies for long; no bit of any result differs from the first, and that one is right."""
    from pytest_anubis.benchmarking.applicability import require
    from suites.burn.burner import Burner
    from suites.compute.exact import ExactProduct, Shape, whole_sums

    require(anubis_device.torch, dtype)
    kind = "cpu" if anubis_device.kind == "cpu" else "accelerator"
    with whole_sums():
        shape = Shape.square(anubis_node.pick(**SIZES[kind]))
        product = ExactProduct(shape, dtype, anubis_device.torch)
        burner = Burner(product, anubis_device.synchronize)
        burner.load(anubis_node.pick(**BURN[kind]))
        anubis_metric.measure(
            "burn_rate",
            burner.turn,
            work=product.work,
            unit="TOP/s" if dtype == "int8" else "TFLOP/s",
            better="higher",
        )
        product.compare()  # the last one, too
        wrong = product.wrong_elements()
        anubis_metric.record("burn_errors", wrong, unit="count", better="equal")
        product.verify()
