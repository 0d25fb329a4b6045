"""Functions that models spend their time in, and their gradients, in shapes of known ones, checked wholly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional

from pytest_anubis.benchmarking.placement import checking_device
from pytest_anubis.benchmarking.precision import tolerance

Apply = Callable[..., torch.Tensor]
Gradient = Literal["data", "weights"]

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
        terms: Products that one element of the result is the sum of; of `summed` ones for each example.
        examples: How many, on an accelerator.
        at_once: How many are checked at a time.
        summed: The result is a sum over the examples, as the gradient of weights is; else there is one for
            each.
        channels_last: The channels of a place lie side by side in memory (NHWC), in pictures and filters.
    """

    apply: Apply
    example: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[int, ...], ...]
    terms: int
    examples: int
    at_once: int
    summed: bool = False
    channels_last: bool = False


def linear(inner: int, columns: int, rows: int) -> Function:
    """Return a layer of weights over so many rows."""
    return Function(functional.linear, ((inner,),), ((columns, inner),), inner, rows, 1024)


def linear_gradient(of: Gradient, inner: int, columns: int, rows: int) -> Function:
    """Return a gradient of such a layer: of its rows, or of its weights."""
    if of == "data":
        return Function(torch.matmul, ((columns,),), ((columns, inner),), columns, rows, 1024)

    def apply(values: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
        return gradients.t() @ values

    return Function(apply, ((inner,), (columns,)), (), 1, rows, 1024, summed=True)


def products(
    rows: int, inner: int, columns: int, *, batch: int, transposed: bool = False
) -> Function:
    """Return products of matrices that lie one behind the other, such as those of attention's heads.

    Args:
        rows: Of the first factor.
        inner: Terms of a sum.
        columns: Of the second factor.
        batch: How many products at once.
        transposed: The second factor lies in memory by columns, as the keys do; else by rows, as the values.
    """
    if not transposed:
        return Function(torch.bmm, ((rows, inner), (inner, columns)), (), inner, batch, 16)

    def apply(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return torch.bmm(first, second.transpose(1, 2))

    return Function(apply, ((rows, inner), (columns, inner)), (), inner, batch, 16)


def convolution(
    channels: int,
    filters: int,
    kernel: int,
    picture: int,
    *,
    stride: int = 1,
    batch: int = 64,
    channels_last: bool = False,
) -> Function:
    """Return a convolution over square pictures that keeps their size, but for the stride."""

    def apply(pictures: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return functional.conv2d(pictures, weights, stride=stride, padding=kernel // 2)

    shapes = ((channels, picture, picture),), ((filters, channels, kernel, kernel),)
    return Function(apply, *shapes, channels * kernel**2, batch, 4, channels_last=channels_last)


def convolution_gradient(
    of: Gradient,
    channels: int,
    filters: int,
    kernel: int,
    picture: int,
    *,
    batch: int = 64,
    channels_last: bool = False,
) -> Function:
    """Return a gradient of such a convolution of stride 1: of its pictures (``data``) or of its filters.

    Pictures, gradients of the result and filters are all there, as in a model: those that the sum does not
    need tell their shape and layout.
    """

    def apply(
        pictures: torch.Tensor, gradients: torch.Tensor, filters: torch.Tensor
    ) -> torch.Tensor:
        around, once, wanted = [kernel // 2] * 2, [1, 1], [of == "data", of == "weights", False]
        found = torch.ops.aten.convolution_backward(
            gradients, pictures, filters, None, once, around, once, False, [0, 0], 1, wanted
        )
        gradient: torch.Tensor = found[0 if of == "data" else 1]
        return gradient

    return Function(
        apply,
        ((channels, picture, picture), (filters, picture, picture)),
        ((filters, channels, kernel, kernel),),
        filters * kernel**2 if of == "data" else picture**2,
        batch,
        4,
        summed=of == "weights",
        channels_last=channels_last,
    )


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
    "bert-large-feed-forward-data-gradient": linear_gradient("data", 1024, 4096, 16_384),
    "bert-large-feed-forward-weight-gradient": linear_gradient("weights", 1024, 4096, 16_384),
    "bert-large-scores": products(512, 64, 512, batch=256, transposed=True),
    "bert-large-context": products(512, 512, 64, batch=256),
    "gpt2-xl-feed-forward": linear(1600, 6400, 8192),
    "llama-8b-gate": linear(4096, 14_336, 8192),
    "llama-8b-gate-decode": linear(4096, 14_336, 16),
    "lstm-1024-gates": linear(1024, 4096, 256),
    "resnet50-first": convolution(3, 64, 7, 224, stride=2),
    "resnet50-3x3": convolution(64, 64, 3, 56),
    "resnet50-3x3-data-gradient": convolution_gradient("data", 64, 64, 3, 56),
    "resnet50-3x3-weight-gradient": convolution_gradient("weights", 64, 64, 3, 56),
    "resnet50-3x3-nhwc": convolution(64, 64, 3, 56, channels_last=True),
    "resnet50-3x3-nhwc-data-gradient": convolution_gradient(
        "data", 64, 64, 3, 56, channels_last=True
    ),
    "resnet50-3x3-nhwc-weight-gradient": convolution_gradient(
        "weights", 64, 64, 3, 56, channels_last=True
    ),
    "resnet50-1x1": convolution(256, 64, 1, 56),
    "vgg16-3x3": convolution(256, 256, 3, 56),
    "vgg16-3x3-nhwc-data-gradient": convolution_gradient(
        "data", 256, 256, 3, 56, channels_last=True
    ),
    "vgg16-3x3-nhwc-weight-gradient": convolution_gradient(
        "weights", 256, 256, 3, 56, channels_last=True
    ),
    "densenet121-3x3": convolution(128, 32, 3, 28),
    "bert-large-attention": attention(16, 512, 64, causal=False, batch=16),
    "llama-8b-attention": attention(32, 4096, 128, causal=True, batch=1),
    "bert-large-norm": layer_norm(1024, 16_384),
    "llama-8b-norm": layer_norm(4096, 8192),
}
"""By the model that it is taken from: BERT (large), GPT-2 (XL), Llama 3 (8B), an LSTM of 1,024, ResNet-50,
VGG-16, DenseNet-121. ``nhwc``: with channels last, as matrix units take them; the others with channels
before height and width (NCHW), as torch makes them."""


class FunctionCall:
    """A function with inputs, on a device.

    Args:
        function: What is computed.
        dtype: Torch's name of the element type.
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
        self.examples = examples or function.examples
        terms = function.terms * (self.examples if function.summed else 1)
        self._tolerance = ELEMENT * tolerance(dtype, terms=terms)
        random = torch.Generator(device).manual_seed(20240224)
        kind = getattr(torch, dtype)

        def drawn(*shape: int) -> torch.Tensor:
            made = torch.randn(shape, generator=random, device=device).to(kind)
            nhwc = function.channels_last and len(shape) == 4
            return made.contiguous(memory_format=torch.channels_last) if nhwc else made

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
        wrong = before = 0
        for found, expected in self._pieces():
            before = self._wrong(found, expected)
            wrong += before
        found[(-1,) * found.dim()] = float("nan")
        return wrong if before or self._wrong(found, expected) else self._out.numel()

    def _pieces(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Give pieces of the last result, each with what double precision makes of the same numbers."""
        function, exact = self._function, checking_device(self._device)
        weights = [weight.to(exact).double() for weight in self._weights]
        whole: torch.Tensor | None = None
        for begin in range(0, self.examples, function.at_once):
            part = slice(begin, begin + function.at_once)
            batches = [batch[part].to(exact).double() for batch in self._batches]
            expected = function.apply(*batches, *weights)
            if not function.summed:
                yield self._out[part], expected
            else:
                whole = expected if whole is None else whole + expected
        if whole is not None:
            yield self._out, whole

    def _wrong(self, result: torch.Tensor, expected: torch.Tensor) -> int:
        found = result.to(expected.device).double()
        allowed = self._tolerance * (expected.square().mean().sqrt() + expected.abs())
        # Not "above": what became NaN is neither above nor below.
        return int(torch.count_nonzero(~((found - expected).abs() <= allowed)))
