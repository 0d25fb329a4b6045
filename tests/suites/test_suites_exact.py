"""Products of whole numbers: the same bits everywhere, and no wrong bit stays unseen."""

from __future__ import annotations

import pytest
import torch

from pytest_anubis.benchmarking.verification import flip_bit
from suites.compute.exact import KINDS, ExactProduct, Multiply, Shape, product_of, whole_sums
from tests.suites.stand_in_card import CARD, stand_in

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
SQUARE = Shape.square(64)
ON_CPU = [name for name in KINDS if name != "tf32"]


def flipping(dtype: str, bit: int, *, first_too: bool) -> Multiply:
    """Return a product that turns one bit round: in every result, or in all but the first."""
    right, calls = product_of(dtype, CPU), 0

    def product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        nonlocal calls
        calls += 1
        right(a, b, out)
        if first_too or calls > 1:
            flip_bit(out, 77, bit)

    return product


@pytest.mark.parametrize("dtype", ON_CPU)
@pytest.mark.parametrize("shape", [SQUARE, Shape(33, 48, 16)], ids=["square", "odd"])
def test_healthy_hardware_is_right(dtype: str, shape: Shape) -> None:
    product = ExactProduct(shape, dtype, CPU)
    product.keep()
    product.run_compared()
    product.verify()


@pytest.mark.parametrize("dtype", ON_CPU)
@pytest.mark.parametrize("bit", [0, 7, -1])
def test_bit_that_differs_from_the_first_result_is_counted(dtype: str, bit: int) -> None:
    width = torch.iinfo(KINDS[dtype].bits).bits
    fault = flipping(dtype, bit % width, first_too=False)
    product = ExactProduct(SQUARE, dtype, CPU, product=fault)
    product.keep()
    for _ in range(3):
        product.run_compared()
    assert product.wrong_elements() == 3
    assert product.wrong_rows() == [1]
    with pytest.raises(AssertionError, match=r"3 elements .* in 1 rows: \[1\]"):
        product.verify()


@pytest.mark.parametrize("dtype", ON_CPU)
def test_result_that_is_wrong_each_time_is_unlike_double_precision(dtype: str) -> None:
    bit = (
        0 if KINDS[dtype].exact else 15
    )  # the last bit of 8-bit floats' sums is the hardware's choice
    fault = flipping(dtype, bit, first_too=True)
    product = ExactProduct(SQUARE, dtype, CPU, product=fault)
    product.keep()
    product.run_compared()
    assert product.wrong_elements() == 0
    with pytest.raises(AssertionError, match="1 elements of the first"):
        product.verify()


def test_device_that_does_not_notice_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    product = ExactProduct(SQUARE, "float32", CPU)
    product.keep()
    monkeypatch.setattr(torch, "ne", lambda a, b, out: out.zero_())
    with pytest.raises(AssertionError, match=r"a flipped bit .* is not noticed"):
        product.verify()


def test_bits_are_the_same_in_any_order_and_precision_of_the_library() -> None:
    def by_parts(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        out.zero_()
        for part in range(63, -1, -7):
            inner = slice(max(0, part - 6), part + 1)
            out += a[..., inner] @ b[..., inner, :]

    whole = ExactProduct(SQUARE, "float32", CPU)
    parts = ExactProduct(SQUARE, "float32", CPU, product=by_parts)
    for product in (whole, parts):
        product.keep()
    assert whole.fingerprint() == parts.fingerprint()


def test_batch_is_as_many_products() -> None:
    batch = ExactProduct(Shape(16, 32, 24, batch=3), "float32", CPU)
    assert batch.work == 3 * Shape(16, 32, 24).work
    batch.keep()
    batch.run_compared()
    batch.verify()


def test_factors_are_spread_over_their_range_and_differ() -> None:
    product = ExactProduct(SQUARE, "int8", CPU)
    for factor in (product._a, product._b):
        values = factor.double()
        assert values.abs().max() == 127
        assert abs(values.mean()) < 5
    assert not torch.equal(product._a, product._b.T)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "tf32"])
def test_card_that_rounds_to_tf32_or_sums_in_single_precision_is_right(dtype: str) -> None:
    with stand_in(), whole_sums():
        product = ExactProduct(Shape(64, 96, 32), dtype, CARD)
        product.keep()
        product.run_compared()
        product.verify()


def test_sums_of_halves_are_not_cut_short_meanwhile() -> None:
    settings = torch.backends.cuda.matmul
    before = settings.allow_bf16_reduced_precision_reduction
    with whole_sums():
        assert not settings.allow_bf16_reduced_precision_reduction
        assert not settings.allow_fp16_reduced_precision_reduction
    assert settings.allow_bf16_reduced_precision_reduction == before
