"""One training step from end to end: what users do with the machine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture
from pytest_anubis.benchmarking.capture import EAGER
from pytest_anubis.benchmarking.sizes import fitting

if TYPE_CHECKING:
    from suites.training.step import TrainingStep

GRADIENT_TOLERANCE = {False: 3e-4, True: 0.2}
"""Largest relative error of the gradient, in single precision and with bfloat16 (True): forty and six
times that of healthy hardware at the sizes below (`docs/decisions.md`). TF32 errs by 2e-3."""

RESNET = {"width": 64, "stages": 4, "blocks": 2, "picture": 128}
PICTURES = 256
PICTURE_BYTES = 80_000_000
"""Memory that one picture takes on an accelerator: 75 MB of activations in bfloat16, and gradients."""

GPT = {"layers": 12, "width": 768, "heads": 12, "context": 1024, "vocabulary": 50304}
SEQUENCES = 32
SEQUENCE_BYTES = 1_000_000_000
"""Memory that one sequence takes: 0.43 GB of activations, 0.6 GB of scores and their gradients."""

pytestmark = [
    pytest.mark.anubis(
        scope="device",
        cost={"cpu": "2s", "accelerator": "5s"},
        deadline="300s",
        metrics=["training_rate"],
        goal="Training runs at the rate of its class, and learns",
        action="Look at the other benchmarks of this device first: one of them usually names the part; if "
        "all are normal, run the standard profile, which is long enough for heat and power to show",
    ),
    pytest.mark.usefixtures("torch_settings"),
]


def learned(step: TrainingStep, *, fell: bool = True) -> None:
    """Assert that the loss is finite and, unless its steps are below what the weights can hold, fell."""
    first, last = step.losses()
    assert math.isfinite(last), f"the loss went from {first:.4g} to {last}"
    assert not fell or last < first, (
        f"the loss did not fall: {first:.6g} at first, {last:.6g} at last"
    )


def right_gradient(step: TrainingStep, *, half: bool) -> None:
    """Assert that the gradient is that of double precision, before the first step.

    Always in single precision, which finds small errors; with `half` in bfloat16 as well, which only
    finds large ones but uses the units that the step is measured with.
    """
    halves = (False, True) if half else (False,)
    for low, error in zip(halves, step.gradient_errors(*halves), strict=True):
        tolerance = GRADIENT_TOLERANCE[low]
        assert error < tolerance, (
            f"the gradient in {'bfloat16' if low else 'single precision'} is off by {error:.1e}, "
            f"tolerance {tolerance:.0e}"
        )


def captured(step: TrainingStep, record_property: Callable[[str, object], None]) -> str:
    """Capture the step, say in the test's property ``training_step`` whether that was possible.

    Returns:
        The group of its rates: what was not captured where others are is compared with its like.
    """
    reason = step.capture()
    record_property("training_step", f"eager: {reason}" if reason else "captured as a graph")
    return EAGER if reason else ""


@pytest.mark.anubis(
    component="training.convolution",
    version=2,  # smaller steps of hosts in `smoke`
    question="How many pictures a second does a small residual network learn from?",
)
def test_resnet_step(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
) -> None:
    """A training step of a residual network is quick, its gradient right, and its loss falls."""
    from suites.training.resnet import ResNetShape, resnet_step

    half = anubis_device.kind != "cpu"
    if half:
        batch = fitting(PICTURES * PICTURE_BYTES, anubis_device.torch) // PICTURE_BYTES
        shape = ResNetShape(**RESNET, batch=batch)
    else:
        batch = anubis_node.pick(smoke=8, standard=64, soak=64)
        shape = ResNetShape(width=16, stages=3, blocks=2, picture=32, batch=batch)
    step = resnet_step(shape, anubis_device.torch, half=half)
    right_gradient(step, half=half)
    group = captured(step, record_property) if half else ""
    anubis_metric.measure(
        "training_rate",
        step.run,
        work=float(batch),
        unit="samples/s",
        better="higher",
        group=group,
    )
    learned(step)


@pytest.mark.anubis(
    component="training.transformer",
    version=2,  # smaller steps of hosts in `smoke`
    question="How many tokens a second does a small transformer learn from?",
)
def test_gpt_step(
    anubis_metric: MetricFixture,
    anubis_device: DeviceFixture,
    anubis_node: NodeFixture,
    record_property: Callable[[str, object], None],
) -> None:
    """A training step of a transformer is quick, its gradient right, and its loss falls."""
    from suites.training.gpt import GptShape, gpt_step

    half = anubis_device.kind != "cpu"
    if half:
        batch = fitting(SEQUENCES * SEQUENCE_BYTES, anubis_device.torch) // SEQUENCE_BYTES
        shape = GptShape(**GPT, batch=batch)
    else:
        batch = anubis_node.pick(smoke=2, standard=16, soak=16)
        shape = GptShape(layers=2, width=256, heads=4, context=128, batch=batch, vocabulary=1024)
    step = gpt_step(shape, anubis_device.torch, half=half)
    right_gradient(step, half=half)
    group = captured(step, record_property) if half else ""
    anubis_metric.measure(
        "training_rate",
        step.run,
        work=float(shape.tokens),
        unit="tokens/s",
        better="higher",
        group=group,
    )
    learned(step)
