"""The functions that models spend their time in, in shapes of well-known ones, checked by element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional

from pytest_anubis.benchmarking.placement import checking_device
from pytest_anubis.benchmarking.precision import tolerance

Apply = Callable[..., torch.Tensor]

ELEMENT = 4.0
"""How many times the tolerance of the whole one element may err, of the root mean square and its own size:
the largest of a hundred million random errors is six times the usual one, the tolerance four times."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of independent examples and of weights.

    Attributes:
        apply: Takes the examples first.
        example: Shapes of what there is for each example, without the first dimension.
        weights: Shapes of the weights.
        terms: Products that one element of the result is the sum of.
        examples: How many, on an accelerator.
        at_once: How many are checked at a time.
    """

    apply: Apply
    example: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, ...], ...]
    terms: int
    examples: int
    at_once: int


def linear(inner: int, columns: int, rows: int) -> Function:
    """Return a layer of weights over so many rows."""
    return Function(functional.linear, ((inner,),), ((columns, inner),), inner, rows, 1024)


def convolution(
    channels: int, filters: int, kernel: int, picture: int, *, stride: int = 1, batch: int = 64
) -> Function:
    """Return a convolution over square pictures that keeps their size, but for the stride."""

    def apply(pictures: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(pictures, weights, stride=stride, padding=kernel // 2)

    shapes = ((channels, picture, picture),), ((filters, channels, kernel, kernel),)
    return Function(apply, *shapes, channels * kernel**2, batch, 4)


def attention(heads: int, length: int, width: int, *, causal: bool, batch: int) -> Function:
    """Return attention with so many heads; every head of every sequence is an example."""

    def apply(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        found = functional.scaled_dot_product_attention(
            query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), is_causal=causal
        )
        return found.squeeze(0)

    return Function(apply, ((length, width),) * 3, (), length, heads * batch, 4)


def layer_norm(width: int, rows: int) -> Function:
    """Return a normalisation of each row, with a weight and a shift for each column."""

    def apply(values: torch.Tensor, weight: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(values, (width,), weight, shift)

    return Function(apply, ((width,),), ((width,), (width,)), width, rows, 4096)


FUNCTIONS = {
    "bert-large-attention-out": linear(1024, 1024, 16_384),
    "bert-large-feed-forward": linear(1024, 4096, 16_384),
    "gpt2-xl-feed-forward": linear(1600, 6400, 8192),
    "llama-8b-gate": linear(4096, 14_336, 8192),
    "llama-8b-gate-decode": linear(4096, 14_336, 16),
    "lstm-1024-gates": linear(1024, 4096, 256),
    "resnet50-first": convolution(3, 64, 7, 224, stride=2),
    "resnet50-3x3": convolution(64, 64, 3, 56),
    "resnet50-1x1": convolution(256, 64, 1, 56),
    "vgg16-3x3": convolution(256, 256, 3, 56),
    "densenet121-3x3": convolution(128, 32, 3, 28),
    "bert-large-attention": attention(16, 512, 64, causal=False, batch=16),
    "llama-8b-attention": attention(32, 4096, 128, causal=True, batch=1),
    "bert-large-norm": layer_norm(1024, 16_384),
    "llama-8b-norm": layer_norm(4096, 8192),
}
"""By the model that it is taken from: BERT (large), GPT-2 (XL), Llama 3 (8B), an LSTM of 1,024, ResNet-50,
VGG-16, DenseNet-121."""


class FunctionCall:
    """A function with inputs, on a device.

    Args:
        function: What is computed.
        dtype: Torch's name of the element type.
        device: Where.
        examples: How many instead of the function's own.
        apply: Does the work instead; one that makes a fault shows that it is noticed.
    """

    def __init__(
        self,
        function: Function,
        dtype: str,
        device: torch.device,
        *,
        examples: int = 0,
        apply: Apply | None = None,
    ) -> None:
        self._function, self._device = function, device
        self._apply = apply or function.apply
        self._tolerance = ELEMENT * tolerance(dtype, terms=function.terms)
        random = torch.Generator(device).manual_seed(20240224)
        kind = getattr(torch, dtype)

        def drawn(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=random, device=device).to(kind)

        self.examples = examples or function.examples
        self._batches = [drawn(self.examples, *shape) for shape in function.example]
        self._weights = [drawn(*shape) for shape in function.weights]
        self._out = torch.empty(0)

    def run(self) -> None:
        """Compute once; the result is made anew, as in a model."""
        self._out = self._apply(*self._batches, *self._weights)

    def wrong_elements(self) -> int:
        """Return how many elements of the last result are further from the exact ones than rounding explains.

        The device is shown an error at the end; if it does not notice that, all count as wrong.
        """
        wrong = sum(self._wrong(begin) for begin in self._begins())
        last = list(self._begins())[-1]
        before = self._wrong(last)
        self._out.view(-1)[-1] = float("nan")
        return wrong if before or self._wrong(last) else self._out.numel()

    def _begins(self) -> Iterator[int]:
        yield from range(0, self.examples, self._function.at_once)

    def _wrong(self, begin: int) -> int:
        exact = checking_device(self._device)
        part = slice(begin, begin + self._function.at_once)
        batches = [batch[part].to(exact).double() for batch in self._batches]
        weights = [weight.to(exact).double() for weight in self._weights]
        expected = self._function.apply(*batches, *weights)
        found = self._out[part].to(exact).double()
        allowed = self._tolerance * (expected.square().mean().sqrt() + expected.abs())
        # Not "above": what became NaN is neither above nor below.
        return int(torch.count_nonzero(~((found - expected).abs() <= allowed)))
