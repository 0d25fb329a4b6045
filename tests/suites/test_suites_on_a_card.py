"""The branches for accelerators run to their end on a stand-in for one, and notice a sick one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_anubis.session.collecting.device_parameters import Device
from suites import accelerators
from suites.training import test_step as training
from suites.training.resnet import ResNetShape, resnet_step
from suites.training.step import TrainingStep
from tests.suites.stand_in_card import CARD, stand_in

pytestmark = pytest.mark.usefixtures("one_thread")
CALLS = 3


@dataclass
class Taken:
    """Stands for ``anubis_metric``: calls what it is given a few times and keeps what was asked for."""

    asked: dict[str, dict[str, Any]] = field(default_factory=dict)

    def measure(self, name: str, fn: Callable[[], object], **asked: Any) -> tuple[float, ...]:
        """Call it."""
        self.asked[name] = asked
        for _ in range(CALLS):
            fn()
        return (1.0,)

    def collect(self, name: str, fn: Callable[[], Any], **asked: Any) -> tuple[float, ...]:
        """Call it, and see that it returns what can be recorded."""
        self.asked[name] = asked
        values = [float(fn()) for _ in range(CALLS)]
        assert all(math.isfinite(value) and value >= 0 for value in values)
        return tuple(values)


@dataclass
class Node:
    """Stands for ``anubis_node``."""

    profile: str = "smoke"
    cores: int = 1
    scratch: Path = Path()
    name: str = "node"

    def pick(self, **of: Any) -> Any:
        """Return the profile's."""
        return of[self.profile]


@pytest.fixture
def card() -> Iterator[Any]:
    with stand_in() as found, accelerators.single_precision():
        yield found


SMALL_RESNET = {"width": 8, "stages": 2, "blocks": 1, "picture": 16}
MIDDLE_RESNET = {"width": 16, "stages": 4, "blocks": 1, "picture": 32}
SMALL_GPT = {"layers": 1, "width": 32, "heads": 2, "context": 32, "vocabulary": 64}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes for a CPU."""
    monkeypatch.setattr(training, "RESNET", SMALL_RESNET)
    monkeypatch.setattr(training, "PICTURES", 8)
    monkeypatch.setattr(training, "GPT", SMALL_GPT)
    monkeypatch.setattr(training, "SEQUENCES", 4)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("test", [training.test_resnet_step, training.test_gpt_step])
def test_training_step_is_checked_captured_and_replayed(
    test: Callable[..., None], card: Any
) -> None:
    taken, said = Taken(), {}
    test(taken, Device("cuda:0"), Node(), said.__setitem__)
    assert list(taken.asked) == ["training_rate"]
    assert said == {"training_step": "captured as a graph"}
    assert [graph.replays for graph in card.graphs] == [CALLS]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("test", [training.test_resnet_step, training.test_gpt_step])
def test_training_step_that_cannot_be_captured_runs_and_says_why(
    test: Callable[..., None],
) -> None:
    said: dict[str, object] = {}
    with stand_in(captures=False):
        test(Taken(), Device("cuda:0"), Node(), said.__setitem__)
    assert said == {"training_step": "eager: operation not permitted when stream is capturing"}


def small_step() -> TrainingStep:
    return resnet_step(ResNetShape(**SMALL_RESNET, batch=8), CARD, half=True)


def test_healthy_card_has_a_margin_and_tf32_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in():
        step = resnet_step(ResNetShape(**MIDDLE_RESNET, batch=4), CARD, half=True)
        for half, tolerance in training.GRADIENT_TOLERANCE.items():
            assert step.gradient_error(half=half) < tolerance / 3
        monkeypatch.setattr("suites.training.step.single_precision", nullcontext)
        with accelerators.single_precision(tf32=True):
            assert step.gradient_error(half=False) > training.GRADIENT_TOLERANCE[False]


def quietly_wrong(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    """Be wrong in one channel, but in double precision, as a kernel of low precision may be."""
    if output.dtype is torch.float64:
        return output
    output = output.clone()
    output[:, 0] *= 1.5
    return output


def test_corrupted_kernel_is_caught_in_either_precision() -> None:
    with stand_in():
        for half in (False, True):
            step = resnet_step(ResNetShape(**MIDDLE_RESNET, batch=4), CARD, half=True)
            first = next(m for m in step.model.modules() if isinstance(m, torch.nn.BatchNorm2d))
            first.register_forward_hook(quietly_wrong)
            assert step.gradient_error(half=half) > training.GRADIENT_TOLERANCE[half]
