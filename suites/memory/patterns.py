"""Memory under patterns: written, checked word by word, and made again from seeds instead of kept twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from pytest_anubis.benchmarking.verification import Pattern

WORD = 8
"""Bytes of a word."""

BLOCK = 1 << 30
"""Bytes that are allocated at once: memory in use leaves holes, and 1 GiB is nearly always to be had."""

PIECES = 512
LARGEST_PIECE = 128 << 20
SMALLEST_PIECE = 1 << 20
"""Bytes that are written or checked at a time: so small a part of all memory that nearly all of it can be
tested, and large enough to fill a card."""

HOST_PIECE = 8 << 20
"""The same on a host: what a check makes meanwhile stays in the caches."""

SPARE = 10
"""Pieces that a check needs besides the memory: numbers, intermediate results, what is unequal."""


APART = 40
"""Bits by which a seed's number is shifted: seeds are further apart than any memory has words, so no two of
them write the same address anywhere."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one pattern found.

    Attributes:
        wrong: Words that did not hold what was written.
        place: Byte, in what is tested, of the first of them; -1 without.
        bits: In which bits that one differed.
        moved: Bytes written and read.
        seconds: How long it took, pauses left out.
    """

    pattern: str
    wrong: int = 0
    place: int = -1
    bits: int = 0
    moved: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.pattern}: {self.wrong} words wrong, the first at byte {self.place:#x} of what was "
            f"tested, in bits {self.bits:#018x}"
        )


def piece_of(total: int, device: torch.device) -> int:
    """Return how many bytes of a device with so much memory are written or checked at a time."""
    if device.type == "cpu":
        return HOST_PIECE
    return max(SMALLEST_PIECE, min(LARGEST_PIECE, total // PIECES)) // WORD * WORD


class Memory:
    """A share of a device's memory under test.

    Args:
        size: Bytes; what cannot be had is left out (`size` says how much was).
        piece: Bytes that are written or checked at a time.

    Attributes:
        size: Bytes that are tested.
        moved: Bytes written and read so far.
    """

    def __init__(self, size: int, device: torch.device, piece: int) -> None:
        self._device, self._piece = device, max(1, piece // WORD)
        self._blocks: list[torch.Tensor] = []
        wanted, block = size // WORD, max(1, BLOCK // WORD)
        while wanted >= self._piece or not self._blocks:
            count = min(wanted, block)
            try:
                self._blocks.append(torch.empty(count, dtype=torch.int64, device=device))
            except (torch.OutOfMemoryError, MemoryError):
                block = count // 2
                if block < self._piece:
                    break  # holes that are smaller are not worth the search
                continue
            wanted -= count
        self.size = WORD * sum(map(len, self._blocks))
        self.moved = 0

    def write(self, pattern: Pattern) -> None:
        """Write a pattern everywhere."""
        for begin, part in self._parts():
            part.copy_(pattern.words(begin, len(part), self._device))
        self.moved += self.size

    def check(self, name: str, pattern: Pattern) -> Finding:
        """Return what is not as the pattern says."""
        found = Finding(name)
        for begin, part in self._parts():
            found = self._checked(found, part, begin, pattern, begin)
        return found

    def invert(self, name: str, pattern: Pattern, *, backwards: bool = False) -> Finding:
        """Check piece by piece, from the first or from the last on, and turn every bit of each round."""
        found, parts = Finding(name), list(self._parts())
        for begin, part in reversed(parts) if backwards else parts:
            found = self._checked(found, part, begin, pattern, begin)
            part.bitwise_not_()
        self.moved += self.size
        return found

    def move(self, name: str, pattern: Pattern) -> Finding:
        """Copy the second half of each block onto the first one, then back; check both ways."""
        found = Finding(name)
        start = 0
        for block in self._blocks:
            half = len(block) // 2
            first, second = (start, block[:half]), (start + half, block[half : 2 * half])
            for (to, target), (_, source) in ((first, second), (second, first)):
                target.copy_(source)
                self.moved += 2 * WORD * half
                for offset in range(0, half, self._piece):
                    part = target[offset : offset + self._piece]
                    # Both halves hold what belongs into the second.
                    belongs = start + half + offset
                    found = self._checked(found, part, to + offset, pattern, belongs)
            start += len(block)
        return found

    def flip(self, byte: int, bit: int) -> None:
        """Turn one bit of the word at a byte round: a memory fault, to see that it is noticed."""
        word = byte // WORD
        for block in self._blocks:
            if word < len(block):
                block[word] ^= (1 << bit) - (1 << 64 if bit == 63 else 0)
                return
            word -= len(block)

    def notices(self) -> bool:
        """Flip a bit in the last piece; return whether the device finds just that, where it is."""
        *_, (begin, part) = self._parts()
        pattern, byte = Pattern("random", seed=self.size), WORD * (begin + len(part) // 2)
        part.copy_(pattern.words(begin, len(part), self._device))
        self.flip(byte, 41)
        found = self._checked(Finding("shown"), part, begin, pattern, begin)
        return (found.wrong, found.place, found.bits) == (1, byte, 1 << 41)

    def _parts(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Give the pieces, each with the number of its first word."""
        start = 0
        for block in self._blocks:
            for offset in range(0, len(block), self._piece):
                yield start + offset, block[offset : offset + self._piece]
            start += len(block)

    def _checked(
        self, found: Finding, part: torch.Tensor, begin: int, pattern: Pattern, belongs: int
    ) -> Finding:
        """Add to a finding what is wrong in a piece that should hold the pattern from word `belongs` on."""
        self.moved += WORD * len(part)
        different = part ^ pattern.words(belongs, len(part), self._device)
        wrong = int(torch.count_nonzero(different))
        if not wrong:
            return found
        found = replace(found, wrong=found.wrong + wrong)
        if found.place >= 0 and found.place <= WORD * begin:
            return found
        first = int((different != 0).to(torch.uint8).argmax())
        bits = int(different[first]) % (1 << 64)
        return replace(found, place=WORD * (begin + first), bits=bits)


