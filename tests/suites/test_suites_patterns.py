"""Patterns find the memory faults that they are for, say where they are, and keep nothing twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking.sizes import MemoryTakenError
from pytest_anubis.benchmarking.verification import Pattern
from pytest_anubis.session.collecting.device_parameters import Device
from suites.memory import patterns, test_patterns
from suites.memory.patterns import WORD, Finding, Memory, piece_of, run
from tests.suites.stand_in_card import CARD, stand_in
from tests.suites.test_suites_on_a_card import Node, Taken
from tests.suites.work_probe import Allocations

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
SIZE, PIECE = 40_000, 4096
NAMES = ["addresses", "moving inversions", "random", "block moves", "retention"]
MIB = 1 << 20
BAD = 8 * 1234
"""Byte of the bad word."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "BLOCK", 16_384)


def findings(memory: Memory, **given: Any) -> dict[str, Finding]:
    found = run(memory, 2, 0.0, **given)
    assert [one.pattern for one in found] == NAMES
    return {one.pattern: one for one in found}


def test_healthy_memory_keeps_everything() -> None:
    memory = Memory(SIZE, CPU, PIECE)
    assert memory.size == SIZE
    assert not any(one.wrong for one in findings(memory).values())
    assert memory.notices()


def test_bit_that_moves_is_another_one_for_each_seed_and_each_one_in_the_end() -> None:
    written: list[torch.Tensor] = []

    class Keeping(Memory):
        def write(self, pattern: Pattern) -> None:
            if pattern.kind == "moving":
                written.append(pattern.words(0, 3, CPU))
            super().write(pattern)

    seeds = test_patterns.SEEDS["soak"]
    run(Keeping(WORD * 64, CPU, WORD * 64), seeds, 0.0)
    assert len(written) == seeds
    assert not torch.equal(written[0], written[1])
    words = [{int(words[place]) % (1 << 64) for words in written} for place in range(3)]
    assert words == [{1 << bit for bit in range(64)}] * 3  # each is checked inverted, too


