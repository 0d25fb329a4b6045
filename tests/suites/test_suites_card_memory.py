"""A card's memory by footprint: what is measured is the work that is said, and every wrong bit is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_anubis.session.collecting.device_parameters import Device
from suites.memory import test_card_memory
from suites.memory.card_rates import CacheRead, CardChase, Write
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
    told = SimpleNamespace(L2_cache_size=1 << 15)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: told)
    with stand_in(rounded=False) as found:
        found.told = told
        yield found


def test_card_is_measured_by_footprint(card: Any) -> None:
    taken, said = Taken(), dict[str, object]()
    device, node = Device("cuda:0"), Node()
    test_card_memory.test_write(taken, device, node)
    test_card_memory.test_cache(taken, device)
    assert taken.asked["write_rate"]["work"] == 1 << 16
    assert taken.asked["cache_rate"]["work"] == test_card_memory.SUMS * (1 << 13)
    for level in ("l2", "memory"):
        test_card_memory.test_chase(taken, device, node, said.__setitem__, level)
    assert said == {"chase": "captured as a graph"}
    assert len(card.graphs) == 2
    assert card.graphs[0].replays > 0


def test_card_without_graphs_says_so_and_one_without_a_cache_size_is_left_out(card: Any) -> None:
    said: dict[str, object] = {}
    with stand_in(rounded=False, captures=False):
        taken = Taken()
        test_card_memory.test_chase(taken, Device("cuda:0"), Node(), said.__setitem__, "memory")
    assert taken.asked["chase_time"]["group"] == "eager"  # no criterion of graphs judges it
    assert said == {"chase": "eager: operation not permitted when stream is capturing"}
    card.told.L2_cache_size = 0
    with pytest.raises(pytest.skip.Exception, match="how large this device's cache is"):
        test_card_memory.test_cache(Taken(), Device("cuda:0"))
