"""A plugin for whole runs on a stand-in: ``-p tests.suites.stand_in_plugin``; sizes are those of a CPU.

PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

MEMORY = 256 << 20
"""Bytes that the card has: STREAM and the collectives then take what a CPU can do."""


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give every test the stand-in, and shapes that a CPU computes in milliseconds."""
    from suites.compute import test_gemm
    from suites.memory import test_transfer
    from suites.training import test_step
    from tests.suites.stand_in_card import stand_in

    profiles = ("smoke", "standard", "soak")
    monkeypatch.setitem(test_gemm.SIZES, "accelerator", dict.fromkeys(profiles, 256))
    monkeypatch.setattr(test_transfer, "SIZES", dict.fromkeys(profiles, 8 << 20))
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
    with stand_in(memory=MEMORY, rounded=False):
        yield
