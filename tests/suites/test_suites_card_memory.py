"""A card's memory by footprint: what is measured is the work that is said, and every wrong bit is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_anubis.session.collecting.device_parameters import Device
from suites.memory import card_rates, test_card_memory
from suites.memory.card_rates import CacheRead, CardChase, Write, load_times
from tests.suites import stand_in_card
from tests.suites.stand_in_card import stand_in
from tests.suites.test_suites_on_a_card import Node, Taken

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


def test_twice_the_array_is_twice_the_bytes() -> None:
    assert Write(2000, CPU).bytes == 2 * Write(1000, CPU).bytes == 16_000
    assert CacheRead(4096, 8, CPU).bytes == 2 * CacheRead(4096, 4, CPU).bytes == 8 * 4096


def test_writing_is_noticed_where_it_is_missing_or_wrong() -> None:
    right = Write(1000, CPU)
    for _ in range(3):
        right.run()
    assert right.wrong_elements() == 0
    half = Write(1000, CPU, apply=lambda array, number: array[:400].fill_(number))
    half.run()
    assert half.wrong_elements() == 600
    once = Write(1000, CPU, apply=lambda array, number: array.fill_(1))
    once.run()
    once.run()  # what is there from the last time is not what was to be written
    assert once.wrong_elements() == 1000


@pytest.mark.parametrize("footprint", [4096, 4100, 4104])
def test_sums_from_the_cache_are_exact(footprint: int) -> None:
    read = CacheRead(footprint, 5, CPU)
    read.run()
    assert read.wrong_sums() == 0


def test_wrong_word_in_the_cache_and_wrong_sum_are_noticed() -> None:
    read = CacheRead(4096, 5, CPU)
    read._array[77] += 1
    read.run()
    assert read.wrong_sums() == 5

    def faulty(view: torch.Tensor, *, dim: int, out: torch.Tensor) -> None:
        torch.sum(view, dim=dim, out=out)
        out[3] += 1

    faulted = CacheRead(4096, 5, CPU, apply=faulty)
    faulted.run()
    assert faulted.wrong_sums() == 1


def test_device_that_does_not_notice_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = CacheRead(4096, 5, CPU), Write(100, CPU)
    read.run()
    write.run()
    monkeypatch.setattr(torch, "count_nonzero", lambda _: torch.tensor(0))
    for check in (read.wrong_sums, write.wrong_elements, CardChase(4096, CPU).wrong_links):
        with pytest.raises(AssertionError, match="does not notice an error"):
            check()


def test_chase_goes_through_every_place_and_arrives() -> None:
    chase = CardChase(5000, CPU)  # 512 places
    seen = set()
    for _ in range(256):
        chase.run(1)
        seen |= {int(chase._here), int(chase._there)}
    assert seen == set(range(512))
    chase.begin()
    chase.run(100)
    assert chase.arrived(100)
    assert not chase.arrived(99)
    assert chase.wrong_links() == 0


def test_link_that_lost_a_bit_leads_astray_and_is_counted() -> None:
    chase = CardChase(4096, CPU)
    chase._table[0] ^= 1
    chase.run(10)
    assert not chase.arrived(10)
    assert chase.wrong_links() == 1


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    profiles = ("smoke", "standard", "soak")
    monkeypatch.setattr(test_card_memory, "WRITTEN", dict.fromkeys(profiles, 1 << 16))
    monkeypatch.setattr(test_card_memory, "STEPS", 16)
    monkeypatch.setattr(test_card_memory, "WALKS", 2)
    monkeypatch.setattr(test_card_memory, "READ", 3 << 18)
    told = SimpleNamespace(L2_cache_size=1 << 15)
    with stand_in(rounded=False) as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "get_device_properties", lambda *_: told)
        found.told = told
        yield found


def test_card_is_measured_by_footprint(card: Any) -> None:
    taken, said = Taken(), dict[str, object]()
    device, node = Device("cuda:0"), Node()
    test_card_memory.test_write(taken, device, node)
    test_card_memory.test_cache(taken, device)
    assert taken.asked["write_rate"]["work"] == 1 << 16
    for level in ("line", "l2", "memory"):
        test_card_memory.test_chase(taken, device, node, said.__setitem__, level)
    assert said == {"chase": "captured as a graph"}
    assert taken.asked["chase_time"]["group"] == ""
    assert len(card.graphs) == 3
    assert card.graphs[0].replays > 0


@pytest.mark.parametrize("told", [1 << 15, 1 << 17, 5 << 15])
def test_small_cache_is_read_as_long_as_a_large_one(card: Any, told: int) -> None:
    card.told.L2_cache_size = told
    taken = Taken()
    test_card_memory.test_cache(taken, Device("cuda:0"))
    assert 0 <= taken.asked["cache_rate"]["work"] - test_card_memory.READ < told // 4


class Clockwork:
    """A card that takes its time for a launch, and more where a load goes far away."""

    LAUNCH, FAR = 1500.0, 600.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        clock = SimpleNamespace(perf_counter=lambda: self.now)
        monkeypatch.setattr(stand_in_card, "time", clock)
        plain = torch.index_select

        def slow(table: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
            self.now += (self.LAUNCH + self.FAR * (len(table) > 1 << 10)) / 1e9
            return plain(table, *given, **named)

        monkeypatch.setattr(torch, "index_select", slow)


def test_time_of_a_load_is_read_back_with_its_launch_and_without() -> None:
    chases = [CardChase(size, CPU) for size in (1 << 16, test_card_memory.LINE)]
    with stand_in(rounded=False), pytest.MonkeyPatch.context() as patch:
        Clockwork(patch)
        for calls in (1, 3):
            walks = [partial(chase.run, 8) for chase in chases]
            found = load_times(walks, 16, calls, CPU)
            assert found == pytest.approx([2100, 1500])


def test_far_load_is_what_memory_takes_beyond_a_line(
    card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = [9000.0, 1500.0]  # an idle card counts nowhere
    times = iter([lead, [2100.0, 1500.0], [2000.0, 1500.0], [1900.0, 1500.0]])
    monkeypatch.setattr(card_rates, "load_times", lambda *_: next(times))
    taken, node = Taken(), Node()
    test_card_memory.test_far_load(taken, Device("cuda:0"), node, lambda *_: None)
    assert taken.values == {"far_load_time": (600.0, 500.0, 400.0)}
    hidden = pytest.raises(pytest.skip.Exception, match="hide how long a load takes")
    with stand_in(rounded=False, captures=False), hidden:
        test_card_memory.test_far_load(Taken(), Device("cuda:0"), node, lambda *_: None)


def test_card_without_graphs_says_so_and_one_without_a_cache_size_is_left_out(card: Any) -> None:
    said: dict[str, object] = {}
    taken = Taken()
    with stand_in(rounded=False, captures=False):
        test_card_memory.test_chase(taken, Device("cuda:0"), Node(), said.__setitem__, "memory")
    assert taken.asked["chase_time"]["group"] == "eager"
    assert said == {"chase": "eager: operation not permitted when stream is capturing"}
    card.told.L2_cache_size = 0
    with pytest.raises(pytest.skip.Exception, match="size of this device's cache"):
        test_card_memory.test_cache(Taken(), Device("cuda:0"))
