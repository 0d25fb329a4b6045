"""Inference: a batch of pictures or texts, a prompt that is read, a token that is continued by one more."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn

from pytest_anubis.benchmarking.capture import as_graph
from pytest_anubis.benchmarking.placement import checking_device
from suites.training.step import channels_last
from suites.workload.catalogue import Sizes, Step, Workload
from suites.workload.models.experts import Experts
from suites.workload.models.language import Kept, LanguageModel
from suites.workload.running import double_precision, draw, network

CHECKED = {"language": 1}
CHECKED_ELSE = 4
"""Examples of the batch whose result is computed in double precision too: one text, as texts are long; or
four."""

ODD = 0x9E3779B97F4A7C15
"""Spreads the sums of several tensors over all bits: an odd number, so that none is lost."""


class Serving:
    """One step of inference on a fixed batch, with weights, inputs and results in one element type.

    Args:
        sizes: Its batch.
        dtype: Element type by torch's name.
        step: ``inference`` of a batch; ``prefill``: read the batch's texts and keep their keys and values;
            ``decode``: one token more for each, always at the same place, so that every step is the same
            work.

    Attributes:
        output: What the newest step said: scores.
    """

    def __init__(
        self, workload: Workload, sizes: Sizes, device: torch.device, dtype: str, step: Step
    ) -> None:
        kind = cast(torch.dtype, getattr(torch, dtype))
        self._device, self._step = device, step
        self._checked = CHECKED.get(workload.task, CHECKED_ELSE)
        self.model = network(workload, device, kind).eval().requires_grad_(False)
        self._inputs = draw(workload, sizes, device)[0]
        if self._inputs.is_floating_point():
            self._inputs = self._inputs.to(kind)
        if device.type != "cpu":
            self.model, self._inputs = channels_last(self.model, self._inputs)
        self._kept: list[Kept] = []
        if step != "inference":
            model = cast(LanguageModel, self.model)
            like = next(self.model.parameters())
            self._kept = model.room_for(sizes.batch, sizes.length + 1, like)
            if step == "decode":
                self._answer(self.model, self._inputs, self._kept, "prefill")
        self._graph: torch.cuda.CUDAGraph | None = None
        self.output = torch.empty(0)

    def run(self) -> None:
        """Make one step; does not wait for the device."""
        if self._graph is not None:
            self._graph.replay()
        else:
            self._once()

    def capture(self) -> str:
        """Capture the step as a graph, as servers do: a small step costs the host longer than the device.

        Returns:
            Why it was not captured; empty if it was.
        """
        if self._device.type != "cuda":
            return f"no graphs on {self._device.type}"
        self._graph, reason = as_graph(self._once, self._device)
        return reason

    def weights(self) -> int:
        """Return a sum of all weights' bits, 0 to 2^64 - 1: every single bit that flips changes it.

        A sum only, as it is taken twice in a test that lasts a second: a fingerprint takes ten times as long.
        """
        words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        total = 0
        for tensor in self.model.state_dict().values():
            bits = tensor.contiguous().view(-1).view(words[tensor.element_size()])
            total = (total * ODD + int(bits.sum(dtype=torch.int64))) % (1 << 64)
        return total

    def error(self) -> float:
        """Return |y - r| / |r| for the first examples of the batch, r the scores in double precision.

        Of a batch as it is measured, so of the same kernels; a mixture of experts takes them by place
        here, since rounding may decide between two that are nearly equal.
        """
        with self._by_place():
            if self._step == "decode":  # keys and values depend on who was chosen
                self._answer(self.model, self._inputs, self._kept, "prefill")
            self._once()
            found = self.output[: self._checked]
            exact = self._exact()
        if self._step == "decode":
            self._answer(self.model, self._inputs, self._kept, "prefill")
        return float((found.to(exact.device).double() - exact).norm() / exact.norm())

    def _exact(self) -> torch.Tensor:
        """Return the scores of the first examples in double precision, from the weights as they are."""
        where = checking_device(self._device)
        model = self.model if where == self._device else copy.deepcopy(self.model).to(where)
        inputs = self._inputs[: self._checked].to(where)
        inputs = inputs.double() if inputs.is_floating_point() else inputs
        kept: list[Kept] = []
        with double_precision(model), torch.no_grad():
            if self._step != "inference":
                like = torch.empty(0, dtype=torch.float64, device=where)
                language = cast(LanguageModel, model)
                kept = language.room_for(len(inputs), inputs.shape[1] + 1, like)
                if self._step == "decode":
                    self._answer(model, inputs, kept, "prefill")
            return self._answer(model, inputs, kept, self._step)

    def _once(self) -> None:
        self.output = self._answer(self.model, self._inputs, self._kept, self._step)

    @staticmethod
    def _answer(
        model: nn.Module, inputs: torch.Tensor, kept: list[Kept], step: Step
    ) -> torch.Tensor:
        with torch.no_grad():
            if step == "inference":
                return cast(torch.Tensor, model(inputs))
            if step == "prefill":
                return cast(torch.Tensor, model(inputs, kept))
            return cast(torch.Tensor, model(inputs[:, -1:], kept, inputs.shape[1]))

    @contextmanager
    def _by_place(self) -> Iterator[None]:
        mixed = [module for module in self.model.modules() if isinstance(module, Experts)]
        for module in mixed:
            module.by_place = True
        try:
            yield
        finally:
            for module in mixed:
                module.by_place = False
