"""The optimisers of the training steps update as torch's own classes do, and load no compiler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from suites.training.optimizers import AdamW, Sgd

PAIRS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "plain": (lambda them: Sgd(them, 0.1), lambda them: torch.optim.SGD(them, lr=0.1)),
    "momentum": (
        lambda them: Sgd(them, 0.01, momentum=0.9),
        lambda them: torch.optim.SGD(them, lr=0.01, momentum=0.9),
    ),
    "adam": (lambda them: AdamW(them, 3e-4), lambda them: torch.optim.AdamW(them, lr=3e-4)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_updates_are_those_of_torch(
    pair: tuple[Callable[[Any], Any], Callable[[Any], Any]],
) -> None:
    trained = []
    for make in pair:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(9, 9), torch.nn.ReLU(), torch.nn.Linear(9, 3))
        unused = torch.nn.Linear(2, 2)  # has no gradients
        parameters = [*model.parameters(), *unused.parameters()]
        optimizer = make(parameters)
        inputs = torch.randn(5, 9)
        for _ in range(5):
            optimizer.zero_grad()
            model(inputs).square().sum().backward()
            optimizer.step()
        trained.append(parameters)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*trained, strict=True))


def test_a_training_step_loads_no_compiler() -> None:
    script = (
        "import sys, torch; from suites.training.resnet import ResNetShape, resnet_step; "
        "shape = ResNetShape(width=4, stages=1, blocks=1, picture=8, batch=4); "
        "step = resnet_step(shape, torch.device('cpu')); step.gradient_errors(False); step.run(); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
