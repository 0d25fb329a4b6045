"""The optimisers of the training steps: state, and the functions that the classes of ``torch.optim`` call.

The classes load torch's compiler at their first use, hundreds of files that no step here needs. That takes as
long as torch itself, in every process, and a card rests meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd


class Optimizer(ABC):
    """Updates parameters by their gradients; parameters without a gradient stay as they are.

    Args:
        parameters: The parameters.
        rate: Learning rate.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float) -> None:
        self._parameters = list(parameters)
        self._rate = rate

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for one in self._parameters:
            one.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters."""
        found = [(at, one.grad) for at, one in enumerate(self._parameters) if one.grad is not None]
        self._update([at for at, _ in found], [gradient for _, gradient in found])

    def to_capture(self) -> None:  # noqa: B027
        """Keep on the card what the host would else read in every step; called before the first step."""

    @abstractmethod
    def _update(self, places: list[int], gradients: list[torch.Tensor]) -> None:
        """Update the parameters at these places of the list."""

    def _at(self, places: list[int]) -> list[torch.Tensor]:
        return [self._parameters[at] for at in places]

    def _zeros(self) -> list[torch.Tensor]:
        return [torch.zeros_like(one) for one in self._parameters]


class Sgd(Optimizer):
    """Stochastic gradient descent, with torch's defaults.

    Args:
        parameters: The parameters.
        rate: Learning rate.
        momentum: Share of the last update that is added to the next one.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], rate: float, momentum: float = 0.0
    ) -> None:
        super().__init__(parameters, rate)
        self._momentum = momentum
        self._buffers = self._zeros() if momentum else []

    def _update(self, places: list[int], gradients: list[torch.Tensor]) -> None:
        sgd(
            self._at(places),
            gradients,
            [self._buffers[at] if self._buffers else None for at in places],
            has_sparse_grad=False,
            weight_decay=0.0,
            momentum=self._momentum,
            lr=self._rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )


class AdamW(Optimizer):
    """Adam with decoupled weight decay, with torch's defaults."""

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float) -> None:
        super().__init__(parameters, rate)
        self._averages, self._squares = self._zeros(), self._zeros()
        self._steps = [torch.zeros(()) for _ in self._parameters]  # the host reads them
        self._captured = False

    def to_capture(self) -> None:
        """Count the steps on the card."""
        self._steps = [torch.zeros((), device=one.device) for one in self._parameters]
        self._captured = True

    def _update(self, places: list[int], gradients: list[torch.Tensor]) -> None:
        adamw(
            self._at(places),
            gradients,
            [self._averages[at] for at in places],
            [self._squares[at] for at in places],
            [],
            [self._steps[at] for at in places],
            capturable=self._captured,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._rate,
            weight_decay=0.01,
            eps=1e-8,
            maximize=False,
        )
