"""Verification: every flipped bit shows, wherever the pieces end, and a blind device is not believed."""

from __future__ import annotations

import pytest
import torch

from pytest_anubis.benchmarking import verification
from pytest_anubis.benchmarking.verification import (
    Kind,
    Pattern,
    count_errors,
    fill,
    fingerprint,
    flip_bit,
    wrong_elements,
)

TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int8, torch.uint8, torch.float8_e4m3fn]


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PIECE", 7)


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_flipped_bit_shows(dtype: torch.dtype) -> None:
    made = torch.arange(40).reshape(5, 8).to(dtype)
    right = fingerprint(made)
    bits = 8 * made.element_size()
    for element, bit in ((0, 0), (13, bits - 1), (39, bits // 2)):
        wrong = made.clone()
        flip_bit(wrong, element, bit)
        assert wrong_elements(wrong, made) == 1
        assert fingerprint(wrong) != right
        flip_bit(wrong, element, bit)
        assert fingerprint(wrong) == right


def test_fingerprint_knows_places_and_not_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = torch.arange(100, dtype=torch.float32)
    whole = fingerprint(numbers)
    swapped = numbers.clone()
    swapped[[3, 90]] = numbers[[90, 3]]
    assert fingerprint(swapped) != whole
    monkeypatch.setattr(verification, "CPU_PIECE", 9)
    assert fingerprint(numbers) == whole
    assert 0 <= whole < 1 << 64


def test_not_a_number_is_compared_by_its_bits() -> None:
    values = torch.tensor([float("nan"), 0.0])
    assert wrong_elements(values, values.clone()) == 0
    assert wrong_elements(values, torch.tensor([float("nan"), -0.0])) == 1
    with pytest.raises(ValueError, match="cannot be compared"):
        wrong_elements(values, values.double())


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("kind", ["address", "moving", "random"])
@pytest.mark.parametrize("inverted", [False, True])
def test_pattern_is_made_again_from_any_place(kind: Kind, inverted: bool) -> None:
    memory = torch.empty(160, dtype=torch.uint8)
    pattern = Pattern(kind, seed=5, inverted=inverted)
    fill(memory, pattern)
    words = pattern.words(0, 20, memory.device)
    assert torch.equal(words[11:], pattern.words(11, 9, memory.device))
    assert wrong_elements(memory, pattern) == 0
    other = Pattern(kind, seed=6, inverted=inverted)
    assert wrong_elements(memory, other) == 20
    flip_bit(memory, 77, 7)
    assert wrong_elements(memory, pattern) == 1
    if kind == "moving":
        ones = {bin(int(word) % (1 << 64)).count("1") for word in words}
        assert ones == ({63} if inverted else {1})


def test_device_that_notices_nothing_is_not_believed() -> None:
    memory = torch.zeros(8)
    right = memory.clone()
    corrupt = lambda: flip_bit(memory)  # noqa: E731
    assert count_errors(lambda: wrong_elements(memory, right), corrupt) == 0
    assert count_errors(lambda: wrong_elements(memory, right), lambda: None) == 1
    with pytest.raises(AssertionError, match="not notice an error"):
        count_errors(lambda: 0, corrupt)
