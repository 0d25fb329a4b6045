"""The benchmarks of links move what they say, read a rate, name the bad way, and notice wrong bits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking.sizes import MemoryTakenError
from pytest_anubis.session.collecting.device_parameters import Device, Pair
from suites.link import all_cards, copier, peer_copy, test_peer, test_transfer
from suites.link.all_cards import AllCards, Slowest
from suites.link.peer_copy import PeerCopies, shifted
from suites.link.transfer import Transfer, copy
from tests.suites import copier_on_a_card, stand_in_card
from tests.suites.stand_in_card import stand_in
from tests.suites.test_suites_on_a_card import Node, Taken

pytestmark = pytest.mark.usefixtures("one_thread", "quick_processes")
Costs = Callable[..., list[float]]
CPU = torch.device("cpu")
MIB = 1 << 20
CARDS = [torch.device("cuda", index) for index in range(8)]
LINKS = {
    "index": 0,
    "vendor": "nvidia",
    "name": "H200",
    "link_generation_max": 5,
    "link_width_max": 16,
}
LINKS |= {"nvlinks": 18, "nvlink_speed": 26562, "fabric": "completed"}
PAIR = Pair(Device("cuda:2", 2, card=LINKS), Device("cuda:6", 6, card=LINKS))
WAY = CARDS[2], CARDS[6]


@pytest.fixture
def cards() -> Iterator[Any]:
    """Eight stand-in cards."""
    with stand_in(rounded=False, cards=8) as found:
        yield found


class Link:
    """Links with a rate each, and a clock of their own: a copy takes what its bytes take."""

    def __init__(self, rate: float) -> None:
        self.now, self.rate, self.copied = 0.0, rate, 0

    def move(self, target: torch.Tensor, source: torch.Tensor) -> None:
        copy(target, source)
        self.copied += source.numel() * source.element_size()
        self.now += source.numel() * source.element_size() / self.rate


@pytest.fixture
def link(cards: Any, monkeypatch: pytest.MonkeyPatch) -> Link:
    """A link of 137 GB/s, which nobody is told."""
    made = Link(137e9)
    monkeypatch.setattr(stand_in_card, "time", SimpleNamespace(perf_counter=lambda: made.now))
    monkeypatch.setattr(peer_copy, "copy", made.move)
    monkeypatch.setattr(PeerCopies.__init__, "__kwdefaults__", {"move": made.move})
    monkeypatch.setattr(test_peer, "SIZES", {"smoke": 3 * MIB})
    monkeypatch.setattr(test_peer, "ROUND", {"smoke": 1e-4})
    monkeypatch.setattr(peer_copy, "LEAD", 1e-4)
    return made


@pytest.mark.parametrize(
    ("test", "flows"),
    [
        (test_peer.test_peer_copy, {"peer_rate": 1}),
        (test_peer.test_peer_kernel, {"peer_kernel_rate": 1, "peer_kernel_both_ways_rate": 1}),
        (test_peer.test_peer_permutation, {"peer_loaded_rate": 8}),
    ],
)
def test_hidden_rate_of_a_link_is_read_back(
    test: Callable[..., None], flows: dict[str, int], link: Link
) -> None:
    taken = Taken()
    if test is test_peer.test_peer_permutation:
        test = partial(test, loaded={})
    test(taken, PAIR, Node())
    assert list(taken.values) == list(flows)
    for name, sharing in flows.items():  # one clock for all: what goes on meanwhile takes its turn
        for value in taken.values[name]:
            assert 0.94 < value * sharing / 137 < 1.05
    if test is test_peer.test_peer_copy:
        longer = Taken()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(test_peer, "ROUNDS", {"smoke": None})
            test(longer, PAIR, Node())
        (_, both) = longer.values
        assert both == "peer_both_ways_rate"
        assert longer.asked[both]["nominal"].value == pytest.approx(2 * 18 * 26.562e9)
        assert 0.94 < longer.values[both][0] / 137 < 1.05
    rated = {name: asked.get("nominal") for name, asked in taken.asked.items()}
    by_kernel = test is test_peer.test_peer_kernel  # whose units may be slower than the links
    assert rated == dict.fromkeys(flows, None if by_kernel else PAIR.nominal())
    link.rate /= 2
    slower = Taken()
    test(slower, PAIR, Node())
    for name, values in taken.values.items():
        assert slower.values[name] == pytest.approx([value / 2 for value in values])


def test_twice_the_bytes_take_twice_the_time_and_are_all_moved(link: Link) -> None:
    for size, rows in ((MIB, 2), (2 * MIB, 4), (2 * MIB + 9, 4)):
        copies = PeerCopies([WAY], size)
        assert copies.bytes == rows * MIB // 2
        link.copied = 0
        (seconds,) = copies.seconds(3)
        assert seconds == pytest.approx(copies.bytes / 137e9)
        assert link.copied == 3 * copies.bytes


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize("by", ["engine", "kernel"])
def test_flipped_bit_is_noticed_and_its_way_is_named(by: peer_copy.By) -> None:
    ways = shifted(CARDS, WAY)
    bad = ways.index((CARDS[7], CARDS[3]))
    moved: list[torch.Tensor] = []

    def faulty(target: torch.Tensor, source: torch.Tensor) -> None:
        copy(target, source)
        moved.append(target)
        if len(moved) == 1 + bad:
            target[0, 1234] ^= 1 << 40

    assert PeerCopies(ways, MIB, by).wrong_words() == {}
    assert PeerCopies(ways, MIB, by, move=faulty).wrong_words() == {"cuda:7>cuda:3": 1}


@pytest.mark.usefixtures("cards")
def test_copy_that_does_not_happen_or_goes_elsewhere_is_noticed() -> None:
    words = MIB // 8
    assert PeerCopies([WAY], MIB, move=lambda *_: None).wrong_words() == {"cuda:2>cuda:6": words}

    def swapped(target: torch.Tensor, source: torch.Tensor) -> None:
        copy(target[0], source[1])
        copy(target[1], source[0])

    assert PeerCopies([WAY], MIB, move=swapped).wrong_words() == {"cuda:2>cuda:6": words}
    with pytest.raises(ValueError, match="cuda:2 to itself"):
        PeerCopies([(CARDS[2], CARDS[2])], MIB)


def test_wrong_bit_fails_each_test_of_a_pair(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(target: torch.Tensor, source: torch.Tensor) -> None:
        link.move(target, source)
        target[-1, 0] ^= 1

    monkeypatch.setattr(PeerCopies.__init__, "__kwdefaults__", {"move": faulty})
    for test in (
        test_peer.test_peer_copy,
        test_peer.test_peer_kernel,
        partial(test_peer.test_peer_permutation, loaded={}),
    ):
        with pytest.raises(AssertionError, match=r"arrived changed: \{'cuda:2>cuda:6': \d"):
            test(Taken(), PAIR, Node())


def test_wrong_words_of_copies_one_way_do_not_hide_those_both_ways() -> None:
    with pytest.raises(AssertionError, match=r"\{'cuda:2>cuda:6': 3, 'cuda:6>cuda:2': 4\}"):
        test_peer.intact({"cuda:2>cuda:6": 1}, {"cuda:2>cuda:6": 2, "cuda:6>cuda:2": 4})


def test_permutation_is_measured_once_and_each_pair_gets_its_own_way(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, torn = (CARDS[5], CARDS[1]), (CARDS[0], CARDS[4])
    seconds, wrong_words = PeerCopies.seconds, PeerCopies.wrong_words

    def one_slow(copies: PeerCopies, calls: int) -> list[float]:
        took = seconds(copies, calls)
        return [took[0] * (4 if way == slow else 1) for way in copies.ways]

    monkeypatch.setattr(PeerCopies, "seconds", one_slow)
    monkeypatch.setattr(
        PeerCopies, "wrong_words", lambda copies: wrong_words(copies) | {"cuda:0>cuda:4": 7}
    )
    loaded: dict[Any, Any] = {}
    values: list[tuple[float, ...]] = []
    copied: list[int] = []
    for number in (2, 5, 0, 2):  # the last one again, as in a soak
        source, target = (f"cuda:{one}" for one in (number, (number + 4) % 8))
        link.copied, taken = 0, Taken()
        ends = Device(source, number, card=LINKS), Device(target, (number + 4) % 8, card=LINKS)
        pair = Pair(*ends)
        if CARDS[number] in (CARDS[2], torn[0]):  # one finds it, the other one is it
            with pytest.raises(AssertionError, match="'cuda:0>cuda:4': 7"):
                test_peer.test_peer_permutation(taken, pair, Node(), loaded)
        else:
            test_peer.test_peer_permutation(taken, pair, Node(), loaded)
        assert taken.asked["peer_loaded_rate"]["nominal"] == PAIR.nominal()
        values.append(taken.values["peer_loaded_rate"])
        copied.append(link.copied)
    assert [bool(count) for count in copied] == [True, False, False, True]
    assert values[1] == pytest.approx([value / 4 for value in values[0]])
    assert tuple(values[2]) == values[0]


def test_kernel_moves_rows_that_no_copy_engine_would_take(cards: Any) -> None:
    seen: list[tuple[bool, bool, int]] = []

    def noting(target: torch.Tensor, source: torch.Tensor) -> None:
        seen.append((target.is_contiguous(), source.is_contiguous(), source.numel() * 8))
        copy(target, source)

    for by in ("engine", "kernel"):
        assert PeerCopies([WAY], MIB, by, move=noting).wrong_words() == {}
    assert seen == [(True, True, MIB), (False, False, MIB)]


@pytest.mark.usefixtures("link")
def test_cards_that_cannot_reach_each_other_have_no_kernel_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda *_: False)
    with pytest.raises(pytest.skip.Exception, match="not applicable: the cards cannot"):
        test_peer.test_peer_kernel(Taken(), PAIR, Node())


@pytest.mark.usefixtures("link")
def test_copies_take_what_both_cards_have_room_for(
    cards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards.memory = 2 * peer_copy.BUFFERS * MIB
    monkeypatch.setattr(test_peer, "SIZES", {"smoke": 64 * MIB})
    assert test_peer.between(PAIR, 64 * MIB).bytes == MIB
    total, taken = cards.memory, CARDS[5]  # of a third card, which only the permutation uses
    monkeypatch.setattr(
        torch.cuda,
        "mem_get_info",
        lambda card: (total // 16 if card == taken else total, total),
    )
    assert test_peer.between(PAIR, MIB).bytes == MIB
    with pytest.raises(MemoryTakenError, match="of cuda:5's"):
        test_peer.between(PAIR, MIB, all_cards=True)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_rounds_of_the_schedule_use_every_way_once_and_every_port_in_each(count: int) -> None:
    devices = CARDS[:count]
    used = []
    for distance in range(1, count):
        ways = shifted(devices, (devices[0], devices[distance]))
        assert {way[0] for way in ways} == {way[1] for way in ways} == set(devices)
        used += ways
    assert len(used) == len(set(used)) == count * (count - 1)
    assert shifted(devices, (devices[1], devices[0]))[0] == (devices[1], devices[0])


@pytest.mark.usefixtures("cards")
def test_slow_card_is_named_when_all_copy_and_a_changed_byte_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = tmp_path / "fault"
    fault.write_text("")
    monkeypatch.setenv(copier_on_a_card.FAULT, str(fault))
    monkeypatch.setattr(test_transfer, "LOADED", {"smoke": 0.001})
    taken, said = Taken(), dict[str, object]()
    with AllCards("cuda", 2, 64 * MIB, module="tests.suites.copier_on_a_card") as both:
        assert both.size == 4 * MIB  # two of them in half of 16
        fault.write_text("slow 1")
        slowest = Slowest(both, "to_host", 1)
        assert slowest() * 1e9 < both.size / copier_on_a_card.DELAY
        assert slowest.text.startswith("cuda:1, in 1 of 1 rounds: ")
        fault.write_text("")
        assert both.wrong_bytes() == [0, 0]
        fault.write_text("wrong 0")
        monkeypatch.setattr(all_cards, "AllCards", lambda *_: nullcontext(both))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        with pytest.raises(AssertionError, match=r"while all cards copied: \{'cuda:0': "):
            test_transfer.test_copies_of_all_cards(taken, Node(), said.__setitem__)
    assert list(taken.asked) == ["all_to_device_rate", "all_to_host_rate", "all_both_ways_rate"]
    assert list(said) == ["slowest_to_device", "slowest_to_host", "slowest_both_ways"]
    assert "all_to_host_rate: slowest was cuda:" in capsys.readouterr().out


def test_twice_the_copies_of_a_card_take_twice_the_time_behind_its_link(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(
        perf_counter=lambda: link.now, monotonic=lambda: 0.0, sleep=lambda _: None
    )
    monkeypatch.setattr(copier, "time", clock)
    one = copier.Copier(CARDS[0], move=link.move)
    size = one.prepare({"bytes": MIB})["bytes"]
    for way, copies in all_cards.WAYS.items():
        for times in (1, 2):
            seconds = one.copy({"way": way, "times": times, "at": 0.0})["seconds"]
            assert seconds == pytest.approx(times * copies * size / 137e9), way


def test_copies_of_all_cards_want_two() -> None:
    with pytest.raises(pytest.skip.Exception, match="not applicable: fewer than two"):
        test_transfer.test_copies_of_all_cards(Taken(), Node(), lambda *_: None)


@pytest.mark.alone
def test_transfer_moves_every_byte_and_larger_ones_cost_more(costs: Costs) -> None:
    small, large = Transfer(4 * MIB, CPU), Transfer(16 * MIB, CPU)
    least = costs(small.to_device, large.to_device)
    assert least[1] > 2 * least[0]
    assert small.wrong_bytes(lambda: None) == 0


def test_transfer_notices_a_flipped_bit() -> None:
    def faulty(target: torch.Tensor, source: torch.Tensor) -> None:
        copy(target, source)
        target[12_345] ^= 1

    # Only on the way there: twice the same fault would undo itself.
    moves = iter((faulty, copy))
    transfer = Transfer(MIB, CPU, move=lambda target, source: next(moves)(target, source))
    assert transfer.wrong_bytes(lambda: None) == 1


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize("direction", [1, 2], ids=["there", "back"])
def test_flipped_bit_on_either_way_of_both_at_once_is_noticed(direction: int) -> None:
    moves = 0

    def faulty(target: torch.Tensor, source: torch.Tensor) -> None:
        nonlocal moves
        copy(target, source)
        if moves == direction:  # the first one only brings what is sent back later
            target[54_321] ^= 4
        moves += 1

    assert Transfer(MIB, CARDS[0]).wrong_bytes_of_both(lambda: None) == 0
    assert Transfer(MIB, CARDS[0], move=faulty).wrong_bytes_of_both(lambda: None) == 1


@pytest.mark.alone
def test_slow_link_shows_in_a_transfer(costs: Costs) -> None:
    rate = 0.5e9  # bytes a second, which the memory of a busy laptop passes many times over

    def throttled(target: torch.Tensor, source: torch.Tensor) -> None:
        # Not some copies of the same: all but the first of them would find it in a cache.
        copy(target, source)
        time.sleep(source.nbytes / rate)

    healthy, slow = Transfer(4 * MIB, CPU), Transfer(4 * MIB, CPU, move=throttled)
    least = costs(healthy.to_host, slow.to_host)
    assert least[1] > 1.5 * least[0]
    assert least[1] >= 4 * MIB / rate


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize(
    ("test", "metrics", "locked"),
    [
        (test_transfer.test_host_device_copy, ["host_to_device_rate", "device_to_host_rate"], 2),
        (test_transfer.test_both_ways, ["both_ways_rate"], 2),
        (test_transfer.test_pageable_copy, ["pageable_to_device_rate", "pageable_to_host_rate"], 0),
    ],
)
def test_copies_between_host_and_card(
    monkeypatch: pytest.MonkeyPatch, test: Callable[..., None], metrics: list[str], locked: int
) -> None:
    monkeypatch.setattr(test_transfer, "SIZES", {"smoke": (9 << 20) + 5})
    sizes: list[int] = []
    empty = torch.empty

    def noting(*arguments: Any, **given: Any) -> torch.Tensor:
        made = empty(*arguments, **given)
        if given.get("pin_memory"):
            sizes.append(len(made))
        return made

    monkeypatch.setattr(torch, "empty", noting)
    taken = Taken()
    card = Device("cuda:0", card=LINKS)
    test(taken, card, Node())
    assert list(taken.asked) == metrics
    rated = {asked.get("nominal") for asked in taken.asked.values()}
    assert rated == {card.nominal() if test is test_transfer.test_host_device_copy else None}
    assert sizes == [(9 << 20) + 5] * locked
