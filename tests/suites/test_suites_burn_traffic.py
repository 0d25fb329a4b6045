"""Copies and all-reduces beside products: their own time, every batch verified, and no card waits for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pytest_anubis.benchmarking.verification import Pattern, flip_bit
from suites.burn.burner import BATCH
from suites.burn.traffic import SLICES, Traffic

pytestmark = pytest.mark.usefixtures("one_thread")
SIZE = 1 << 10
CPU = torch.device("cpu")


class Link:
    """All-reduces of two ranks, each of which takes its time on a clock of its own; one can go wrong."""

    def __init__(self) -> None:
        self.moment, self.took, self.wrong, self.seen = 0.0, 0.001, False, 0.0

    def all_reduce(self, buffer: torch.Tensor, op: object = None) -> None:
        """Reduce, unless it is the agreement on how many reductions there are."""
        if op is None:
            self.moment += self.took
            self.seen = float(buffer.abs().sum())
            buffer.mul_(2).view(-1)[5] += self.wrong


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Link:
    """The link between the ranks."""
    found = Link()
    monkeypatch.setattr("torch.distributed.all_reduce", found.all_reduce)
    return found


def traffic(link: Link) -> Traffic:
    moved = Traffic(SIZE, 0, 2, CPU, now=lambda: link.moment)
    # What the copies take is not on this clock, so that few of them are enough.
    for lane in (moved._to_device, moved._to_host):
        lane.seconds = lane.whole = lambda: 0.01  # type: ignore[method-assign]
    return moved


def test_batch_is_filled_and_slow_link_shows_in_its_rate(link: Link) -> None:
    rates = []
    for seconds in (0.001, 0.005):
        link.took = seconds
        moved = traffic(link)
        moved.fit(BATCH, lambda: None)
        moved.begin()
        begin = link.moment
        moved.queue()
        assert 0.5 * BATCH < link.moment - begin <= BATCH
        rates.append(moved.rates()["reduced"])
        moved.begin()  # the next part is timed by itself
        link.took = 2 * seconds
        moved.queue()
        moved.queue()
        assert moved.rates()["reduced"] == pytest.approx(rates[-1] / 2)
    assert rates == pytest.approx([SIZE / 0.001, SIZE / 0.005])
    assert moved.wrong() == moved.wrong_at_last() == 0


def test_only_the_reduction_counts_for_its_rate(link: Link) -> None:
    moved = traffic(link)
    before = moved._reduced._before
    assert before is not None

    def slow_copy() -> None:
        link.moment += link.took
        before()

    moved._reduced._before = slow_copy
    moved.fit(BATCH, lambda: None)
    moved.begin()
    begin = link.moment
    moved.queue()
    assert 0.5 * BATCH < link.moment - begin <= BATCH  # with the copies
    assert moved.rates()["reduced"] == pytest.approx(SIZE / link.took)
    assert link.seen == float(moved._known.sum())  # known numbers in every round


def spoil(lane_work: Callable[[], object], after: Callable[[], object]) -> Callable[[], None]:
    """Return work after which something happens."""

    def work() -> None:
        lane_work()
        after()

    return work


@pytest.mark.parametrize("which", ["to_device", "to_host", "reduced"])
def test_one_wrong_word_is_counted_in_every_batch(link: Link, which: str) -> None:
    moved = traffic(link)
    moved.begin()
    for _ in range(SLICES + 3):  # the first part of what comes back is looked at later on
        moved.queue()
    assert moved.wrong() == moved.wrong_at_last() == 0
    if which == "reduced":
        link.wrong = True
    elif which == "to_device":
        lane = moved._to_device
        lane._work = spoil(lane._work, lambda: flip_bit(moved._there, 3, 7))
    else:
        lane = moved._to_host
        lane._work = spoil(lane._work, lambda: flip_bit(moved._back, 3, 7))
    moved.begin()
    for _ in range(SLICES):
        moved.queue()
    found = 1 if which == "to_host" else SLICES  # each part of what came back once
    assert moved.wrong() == found
    assert moved.wrong_at_last() == (which == "to_host")
    moved.begin()
    assert moved.wrong() == 0


@pytest.mark.parametrize("which", ["to_device", "to_host"])
def test_copies_that_stop_to_arrive_are_wrong(link: Link, which: str) -> None:
    moved = traffic(link)
    moved.begin()
    for _ in range(2 * SLICES + 1):  # both buffers have been full, and all parts of them compared
        moved.queue()
    (moved._to_device if which == "to_device" else moved._to_host)._work = lambda: None
    moved.begin()
    for _ in range(4 * SLICES):  # at its first look each part is as it came, and is cleared
        moved.queue()
    assert moved.wrong() >= SIZE // 8


def test_nothing_is_made_again_and_little_compared_at_a_time(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = traffic(link)
    compared: list[int] = []
    equal = torch.equal

    def noting(found: torch.Tensor, expected: torch.Tensor) -> bool:
        compared.append(len(found))
        return equal(found, expected)

    def again(*_: object) -> torch.Tensor:
        raise AssertionError("the pattern is made again while the cards rest")

    monkeypatch.setattr(torch, "equal", noting)
    monkeypatch.setattr(Pattern, "words", again)
    for _ in range(3):
        moved.begin()
        for _ in range(SLICES):
            moved.queue()
        assert moved.wrong() == 0
        moved.rates()
    assert max(compared) <= SIZE // 8 // SLICES + 1
    assert len(compared) == 3 * SLICES - 1
    assert sum(compared[:SLICES]) == SIZE // 8