class StuckBit(Memory):
    """Memory of which one bit is always 1."""

    def write(self, pattern: Pattern) -> None:
        super().write(pattern)
        self._stick()

    def invert(self, name: str, pattern: Pattern, *, backwards: bool = False) -> Finding:
        found = super().invert(name, pattern, backwards=backwards)
        self._stick()
        return found

    def _stick(self) -> None:
        self._blocks[0][BAD // WORD] |= 1 << 17


def test_stuck_bit_is_found_by_every_pattern_that_turns_round() -> None:
    found = findings(StuckBit(SIZE, CPU, PIECE))
    for name in ("addresses", "moving inversions", "random", "retention"):
        assert found[name].wrong >= 1, name
        assert (found[name].place, found[name].bits) == (BAD, 1 << 17)
    assert "byte 0x2690 of what was tested, in bits 0x0000000000020000" in str(found["random"])


class TwoAddressesOnePlace(Memory):
    """Memory in which an address line is stuck: some words lie where others do."""

    def write(self, pattern: Pattern) -> None:
        super().write(pattern)
        block = self._blocks[1]
        block[128:192] = block[
            64:128
        ]  # 64 words further: bits that move with a period of 64 are the same


def test_address_line_that_is_stuck_is_found_by_addresses() -> None:
    found = findings(TwoAddressesOnePlace(SIZE, CPU, PIECE))
    for name in ("addresses", "random"):
        assert found[name].wrong == 2 * 2 * 64  # both ways round, two seeds
        assert found[name].place == 16_384 + WORD * 128
    assert found["moving inversions"].wrong == 0


def test_leaking_cell_is_found_after_the_pause_only() -> None:
    memory = Memory(SIZE, CPU, PIECE)
    slept: list[float] = []

    def leak(seconds: float) -> None:
        slept.append(seconds)
        memory._blocks[2][7] &= ~(1 << 5)

    found = findings(memory, sleep=leak)
    assert len(slept) == 2
    assert {name for name, one in found.items() if one.wrong} == {"retention"}
    assert (found["retention"].wrong, found["retention"].bits) == (
        1,
        1 << 5,
    )  # a 1 in one of the two
    assert found["retention"].place == 2 * 16_384 + 7 * WORD


def test_copy_that_goes_astray_is_found_by_block_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(SIZE, CPU, PIECE)
    plain = torch.Tensor.copy_

    def astray(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        same_memory = target.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()
        plain(target, source)
        if same_memory:
            target[-1] ^= 2
        return target

    monkeypatch.setattr(torch.Tensor, "copy_", astray)
    assert {name for name, one in findings(memory).items() if one.wrong} == {"block moves"}


@pytest.mark.parametrize("bit", [0, 31, 63])
@pytest.mark.parametrize("byte", [0, 16_376, SIZE - 8])
def test_any_bit_anywhere_is_found_where_it_is(byte: int, bit: int) -> None:
    memory = Memory(SIZE, CPU, PIECE)
    pattern = Pattern("random", 5)
    memory.write(pattern)
    memory.flip(byte, bit)
    found = memory.check("random", pattern)
    assert (found.wrong, found.place, found.bits) == (1, byte, 1 << bit)
    back = memory.invert("random", pattern, backwards=True)
    assert (back.wrong, back.place) == (1, byte)


def test_first_of_several_is_told_whatever_the_order() -> None:
    memory = Memory(SIZE, CPU, PIECE)
    pattern = Pattern("address")
    memory.write(pattern)
    for byte in (24_000, 800, 8_000):
        memory.flip(byte, 3)
    for backwards in (False, True):
        found = memory.invert("addresses", pattern, backwards=backwards)
        assert (found.wrong, found.place) == (3, 800)
        pattern = replace(pattern, inverted=not pattern.inverted)


def test_twice_the_memory_or_seeds_is_twice_the_work_by_its_own_clock() -> None:
    def moved(size: int, seeds: int) -> list[float]:
        memory = Memory(size, CPU, PIECE)
        found = run(memory, seeds, 0.0, now=lambda: memory.moved / 1e9)  # a memory of 1 GB/s
        work = sum(one.moved for one in found if one.pattern != "retention")
        return [work, found[0].seconds]

    once = moved(1 << 15, 1)
    twice = pytest.approx([2 * value for value in once])
    assert moved(1 << 16, 1) == twice
    assert moved(1 << 15, 2) == twice


def test_no_second_copy_of_the_memory_is_made() -> None:
    memory = Memory(SIZE, CPU, 800)
    with Allocations() as made:
        run(memory, 1, 0.0)
    others = [size for size in made.sizes if size not in (16_384, SIZE - 2 * 16_384)]
    assert others
    assert max(others) <= 800


@pytest.fixture
def small_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_patterns, "PAUSE", {"smoke": 0.0})
    monkeypatch.setattr(patterns, "SMALLEST_PIECE", 2048)
    monkeypatch.setattr(patterns, "BLOCK", MIB // 4)


@pytest.mark.usefixtures("small_card")
def test_nearly_all_of_a_card_is_covered() -> None:
    covered(taken := Taken())
    assert list(taken.values) == ["covered_share", "pattern_rate", "pattern_errors"]
    assert taken.values["covered_share"] == pytest.approx(0.95, abs=0.005)


@pytest.mark.usefixtures("small_card")
def test_memory_that_somebody_invisible_has_is_no_fault_of_the_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(MemoryTakenError, match=r"of cuda:0's .* and this benchmark tests 95 %"):
        covered(taken := Taken(), free=MIB - MIB // 4)
    assert list(taken.values) == ["pattern_rate", "pattern_errors"]  # tested all the same
    assert sum(taken.values["pattern_errors"]) == 0
    monkeypatch.setattr(patterns, "Memory", StuckBit)  # and a fault in what is left is one
    with pytest.raises(AssertionError, match="words wrong, the first at byte 0x2690"):
        covered(Taken(), free=MIB - MIB // 4)


def covered(taken: Taken, free: int = MIB) -> None:
    with stand_in(memory=MIB, rounded=False), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "mem_get_info", lambda *_: (free, MIB))
        test_patterns.test_card_patterns(taken, Device("cuda:0"), Node())


def test_memory_that_cannot_be_had_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.empty

    def short(count: int, **given: Any) -> torch.Tensor:
        if count > 1000:
            raise torch.OutOfMemoryError("no room")
        return empty(count, **given)

    monkeypatch.setattr(torch, "empty", short)
    assert Memory(SIZE, CPU, PIECE).size > SIZE - 2 * PIECE  # by smaller blocks
    monkeypatch.setattr(torch, "empty", lambda *_, **__: short(2000))
    assert Memory(SIZE, CPU, PIECE).size == 0


def test_wrong_word_fails_the_test_and_a_blind_device_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(AssertionError, match=r"random: \d+ words wrong, the first at byte 0x2690"):
        test_patterns.keeps_all(Taken(), StuckBit(SIZE, CPU, PIECE), 1, 0.0)
    memory = Memory(SIZE, CPU, PIECE)
    monkeypatch.setattr(torch, "count_nonzero", lambda _: torch.tensor(0))
    with pytest.raises(AssertionError, match="not noticed"):
        test_patterns.keeps_all(Taken(), memory, 1, 0.0)


@pytest.mark.parametrize("total", [2 << 30, 8 << 30, 80 << 30, 192 << 30])
def test_pieces_leave_room_for_nearly_all_of_a_card(total: int) -> None:
    assert patterns.SPARE * piece_of(total, CARD) < 0.025 * total
    assert piece_of(total, CARD) <= 128 << 20


def test_share_of_the_host_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_anubis.benchmarking import sizes

    monkeypatch.setattr(sizes, "host_memory", lambda: (1 << 24, 1 << 25))
    monkeypatch.setattr(test_patterns, "HOST_PAUSE", {"smoke": 0.0})
    monkeypatch.setattr(patterns, "BLOCK", 1 << 30)
    said: dict[str, object] = {}
    taken = Taken()
    test_patterns.test_host_patterns(taken, Node(), said.__setitem__)
    assert list(taken.asked) == ["pattern_rate", "pattern_errors"]
    assert said == {"memory_tested": "0.0 of 0.0 GiB"}
