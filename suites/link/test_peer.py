"""Copies from one accelerator to another, every ordered pair a unit of its own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture, PairFixture
from pytest_anubis.benchmarking.sizes import fitting

if TYPE_CHECKING:
    from pytest_anubis.core.nominal_rate import NominalRate
    from suites.link.peer_copy import By, Loaded, PeerCopies, Way

SIZES = {"smoke": 256 << 20, "standard": 1 << 30, "soak": 1 << 30}
"""Bytes of a copy: at 400 GB/s a quarter of a gigabyte takes 0.6 ms, far longer than to queue it."""

ROUND = {"smoke": 0.01, "standard": 0.04, "soak": 1.0}
"""Seconds of copies that one value covers."""

ROUNDS = {"smoke": 10, "standard": None, "soak": None}
"""Values of a pair; None: by the profile. Eight cards have 56 pairs, and `smoke` has seconds for them."""

ACTION = (
    "Compare the pair with those that share its sender and those that share its receiver: a slow card has "
    "all of them slow, a slow link only this one. Read link states and error counters (`nvidia-smi nvlink "
    "-s -e`, `rocm-smi --showxgmierr`), look for a PCIe path in the topology where others have links, then "
    "reseat or exchange the card, or the switch"
)

pytestmark = pytest.mark.anubis(
    component="accelerator.link",
    scope="pair",
    goal="Every accelerator reaches every other one at the rate of its links",
)


def between(
    pair: PairFixture, size: int, *, all_cards: bool = False, by: By = "engine"
) -> PeerCopies:
    """Return copies from the pair's sender to its receiver, and along all ways that go on at the same time.

    Raises:
        MemoryTakenError: A card of any of these ways has no room for its buffers.
    """
    import torch

    from suites.link.peer_copy import BUFFERS, PeerCopies, shifted

    way: Way = pair.source.torch, pair.target.torch
    ways = [way]
    if all_cards:
        seen = range(torch.accelerator.device_count())
        ways = shifted([torch.device(pair.kind, index) for index in seen], way)
    for end in dict.fromkeys(end for one in ways for end in one):
        size = min(size, fitting(size, end, times=BUFFERS))
    return PeerCopies(ways, size, by)


def timed(
    anubis_metric: MetricFixture,
    name: str,
    copies: PeerCopies,
    node: NodeFixture,
    nominal: NominalRate | None = None,
) -> None:
    """Record the rate of copies that go on at once, of them all together, as the slowest of them ends."""
    calls, bytes_of_all = copies.calls_for(node.pick(**ROUND)), copies.bytes * len(copies.ways)
    anubis_metric.collect(
        name,
        lambda: bytes_of_all / max(copies.seconds(calls)) / 1e9,
        unit="GB/s",
        better="higher",
        clock="device",
        nominal=nominal,
        rounds=node.pick(**ROUNDS),
    )


def there_and_back(pair: PairFixture) -> list[Way]:
    """Return the ways from the sender to the receiver and back."""
    way: Way = pair.source.torch, pair.target.torch
    return [way, way[::-1]]


def intact(*every: dict[str, int]) -> None:
    """Assert that no word of any copies arrived changed; what is wrong is named, on all ways together."""
    wrong: Counter[str] = Counter()
    for found in every:
        wrong.update(found)
    assert not wrong, f"words of 8 bytes that arrived changed: {dict(wrong)}"


@pytest.fixture(scope="session")
def loaded() -> dict[Way, Loaded]:
    """Ways whose permutation was measured by the test of another of its ways, and what they reached in it."""
    return {}


@pytest.mark.anubis(
    cost="0.3s",
    metrics=["peer_rate"],
    question="Does the way from this accelerator to that one deliver its full rate, alone and both ways?",
    action=ACTION,
)
def test_peer_copy(
    anubis_metric: MetricFixture, anubis_pair: PairFixture, anubis_node: NodeFixture
) -> None:
    """A large copy by the copy engines runs at the rate of the link, and every bit arrives."""
    from suites.link.peer_copy import PeerCopies

    copies = between(anubis_pair, anubis_node.pick(**SIZES))
    rating = anubis_pair.nominal()
    timed(anubis_metric, "peer_rate", copies, anubis_node, rating)
    every = [copies]
    # In `smoke` one way only: the pair the other way round is a test of its own.
    if anubis_node.pick(**ROUNDS) is None:
        every.append(PeerCopies(there_and_back(anubis_pair), copies.bytes))
        both = rating and rating.both_ways
        timed(anubis_metric, "peer_both_ways_rate", every[-1], anubis_node, both)
    intact(*(one.wrong_words() for one in every))


@pytest.mark.anubis(
    cost="3s",
    profiles=("standard", "soak"),
    metrics=["peer_kernel_rate", "peer_kernel_both_ways_rate"],
    question="Do kernels of this accelerator write into that one's memory at the full rate of the way, alone "
    "and while that one's write back?",
    action=ACTION
    + "; where the copy engines are as quick as on other nodes, it is the sender's own units",
)
def test_peer_kernel(
    anubis_metric: MetricFixture, anubis_pair: PairFixture, anubis_node: NodeFixture
) -> None:
    """Kernels that write into the other card's memory run at the link's rate, and every bit arrives."""
    import torch

    from suites.link.peer_copy import PeerCopies

    ways = there_and_back(anubis_pair)
    if anubis_pair.kind != "cuda" or not all(
        torch.cuda.can_device_access_peer(*way) for way in ways
    ):
        pytest.skip("not applicable: the cards cannot reach into each other's memory")
    copies = between(anubis_pair, anubis_node.pick(**SIZES), by="kernel")
    # Without nominal=: the sender's units may write less than the links carry.
    timed(anubis_metric, "peer_kernel_rate", copies, anubis_node)
    both = PeerCopies(ways, copies.bytes, "kernel")
    timed(anubis_metric, "peer_kernel_both_ways_rate", both, anubis_node)
    intact(copies.wrong_words(), both.wrong_words())


@pytest.mark.anubis(
    cost="1s",  # of eight cards 7 of 56 take five seconds and more, the others none
    profiles=("standard", "soak"),
    metrics=["peer_loaded_rate"],
    goal="Links and switches carry what all accelerators send at once",
    question="Does the way from this accelerator to that one keep its rate while every other card sends and "
    "receives as well?",
    action="If the pair alone is normal, look at what it shares with the others: the switch and its trunks, "
    f"the power of the card. {ACTION}",
)
def test_peer_permutation(
    anubis_metric: MetricFixture,
    anubis_pair: PairFixture,
    anubis_node: NodeFixture,
    loaded: dict[Way, Loaded],
) -> None:
    """All cards copy to the one equally far on, so that every port is busy both ways; every bit arrives.

    The test of the first way of a permutation measures it, and leaves to those of the others what theirs
    reached: eight cards have 56 ways and 7 permutations. What is left is taken once, so that a test that is
    repeated measures again.
    """
    from suites.link.peer_copy import Permutation

    rating = anubis_pair.nominal()  # switches let no card wait for another
    mine = loaded.pop((anubis_pair.source.torch, anubis_pair.target.torch), None)
    if mine is not None:
        anubis_metric.record(
            "peer_loaded_rate", mine.rates, unit="GB/s", better="higher", nominal=rating
        )
        intact(mine.wrong)
        return
    copies = between(anubis_pair, anubis_node.pick(**SIZES), all_cards=True)
    permutation = Permutation(copies, anubis_node.pick(**ROUND))
    kept = anubis_metric.collect(
        "peer_loaded_rate",
        permutation.rate,
        unit="GB/s",
        better="higher",
        clock="device",
        nominal=rating,
        rounds=anubis_node.pick(**ROUNDS),
    )
    wrong = copies.wrong_words()
    loaded.update(permutation.others(kept, wrong))
    intact(wrong)  # of whichever way: the test of that one may not be among those that run
