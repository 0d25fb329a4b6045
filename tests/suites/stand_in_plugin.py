"""A plugin for whole runs on a stand-in: ``-p tests.suites.stand_in_plugin``; sizes are those of a CPU.

PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

MEMORY = 256 << 20
"""Bytes that the card has: STREAM then takes what a CPU can do."""

RANKS = 8
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