def both(memory: Memory, name: str, pattern: Pattern) -> Iterator[Finding]:
    """Write a pattern and check it, then with all bits turned round: each is seen as 0 and as 1."""
    for one in (pattern, replace(pattern, inverted=True)):
        memory.write(one)
        yield memory.check(name, one)


def addresses(memory: Memory, seed: int) -> Iterator[Finding]:
    """Every word holds its own number: two places that are one, or one that is missing, show."""
    return both(memory, "addresses", Pattern("address", seed))


def random_words(memory: Memory, seed: int) -> Iterator[Finding]:
    """Random words: every neighbourhood of bits comes up somewhere."""
    return both(memory, "random", Pattern("random", seed))


def moving_inversions(memory: Memory, seed: int) -> Iterator[Finding]:
    """One bit set in each word; all turned round upwards, then downwards: neighbours that pull each other.

    The bit begins at the seed's number: 64 seeds in a row set each bit of every word once.
    """
    # The seed itself is a multiple of 64: no bit would move.
    pattern = Pattern("moving", seed >> APART)
    inverted = replace(pattern, inverted=True)
    memory.write(pattern)
    yield memory.invert("moving inversions", pattern)
    yield memory.invert("moving inversions", inverted, backwards=True)
    yield memory.check("moving inversions", pattern)


def block_moves(memory: Memory, seed: int) -> Iterator[Finding]:
    """Large copies within memory, there and back: reading and writing at once, at full rate."""
    pattern = Pattern("random", seed + 1)
    memory.write(pattern)
    yield memory.move("block moves", pattern)


TESTS: dict[str, Callable[[Memory, int], Iterator[Finding]]] = {
    "addresses": addresses,
    "moving inversions": moving_inversions,
    "random": random_words,
    "block moves": block_moves,
}
"""What is done one after the other, with a seed."""


def run(
    memory: Memory,
    seeds: int,
    pause: float,
    *,
    sleep: Callable[[float], object] = time.sleep,
    now: Callable[[], float] = time.perf_counter,
) -> list[Finding]:
    """Test memory with every pattern; return what each found, all seeds added up.

    Args:
        memory: What to test.
        seeds: How often, each time with other words.
        pause: Seconds for which words have to be kept in the last test, as they are and turned round.
        sleep: Waits.
        now: The clock.
    """

    def retention(memory: Memory, seed: int) -> Iterator[Finding]:
        pattern = Pattern("random", seed + 2)
        for one in (pattern, replace(pattern, inverted=True)):
            memory.write(one)
            sleep(pause)
            yield memory.check("retention", one)

    found = []
    for name, test in {**TESTS, "retention": retention}.items():
        # Of retention once: what leaks away in a pause does so each time.
        count = 1 if test is retention else seeds
        begin, before = now(), memory.moved
        total = Finding(name)
        for seed in range(count):
            for one in test(memory, seed << APART):
                first = total if total.wrong else one
                total = replace(
                    total, wrong=total.wrong + one.wrong, place=first.place, bits=first.bits
                )
        pauses = 2 * pause if test is retention else 0.0
        seconds = max(now() - begin - pauses, 1e-9)
        found.append(replace(total, moved=memory.moved - before, seconds=seconds))
    return found
