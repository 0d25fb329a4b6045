"""The training steps learn, cost by their work, and notice a wrong number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from suites.training.gpt import GptShape, gpt_step
from suites.training.resnet import ResNetShape, resnet_step
from suites.training.step import TrainingStep
from suites.training.test_step import GRADIENT_TOLERANCE, learned, right_gradient

pytestmark = pytest.mark.usefixtures("one_thread")
Costs = Callable[..., list[float]]
CPU = torch.device("cpu")


def small_resnet(batch: int = 4) -> TrainingStep:
    return resnet_step(ResNetShape(width=8, stages=2, blocks=1, picture=16, batch=batch), CPU)


def small_gpt(batch: int = 4) -> TrainingStep:
    shape = GptShape(layers=1, width=32, heads=2, context=32, batch=batch, vocabulary=64)
    return gpt_step(shape, CPU)


both = pytest.mark.parametrize("make", [small_resnet, small_gpt])


@both
def test_step_learns_and_its_gradient_is_right(make: Callable[[], TrainingStep]) -> None:
    step = make()
    right_gradient(step, half=False)
    for _ in range(10):
        step.run()
    learned(step)


@both
def test_same_step_on_every_machine(make: Callable[[], TrainingStep]) -> None:
    torch.manual_seed(1)
    first = make()
    torch.manual_seed(2)
    second = make()
    for step in (first, second):
        step.run()
    assert first.losses() == second.losses()


@pytest.mark.alone
@both
def test_larger_batch_costs_more(make: Callable[[int], TrainingStep], costs: Costs) -> None:
    small, large = make(8), make(64)
    least = costs(small.run, large.run)
    assert least[1] > 2 * least[0]


def flip_one(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
    """Flip a high bit of the exponent of one activation; what is done in double precision is right."""
    if output.dtype is not torch.float32:
        return output
    bits = output.detach().clone().view(torch.int32).view(-1)
    bits[7] ^= 1 << 29
    return output + (bits.view(torch.float32).view(output.shape) - output.detach())


@both
def test_flipped_bit_in_an_activation_is_noticed(make: Callable[[], TrainingStep]) -> None:
    step = make()
    next(step.model.children()).register_forward_hook(flip_one)
    assert not step.gradient_errors(False)[0] < GRADIENT_TOLERANCE[False]


@both
def test_step_that_does_not_learn_is_noticed(make: Callable[[], TrainingStep]) -> None:
    step = make()
    for parameter in step.model.parameters():
        parameter.requires_grad_(False)
    with torch.no_grad():
        first = next(step.model.parameters())
        first.requires_grad_(True)
        first.fill_(math.nan)
    step.run()
    with pytest.raises(AssertionError, match="nan"):
        learned(step)


@both
def test_one_step_alone_has_not_learned(make: Callable[[], TrainingStep]) -> None:
    step = make()
    step.run()
    with pytest.raises(AssertionError, match="did not fall"):
        learned(step)


def test_bfloat16_stays_within_its_tolerance() -> None:
    shape = GptShape(layers=1, width=32, heads=2, context=32, batch=4, vocabulary=64)
    step = gpt_step(shape, CPU, half=True)
    right_gradient(step, half=True)
