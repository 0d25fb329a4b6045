"""A plugin for whole runs on a stand-in: ``-p tests.suites.stand_in_plugin``; sizes are those of a CPU.

PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

MEMORY = 256 << 20
"""Bytes that the card has: STREAM then takes what a CPU can do."""

RANKS = int(os.environ.get("STAND_IN_CARDS", "8"))
"""Cards whose ranks reduce together: each is a process with a card of its own."""


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give every test the stand-in, and shapes that a CPU computes in milliseconds.

    The work of a card is done by one thread, whatever its lane has: several, waiting for each other on CPUs
    that others use as well, would take a hundred times as long, now and then.
    """
    import torch

    from suites.collective import test_overlap
    from suites.collective.group import RankGroup
    from suites.compute import test_gemm
    from suites.link import test_peer, test_transfer
    from suites.training import test_step
    from suites.workload.catalogue import BY_NAME, Sizes
    from tests.suites.stand_in_card import stand_in

    torch.set_num_threads(1)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: RANKS)
    ranks = RankGroup.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(ranks, "module", "tests.suites.rank_on_a_card")
    monkeypatch.setitem(test_overlap.ON_ACCELERATORS, "order", 256)

    small_loads(monkeypatch)
    profiles = ("smoke", "standard", "soak")
    monkeypatch.setitem(test_gemm.SIZES, "accelerator", dict.fromkeys(profiles, 256))
    monkeypatch.setattr(test_transfer, "SIZES", dict.fromkeys(profiles, 8 << 20))
    monkeypatch.setattr(test_peer, "SIZES", dict.fromkeys(profiles, 1 << 20))
    monkeypatch.setattr(test_step, "RESNET", {"width": 8, "stages": 2, "blocks": 1, "picture": 16})
    monkeypatch.setattr(test_step, "PICTURES", 8)
    monkeypatch.setattr(test_step, "PICTURE_BYTES", 1 << 20)
    monkeypatch.setattr(
        test_step,
        "GPT",
        {"layers": 1, "width": 32, "heads": 2, "context": 32, "vocabulary": 64},
    )
    monkeypatch.setattr(test_step, "SEQUENCES", 4)
    monkeypatch.setattr(test_step, "SEQUENCE_BYTES", 1 << 20)
    tokens = Sizes(batch=1, length=16)
    monkeypatch.setitem(BY_NAME["llama-small"].served, "card", tokens)
    with stand_in(memory=MEMORY, rounded=False, cards=RANKS):
        yield


def small_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the burn, and the benchmarks of memory and shapes, two cards at most and sizes for a CPU."""
    import torch

    from suites.burn import test_cards, test_device
    from suites.burn.cards import Cards
    from suites.compute import cold, test_dispatch, test_shapes
    from suites.memory import test_card_memory, test_patterns

    profiles = ("smoke", "standard", "soak")
    begin = Cards.__init__

    def two_cards(cards: Cards, _: int, cores: int) -> None:
        begin(cards, min(2, RANKS), cores, backend="gloo")

    def start(_: str) -> float:
        return 1e3 * float(cold.start({"device": "cpu"})["seconds"])

    told = SimpleNamespace(L2_cache_size=1 << 20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: told)
    monkeypatch.setattr(Cards, "__init__", two_cards)
    monkeypatch.setattr(test_dispatch, "cold_start", start)
    small = {
        "SIZE": 128,
        "WARM_UP": 0.1,
        "LOADS": 3,
        "ALONE": 0.1,
        "STEPPING": 1.0,
        "COPIED": 1 << 20,
    }
    for name, value in small.items():
        monkeypatch.setattr(test_cards, name, dict.fromkeys(profiles, value))
    monkeypatch.setattr(test_cards, "SECOND", 0.1)
    monkeypatch.setattr(test_cards, "short_type", lambda: "int8")
    monkeypatch.setattr(test_shapes, "SIZES", dict.fromkeys(profiles, 128))
    monkeypatch.setattr(test_device, "SIZES", {"accelerator": dict.fromkeys(profiles, 128)})
    monkeypatch.setattr(test_shapes, "SHAPES", dict.fromkeys(test_shapes.SHAPES, (16, 64, 64, 1)))
    monkeypatch.setattr(test_patterns, "PAUSE", dict.fromkeys(profiles, 0.1))
    monkeypatch.setattr(test_patterns, "SHARE", 0.1)
    monkeypatch.setattr(test_card_memory, "WRITTEN", dict.fromkeys(profiles, 8 << 20))
    monkeypatch.setattr(test_card_memory, "READ", 1 << 20)
