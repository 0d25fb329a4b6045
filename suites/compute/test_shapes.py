"""Matrix products of the short types and of the shapes that models have, exact to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture

if TYPE_CHECKING:
    import torch

SIZES = {"smoke": 8192, "standard": 8192, "soak": 16384}
HOST_SIZES = {"smoke": 1024, "standard": 2048, "soak": 4096}

SHAPES = {
    "batched": (512, 512, 512, 256),
    "small": (256, 256, 256, 1),
    "decode": (16, 8192, 8192, 1),
}
"""Rows, terms, columns, batch, on an accelerator: the heads of attention, a step of a small model, one token
of sixteen requests through a layer whose weights no cache holds."""

HOST_SHAPES = {
    "batched": (128, 64, 128, 64),
    "small": (64, 64, 64, 1),
    "decode": (4, 2048, 2048, 1),
}
"""The same on a CPU."""

LONGER = pytest.mark.anubis(profiles=("standard", "soak"))
"""What the other types and shapes of the smoke set find as a rule: the same units by the same way."""

pytestmark = [
    pytest.mark.anubis(
        component="compute.matrix",
        metrics=["gemm_rate"],
        goal="Every device computes at the rate of its class, and computes right",
        action="Compare with the other types and shapes: low in one type is its unit or library; low in all "
        "is clock, power or heat; low in the small shapes only is the way to the device",
    ),
    pytest.mark.usefixtures("torch_settings"),
]


def exact_rate(
    anubis_metric: MetricFixture, device: torch.device, shape: tuple[int, ...], dtype: str
) -> None:
    """Measure a product of whole numbers and assert that every bit of every result is right."""
    from suites.compute.exact import ExactProduct, Shape, whole_sums

    with whole_sums():
        product = ExactProduct(Shape(*shape), dtype, device)
        product.keep()
        anubis_metric.measure(
            "gemm_rate",
            product.run,
            work=product.work,
            unit="TOP/s" if dtype == "int8" else "TFLOP/s",
            better="higher",
        )
        product.compare()  # the last result of those that were timed
        product.verify()


@pytest.mark.anubis(
    scope="device",
    cost="3s",
    cards=1,
    question="Do the units for short types deliver their full rate?",
)
@pytest.mark.parametrize(
    "dtype",
    [
        *(pytest.param(one, marks=LONGER) for one in ("float16", "int8")),
        "float8",
    ],
)
def test_short_types(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture, dtype: str
) -> None:
    """A large square product of 16 or 8 bits delivers its rate, and is right to the last bit."""
    from pytest_anubis.benchmarking.applicability import require, supports

    if dtype == "float8":  # the second is that of AMD's MI300
        kinds = ("float8_e4m3fn", "float8_e4m3fnuz")
        dtype = next((one for one in kinds if supports(anubis_device.torch, one)), kinds[0])
    require(anubis_device.torch, dtype)
    size = anubis_node.pick(**SIZES)
    exact_rate(anubis_metric, anubis_device.torch, (size, size, size), dtype)


@pytest.mark.anubis(
    scope="device",
    cost="16s",
    cards=1,
    profiles=("standard", "soak"),
    question="Do products of the shapes that models have reach the rate of their class?",
)
@pytest.mark.parametrize("shape", list(SHAPES))
def test_shapes(anubis_metric: MetricFixture, anubis_device: DeviceFixture, shape: str) -> None:
    """Many small products at once, one small one, and a few rows by large weights."""
    from pytest_anubis.benchmarking.applicability import supports

    dtype = "bfloat16" if supports(anubis_device.torch, "bfloat16") else "float16"
    exact_rate(anubis_metric, anubis_device.torch, SHAPES[shape], dtype)


@pytest.mark.anubis(
    scope="node",
    resources=["cpu"],
    cost="25s",  # one metric of a host
    profiles=("standard", "soak"),
    question="Do the host's units for short types deliver their full rate?",
)
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_short_types_on_the_host(
    anubis_metric: MetricFixture, anubis_node: NodeFixture, dtype: str
) -> None:
    """A large square product of 16 or 8 bits on all cores is right to the last bit."""
    import torch

    from pytest_anubis.benchmarking.applicability import require

    host = torch.device("cpu")
    require(host, dtype)
    size = anubis_node.pick(**HOST_SIZES)
    exact_rate(anubis_metric, host, (size, size, size), dtype)


@pytest.mark.anubis(
    scope="node",
    resources=["cpu"],
    cost="25s",  # one metric of a host
    profiles=("standard", "soak"),
    question="Do products of the shapes that models have reach the rate of their class on the host?",
)
@pytest.mark.parametrize("shape", list(HOST_SHAPES))
def test_shapes_on_the_host(anubis_metric: MetricFixture, shape: str) -> None:
    """Many small products at once, one small one, and a few rows by large weights, on all cores."""
    import torch

    exact_rate(anubis_metric, torch.device("cpu"), HOST_SHAPES[shape], "float32")
