"""One training step from end to end: what users do with the machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import DeviceFixture, MetricFixture, NodeFixture

if TYPE_CHECKING:
    from suites.training.step import TrainingStep

_GOAL = "Training runs at the rate of its class, and learns"
_ACTION = (
    "Look at the other benchmarks of this device first: one of them usually names the part; if all are "
    "normal, run the standard profile, which is long enough for heat and power to show"
)
GRADIENT_TOLERANCE = {False: 1e-3, True: 0.1}
"""Largest relative error of the gradient, in single precision and with bfloat16 (True)."""


def learned(step: TrainingStep) -> None:
    """Assert that the loss is finite and fell."""
    first, last = step.losses()
    assert math.isfinite(last), f"the loss went from {first:.4g} to {last}"
    assert last < first, f"the loss did not fall: {first:.6g} at first, {last:.6g} at last"


def right_gradient(step: TrainingStep, *, half: bool) -> None:
    """Assert that the gradient is that of double precision, before the first step."""
    error, tolerance = step.gradient_error(), GRADIENT_TOLERANCE[half]
    assert error < tolerance, f"the gradient is off by {error:.1e}, tolerance {tolerance:.0e}"


@pytest.mark.anubis(
    component="training.convolution",
    scope="device",
    cost="3s",
    metrics=["training_rate"],
    goal=_GOAL,
    question="How many pictures a second does a small residual network learn from?",
    action=_ACTION,
)
@pytest.mark.usefixtures("torch_threads")
def test_resnet_step(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """A training step of a residual network is quick, its gradient right, and its loss falls."""
    from suites.training.resnet import ResNetShape, resnet_step

    half = anubis_device.kind != "cpu"
    if half:
        batch = anubis_node.pick(smoke=256, standard=512, soak=512)
        shape = ResNetShape(width=64, stages=4, blocks=2, picture=128, batch=batch)
    else:
        batch = anubis_node.pick(smoke=16, standard=64, soak=64)
        shape = ResNetShape(width=16, stages=3, blocks=2, picture=32, batch=batch)
    step = resnet_step(shape, anubis_device.torch, half=half)
    right_gradient(step, half=half)
    anubis_metric.measure(
        "training_rate", step.run, work=float(batch), unit="samples/s", better="higher"
    )
    learned(step)


@pytest.mark.anubis(
    component="training.transformer",
    scope="device",
    cost="3s",
    metrics=["training_rate"],
    goal=_GOAL,
    question="How many tokens a second does a small transformer learn from?",
    action=_ACTION,
)
@pytest.mark.usefixtures("torch_threads")
def test_gpt_step(
    anubis_metric: MetricFixture, anubis_device: DeviceFixture, anubis_node: NodeFixture
) -> None:
    """A training step of a transformer is quick, its gradient right, and its loss falls."""
    from suites.training.gpt import GptShape, gpt_step

    half = anubis_device.kind != "cpu"
    if half:
        batch = anubis_node.pick(smoke=8, standard=16, soak=16)
        shape = GptShape(
            layers=12, width=768, heads=12, context=1024, batch=batch, vocabulary=50304
        )
    else:
        batch = anubis_node.pick(smoke=4, standard=16, soak=16)
        shape = GptShape(layers=2, width=256, heads=4, context=128, batch=batch, vocabulary=1024)
    step = gpt_step(shape, anubis_device.torch, half=half)
    right_gradient(step, half=half)
    anubis_metric.measure(
        "training_rate", step.run, work=float(shape.tokens), unit="tokens/s", better="higher"
    )
    learned(step)
