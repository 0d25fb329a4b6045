"""One training step of a network, with a check of its gradients in double precision."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import nn

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

CHECKED = 4
"""Examples of the batch that the check in double precision uses."""


class TrainingStep:
    """Forward, backward and update on one fixed batch.

    Args:
        model: The network, on the host; it is moved to `device`.
        inputs: One batch, first axis the examples.
        targets: What the network should say, first axis the examples.
        loss: Takes outputs and targets.
        optimizer: Makes the optimiser from the model's parameters.
        device: Where to train.
        half: Compute in bfloat16 where torch's automatic choice says so.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        *,
        loss: Loss,
        optimizer: Callable[..., torch.optim.Optimizer],
        device: torch.device,
        half: bool = False,
    ) -> None:
        self._reference = copy.deepcopy(model).to(torch.float64)
        self.model = model.to(device)
        self._inputs, self._targets = inputs.to(device), targets.to(device)
        self._loss = loss
        self._optimizer = optimizer(self.model.parameters())
        self._half = half
        self._first: torch.Tensor | None = None
        self._last = torch.tensor(math.nan)

    def run(self) -> None:
        """Make one step; does not wait for the device."""
        self._optimizer.zero_grad()
        loss = self._forward(self._inputs, self._targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._last = loss.detach()
        if self._first is None:
            self._first = self._last

    def losses(self) -> tuple[float, float]:
        """Return the loss of the first and of the newest step."""
        first = self._last if self._first is None else self._first
        return float(first), float(self._last)

    def gradient_error(self) -> float:
        """Return |g - r| / |r| over all parameters, r the gradient in double precision on the host.

        Both are taken at the initial weights, so it has to be called before the first step.
        """
        inputs, targets = self._inputs[:CHECKED], self._targets[:CHECKED]
        self._optimizer.zero_grad()
        self._forward(inputs, targets).backward()  # type: ignore[no-untyped-call]
        exact = inputs.cpu()
        if exact.is_floating_point():
            exact = exact.to(torch.float64)
        self._loss(self._reference(exact), targets.cpu()).backward()  # type: ignore[no-untyped-call]
        found, expected = _gradient(self.model), _gradient(self._reference)
        self._optimizer.zero_grad()
        return float((found - expected).norm() / expected.norm())

    def _forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self._half):
            return self._loss(self.model(inputs), targets)


def _gradient(model: nn.Module) -> torch.Tensor:
    gradients = (parameter.grad for parameter in model.parameters())
    return torch.cat([g.cpu().to(torch.float64).flatten() for g in gradients if g is not None])
