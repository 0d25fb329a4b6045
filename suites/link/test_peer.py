"""Copies from one accelerator to another, every ordered pair a unit of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_anubis import MetricFixture, NodeFixture, PairFixture
from pytest_anubis.benchmarking.sizes import fitting

if TYPE_CHECKING:
    from suites.link.peer_copy import By, PeerCopies, Way

SIZES = {"smoke": 256 << 20, "standard": 1 << 30, "soak": 1 << 30}
"""Bytes of a copy: at 400 GB/s a quarter of a gigabyte takes 0.6 ms, far longer than to queue it."""

ROUND = {"smoke": 0.01, "standard": 0.1, "soak": 1.0}
"""Seconds of copies that one value covers."""

ROUNDS = {"smoke": 10, "standard": None, "soak": None}
"""Values of a pair; None: by the profile. Eight cards have 56 pairs, and `smoke` has seconds for them."""

GOAL = "Every accelerator reaches every other one at the rate of its links"
ACTION = (
    "Compare the pair with those that share its sender and those that share its receiver: a slow card has "
    "all of them slow, a slow link only this one. Read link states and error counters (`nvidia-smi nvlink "
    "-s -e`, `rocm-smi --showxgmierr`), look for a PCIe path in the topology where others have links, then "
    "reseat or exchange the card, or the switch"
)


def between(
    pair: PairFixture, size: int, *, all_cards: bool = False, by: By = "engine"
) -> PeerCopies:
    """Return copies from the pair's sender to its receiver, and along all ways that go on beside them."""
    import torch

    from suites.link.peer_copy import BUFFERS, PeerCopies, shifted

    way: Way = pair.source.torch, pair.target.torch
    ways = [way]
    if all_cards:
        seen = range(torch.accelerator.device_count())
        ways = shifted([torch.device(pair.kind, index) for index in seen], way)
    for end in way:
        size = min(size, fitting(size, end, times=BUFFERS))
    return PeerCopies(ways, size, by)


@pytest.mark.anubis(
    component="accelerator.link",
    scope="pair",
    cost="0.3s",
    metrics=["peer_rate"],
    goal=GOAL,
    question="Does the way from this accelerator to that one deliver its full rate, alone and both ways?",
    action=ACTION,
)
def test_peer_copy(
    anubis_metric: MetricFixture, anubis_pair: PairFixture, anubis_node: NodeFixture
) -> None:
    """A large copy by the copy engines runs at the rate of the link, and every bit arrives."""
    from suites.link.peer_copy import PeerCopies

    seconds, rounds = anubis_node.pick(**ROUND), anubis_node.pick(**ROUNDS)
    copies = between(anubis_pair, anubis_node.pick(**SIZES))
    calls = copies.calls_for(seconds)
    anubis_metric.collect(
        "peer_rate",
        lambda: copies.bytes / copies.seconds(calls)[0] / 1e9,
        unit="GB/s",
        better="higher",
        clock="device",
        rounds=rounds,
    )
    if rounds is not None:  # one way only: the pair the other way round is the next test
        wrong = copies.wrong_words()
        assert not wrong, f"words of 8 bytes that arrived changed: {wrong}"
        return
    ways = [(anubis_pair.source.torch, anubis_pair.target.torch)]
    both = PeerCopies([*ways, *(way[::-1] for way in ways)], copies.bytes)
    anubis_metric.collect(
        "peer_both_ways_rate",
        lambda: 2 * both.bytes / max(both.seconds(calls)) / 1e9,
        unit="GB/s",
        better="higher",
        clock="device",
        rounds=rounds,
    )
    wrong = copies.wrong_words() or both.wrong_words()
    assert not wrong, f"words of 8 bytes that arrived changed: {wrong}"


@pytest.mark.anubis(
    component="accelerator.link",
    scope="pair",
    cost="5s",
    profiles=("standard", "soak"),
    metrics=["peer_kernel_rate"],
    goal=GOAL,
    question="Does a kernel on this accelerator write into that one's memory at the full rate of the way?",
    action=ACTION
    + "; where the copy engines are as quick as on other nodes, it is the sender's own units",
)
def test_peer_kernel(
    anubis_metric: MetricFixture, anubis_pair: PairFixture, anubis_node: NodeFixture
) -> None:
    """A kernel that writes into the other card's memory runs at the link's rate, and every bit arrives."""
    import torch

    ends = anubis_pair.source.torch, anubis_pair.target.torch
    if anubis_pair.kind != "cuda" or not torch.cuda.can_device_access_peer(*ends):
        pytest.skip("not applicable: neither card can reach into the other's memory")
    copies = between(anubis_pair, anubis_node.pick(**SIZES), by="kernel")
    calls = copies.calls_for(anubis_node.pick(**ROUND))
    anubis_metric.collect(
        "peer_kernel_rate",
        lambda: copies.bytes / copies.seconds(calls)[0] / 1e9,
        unit="GB/s",
        better="higher",
        clock="device",
        rounds=anubis_node.pick(**ROUNDS),
    )
    wrong = copies.wrong_words()
    assert not wrong, f"words of 8 bytes that arrived changed: {wrong}"


@pytest.mark.anubis(
    component="accelerator.link",
    scope="pair",
    cost="5s",
    profiles=("standard", "soak"),
    metrics=["peer_loaded_rate"],
    goal="Links and switches carry what all accelerators send at once",
    question="Does the way from this accelerator to that one keep its rate while every other card sends and "
    "receives as well?",
    action="If the pair alone is normal, look at what it shares with the others: the switch and its trunks, "
    f"the power of the card. {ACTION}",
)
def test_peer_permutation(
    anubis_metric: MetricFixture, anubis_pair: PairFixture, anubis_node: NodeFixture
) -> None:
    """All cards copy to the one equally far on, so that every port is busy both ways; every bit arrives."""
    copies = between(anubis_pair, anubis_node.pick(**SIZES), all_cards=True)
    calls = copies.calls_for(anubis_node.pick(**ROUND))
    anubis_metric.collect(
        "peer_loaded_rate",
        lambda: copies.bytes / copies.seconds(calls)[0] / 1e9,
        unit="GB/s",
        better="higher",
        clock="device",
        rounds=anubis_node.pick(**ROUNDS),
    )
    wrong = copies.wrong_words()
    assert not wrong, f"words of 8 bytes that arrived changed: {wrong}"
