"""Products of whole numbers: the same bits everywhere, and no wrong bit stays unseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pytest_anubis.benchmarking import applicability
from pytest_anubis.benchmarking.verification import flip_bit
from pytest_anubis.session.collecting.device_parameters import Device
from suites.compute import exact, fixed_point, test_exact, test_shapes
from suites.compute.exact import KINDS, ExactProduct, Multiply, Shape, product_of, whole_sums
from suites.compute.fixed_point import BOUND, CHAIN, FixedPoint, bytes_of, multiply
from tests.suites.stand_in_card import CARD, stand_in
from tests.suites.test_suites_on_a_card import Node, Taken

pytestmark = pytest.mark.usefixtures("one_thread", "right_eight_bits")
CPU = torch.device("cpu")
SQUARE = Shape.square(64)
ON_CPU = [name for name in KINDS if name not in ("tf32", "float8_e4m3fnuz")]  # no CPU has these


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


@pytest.mark.parametrize("dtype", ["float32", "int8", "int16", "float64"])
def test_fingerprint_is_that_of_whole_numbers_computed_slowly(dtype: str) -> None:
    """The constant of the benchmark: by numpy's whole numbers, and the fingerprint by its definition."""
    size, mask = test_exact.SIZE, (1 << 64) - 1

    def spread(words: Any) -> Any:
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
        return words

    def factor(number: int, bound: int) -> Any:
        places = np.arange(size * size, dtype=np.uint64) + np.uint64(number << 48)
        words = spread(places * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
        return (words % (2 * bound + 1) - bound).reshape(size, size)

    bound = KINDS[dtype].bound
    product = (
        factor(1, bound) @ factor(2, bound).T
    )  # in whole numbers of 64 bits, which numpy multiplies slowly
    places = np.arange(1, size * size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    total = (
        int(
            spread(spread(places) ^ (product.ravel().astype(np.float64).view(np.uint64))).sum(
                dtype=np.uint64
            )
        )
        & mask
    )
    ours = ExactProduct(Shape.square(size), dtype, CPU)
    ours.keep()
    assert ours.fingerprint() == total
    if dtype != "float64":  # of other factors
        kept = {"int16": test_exact.FINGERPRINT_16}
        assert total == kept.get(dtype, test_exact.FINGERPRINT)


@pytest.fixture
def every_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this CPU compute all types, seldom: those that it has no instructions for are slow, and right."""
    monkeypatch.setattr(applicability, "supports", lambda device, dtype: True)
    monkeypatch.setitem(test_exact.REPEATS, "smoke", 4)


@pytest.mark.usefixtures("every_type")
def test_benchmark_knows_the_bits_on_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken()
    test_exact.test_same_bits_everywhere(taken, Device("cpu"), Node(cores=2))
    with stand_in(rounded=False):
        test_exact.test_same_bits_everywhere(taken, Device("cuda:0"), Node())
    assert list(taken.asked) == ["exact_fingerprint", "exact_errors"]
    monkeypatch.setattr(test_exact, "FINGERPRINT", 5)
    with pytest.raises(
        AssertionError, match=r"another result .*: float32 on 1 threads, int8 on 1 threads\n"
    ):
        test_exact.test_same_bits_everywhere(Taken(), Device("cpu"), Node())


@pytest.mark.usefixtures("every_type")
def test_wrong_bits_of_sixteen_bits_alone_fail_the_benchmark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = fixed_point.multiply

    def wrong(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        plain(a, b, out)
        flip_bit(out, 77, 20)

    monkeypatch.setattr(fixed_point, "multiply", wrong)
    with pytest.raises(AssertionError, match=r"another result .*: int16 on 1 threads\n"):
        test_exact.test_same_bits_everywhere(Taken(), Device("cpu"), Node())


def test_device_without_units_for_eight_bits_is_checked_with_floats_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(applicability, "supports", lambda device, dtype: dtype != "int8")
    monkeypatch.setattr(torch, "_int_mm", None)
    taken = Taken()
    test_exact.test_same_bits_everywhere(taken, Device("cpu"), Node())
    assert list(taken.asked) == ["exact_fingerprint", "exact_errors"]


@pytest.mark.usefixtures("every_type")
def test_core_that_errs_now_and_then_fails_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ExactProduct.compare

    def flipped(product: ExactProduct) -> None:
        flip_bit(product._out, 3)
        plain(product)

    monkeypatch.setattr(ExactProduct, "compare", flipped)
    with pytest.raises(AssertionError, match=r"^9 elements differ"):
        test_exact.test_same_bits_everywhere(Taken(), Device("cpu"), Node())


@pytest.mark.parametrize("dtype", ["float16", "int8", "float8_e4m3fn"])
def test_short_types_are_measured_where_a_card_has_them(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    monkeypatch.setattr(test_shapes, "SIZES", {"smoke": 64})
    taken = Taken()
    with stand_in(rounded=False):
        test_shapes.test_short_types(taken, Device("cuda:0"), Node(), dtype)
    assert taken.asked["gemm_rate"]["work"] == 2 * 64**3


@pytest.mark.parametrize(
    ("capability", "hip", "fast"),
    [((9, 0), None, True), ((8, 9), None, False), ((10, 0), None, False), ((9, 4), "6.2", False)],
)
def test_eight_bits_are_summed_as_hoppers_units_do(
    capability: tuple[int, int], hip: str | None, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(torch, "_scaled_mm", lambda *_, **given: asked.append(given))
    monkeypatch.setattr(torch.version, "hip", hip)
    with stand_in(rounded=False), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
        one = torch.ones(16, 16)
        product_of("float8_e4m3fn", CARD)(one, one, one)
    assert [given["use_fast_accum"] for given in asked] == [fast]


@pytest.mark.parametrize("shape", list(test_shapes.SHAPES))
def test_shapes_of_models_are_measured(monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    small = {"batched": (8, 16, 8, 3), "small": (16, 16, 16, 1), "decode": (2, 64, 64, 1)}
    monkeypatch.setattr(test_shapes, "SHAPES", small)
    monkeypatch.setattr(test_shapes, "HOST_SHAPES", small)
    rows, terms, columns, batch = small[shape]
    card, host = Taken(), Taken()
    with stand_in(rounded=False):
        test_shapes.test_shapes(card, Device("cuda:0"), shape)
    test_shapes.test_shapes_on_the_host(host, shape)
    for taken in (card, host):
        assert taken.asked["gemm_rate"]["work"] == 2 * rows * terms * columns * batch


def test_wrong_result_of_a_measured_product_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = flipping("float32", 0, first_too=False)
    monkeypatch.setattr(exact, "product_of", lambda *_: fault)
    with pytest.raises(AssertionError, match="1 elements of float32 products differ"):
        test_shapes.exact_rate(Taken(), CPU, (64, 64, 64, 1), "float32")


def drawn(rng: np.random.Generator, rows: int, columns: int) -> torch.Tensor:
    """Return numbers of 16 bits from the whole range, one in eight of which is an extreme."""
    numbers = rng.integers(-BOUND, BOUND, (rows, columns), endpoint=True)
    extremes = rng.choice([-BOUND, BOUND, 128, -128], numbers.shape)
    return torch.from_numpy(np.where(rng.random(numbers.shape) < 1 / 8, extremes, numbers)).short()


def product_in(
    kind: torch.dtype, a: torch.Tensor, b: torch.Tensor, way: Multiply = multiply
) -> torch.Tensor:
    out = torch.full((len(a), b.shape[1]), 5, dtype=kind)
    way(a, b, out)
    return out


def test_two_bytes_are_each_number_of_sixteen_bits() -> None:
    numbers = torch.arange(-BOUND, BOUND + 1).short()
    high, low = bytes_of(numbers)
    assert high.dtype == low.dtype == torch.int8
    assert torch.equal(256 * high.int() + low.int(), numbers.int())
    assert int(high.min()) == -127  # beyond the bound it would be 128, which is no byte
    assert bytes_of(torch.tensor([BOUND + 1]).short())[0] == -128


@pytest.mark.parametrize("seed", range(20))
def test_product_of_sixteen_bits_is_that_of_double_precision(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, inner, columns = rng.integers(1, [70, 700, 70], endpoint=True).tolist()
    a, b = drawn(rng, rows, inner), drawn(rng, columns, inner).T
    exact = a.double() @ b.double()
    assert torch.equal(product_in(torch.int64, a, b).double(), exact)
    scaled = FixedPoint.of(a.double() / 1024).times(FixedPoint.of(b.double() * 64))
    assert torch.equal(scaled, exact / 16)


@pytest.mark.parametrize("value", [BOUND, -BOUND])
def test_extremes_alone_are_right(value: int) -> None:
    a, b = (torch.full((8, 64), value).short() for _ in range(2))
    assert torch.equal(product_in(torch.int64, a, b.T), torch.full((8, 8), 64 * value**2))


def test_chains_of_1024_that_are_not_spilled_overflow_as_counted() -> None:
    rng = np.random.default_rng(5)
    a, b = drawn(rng, 96, 1024), drawn(rng, 80, 1024).T
    exact = a.double() @ b.double()
    beyond = (exact < -(2.0**31)) | (exact >= 2.0**31)
    assert 0.5 < beyond.double().mean() < 1  # the oracle's count, of 7,680
    narrow = product_in(torch.int32, a, b)
    assert torch.equal(narrow.double() != exact, beyond)
    assert torch.equal(product_in(torch.int64, a, b).double(), exact)


@pytest.mark.parametrize("terms", [CHAIN, CHAIN + 16, 2 * CHAIN + 16])
def test_sums_of_bytes_are_spilled_before_32_bits_are_full(terms: int) -> None:
    """Low bytes of -128 give the largest sums of all."""
    a, b = (torch.full((2, terms), -128).short() for _ in range(2))
    assert int(bytes_of(a)[1].min()) == -128
    assert torch.equal(product_in(torch.int64, a, b.T), torch.full((2, 2), terms * 128**2))


def test_longer_chains_of_bytes_would_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CHAIN * 128**2 < 2**31 <= (CHAIN + 16) * 128**2
    monkeypatch.setattr(fixed_point, "CHAIN", CHAIN + 16)
    a, b = (torch.full((2, CHAIN + 16), -128).short() for _ in range(2))
    assert not torch.equal(
        product_in(torch.int64, a, b.T), torch.full((2, 2), (CHAIN + 16) * 128**2)
    )


@pytest.mark.parametrize("largest", [1.0, 0.75, 1e-30, 3e20, 32639.0, 32640.0, 0.99999])
def test_shared_exponent_is_the_least_that_holds_the_largest_value(largest: float) -> None:
    values = torch.tensor([[largest, -largest / 3, 0.0]], dtype=torch.float64)
    fixed = FixedPoint.of(values)
    step = 2.0**fixed.exponent
    assert BOUND / 2 - 1 < int(fixed.numbers.abs().max()) <= BOUND
    assert float((fixed.numbers.double() * step - values).abs().max()) <= step / 2


def test_zeros_have_a_shared_exponent_too() -> None:
    zeros = FixedPoint.of(torch.zeros(2, 3))
    assert torch.equal(zeros.times(FixedPoint.of(torch.ones(3, 2))), torch.zeros(2, 2).double())
