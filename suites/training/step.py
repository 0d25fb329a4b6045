"""One training step of a network, with a check of its gradients in double precision."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any

import torch
from torch import nn

from pytest_anubis.benchmarking.capture import as_graph
from pytest_anubis.benchmarking.placement import checking_device
from pytest_anubis.benchmarking.precision import single_precision
from suites.training.optimizers import Optimizer

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

CHECKED = (slice(4), slice(128))
"""Part of the batch that is checked: four examples, of sequences the first 128 tokens. In double precision
that costs an accelerator hundredths of a second and a CPU about one."""

LOSS_SCALE = 1024.0
"""What the loss is multiplied by in float16, whose smallest number is 6e-8: gradients are mostly smaller.
Fixed, as looking whether something overflowed would have the host wait in every step."""


class TrainingStep:
    """Forward, backward and update on one fixed batch.

    On an accelerator pictures and volumes lie with their channels last, as its matrix units want them.

    Args:
        model: The network; it is moved to `device`, best made there: a host draws a hundred million
            weights for longer than a card trains on them.
        inputs: One batch, first axis the examples.
        targets: What the network should say, first axis the examples.
        loss: Takes outputs and targets.
        optimizer: Makes the optimiser of the model's parameters.
        half: Compute in the type `kind` where torch's automatic choice says so.
        kind: ``torch.bfloat16`` or ``torch.float16``.

    Attributes:
        through: What a step goes through: the network, or what exchanges its gradients with other ranks.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        *,
        loss: Loss,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer],
        device: torch.device,
        half: bool = False,
        kind: torch.dtype = torch.bfloat16,
    ) -> None:
        self._device, self._kind = device, kind
        self.model = model.to(device)
        self._inputs, self._targets = inputs.to(device), targets.to(device)
        if device.type != "cpu":
            self.model, self._inputs = channels_last(self.model, self._inputs)
        self.through = self.model
        self._loss, self._make_optimizer = loss, optimizer
        self._optimizer = optimizer(self.model.parameters())
        self._half = half
        self._graph: torch.cuda.CUDAGraph | None = None
        self._first: torch.Tensor | None = None
        self._last = torch.tensor(math.nan)

    def run(self) -> None:
        """Make one step; does not wait for the device."""
        if self._graph is not None:
            self._graph.replay()
        else:
            self._step()

    def feed(self, inputs: torch.Tensor) -> None:
        """Replace the batch by other inputs of its shape, which are converted on the device."""
        self._inputs.copy_(inputs.to(self._device, non_blocking=True))

    def run_for_nothing(self) -> None:
        """Make a step that ends with a gradient of zeros: the same work, and ranks keep the same weights."""
        self._optimizer.zero_grad()
        self._backward(self.through, self._inputs, self._targets, self._half)
        torch._foreach_zero_(self._gradients())
        self._optimizer.step()

    def capture(self) -> str:
        """Capture the step as a graph, so that it costs the host one launch and not a thousand.

        Makes a few steps. Where capturing is impossible the step stays as it is.

        Returns:
            Why it was not captured; empty if it was.
        """
        if self._device.type != "cuda":
            return f"no graphs on {self._device.type}"
        self._optimizer.to_capture()
        self._graph, reason = as_graph(self._step, self._device, before=self._optimizer.zero_grad)
        return reason

    def losses(self) -> tuple[float, float]:
        """Return the loss of the first and of the newest step."""
        first = self._last if self._first is None else self._first
        return float(first), float(self._last)

    def gradient_errors(self, *halves: bool) -> list[float]:
        """Return |g - r| / |r| over all parameters for each precision, r the gradient in double precision.

        All are taken at the initial weights, so it has to be called before the first step, and of a
        twin with smooth activations: where a ReLU's input is nearly zero, rounding decides whether its
        gradient is 0 or 1, and a healthy device would be off by tenths in bfloat16. The reference is
        computed once for all precisions.

        Args:
            halves: Compute in the low type (True) or in single precision, which is true single precision,
                never TF32.
        """
        twin = smooth(copy.deepcopy(self.model))
        inputs, targets = self._inputs[CHECKED[:1]], self._targets[CHECKED[:1]]
        if inputs.ndim < 4:  # sequences
            inputs, targets = (x[:, CHECKED[1]] if x.ndim > 1 else x for x in (inputs, targets))
        found = []
        with single_precision():
            exact = checking_device(self._device)
            for half in halves:
                twin.zero_grad()
                self._backward(twin, inputs, targets, half)
                found.append(_gradient(twin, exact) / self._scale(half))
            twin = twin.to(device=exact, dtype=torch.float64)
            twin.zero_grad()
            inputs, targets = inputs.to(exact), targets.to(exact)
            if inputs.is_floating_point():
                inputs = inputs.to(torch.float64)
            self._backward(twin, inputs, targets, half=False)
        expected = _gradient(twin, exact)
        return [float((one - expected).norm() / expected.norm()) for one in found]

    def in_double(self) -> TrainingStep:
        """Return this step in double precision, on a copy of the weights, where such results are computed."""
        exact = checking_device(self._device)
        inputs = self._inputs.to(exact)
        return TrainingStep(
            copy.deepcopy(self.model).to(device=exact, dtype=torch.float64),
            inputs.double() if inputs.is_floating_point() else inputs,
            self._targets.to(exact),
            loss=self._loss,
            optimizer=self._make_optimizer,
            device=exact,
        )

    def _step(self) -> None:
        self._optimizer.zero_grad()
        loss = self._backward(self.through, self._inputs, self._targets, self._half)
        if self._scale(self._half) != 1.0:
            torch._foreach_mul_(self._gradients(), 1 / LOSS_SCALE)
        self._optimizer.step()
        self._last = loss
        if self._first is None:
            self._first = loss

    def _backward(
        self, model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, half: bool
    ) -> torch.Tensor:
        """Fill the gradients, times the scale, and return the loss."""
        with torch.autocast(self._device.type, self._kind, enabled=half):
            loss = self._loss(model(inputs), targets)
        scale = self._scale(half)
        (loss if scale == 1.0 else loss * scale).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _gradients(self) -> list[torch.Tensor]:
        return [p.grad for p in self.model.parameters() if p.grad is not None]

    def _scale(self, half: bool) -> float:
        """Return what the gradients are multiplied by."""
        return LOSS_SCALE if half and self._kind is torch.float16 else 1.0


def channels_last(model: nn.Module, inputs: torch.Tensor) -> tuple[nn.Module, torch.Tensor]:
    """Return a network and its inputs with the channels of pictures or volumes last in memory."""
    form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(inputs.ndim)
    if form is None:
        return model, inputs
    return model.to(memory_format=form), inputs.contiguous(memory_format=form)  # type: ignore[call-overload]


def smooth(model: nn.Module) -> nn.Module:
    """Take out what rounding decides: ReLU's kink, which number is the largest, which expert is taken."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU | nn.LeakyReLU):
                setattr(module, name, nn.SiLU())
            elif isinstance(child, nn.MaxPool2d | nn.MaxPool3d):
                pool: Any = nn.AvgPool2d if isinstance(child, nn.MaxPool2d) else nn.AvgPool3d
                setattr(module, name, pool(child.kernel_size, child.stride, child.padding))
            elif isinstance(taken := getattr(child, "smooth", None), MethodType):
                taken()
    return model


def _gradient(model: nn.Module, exact: torch.device) -> torch.Tensor:
    gradients = (parameter.grad for parameter in model.parameters())
    return torch.cat([g.to(exact).flatten() for g in gradients if g is not None])
