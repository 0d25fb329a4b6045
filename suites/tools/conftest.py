"""What the adapters share: the cards of the node."""

from __future__ import annotations

import pytest


@pytest.fixture
def cards() -> int:
    """How many accelerators of NVIDIA or AMD this node has; without one the test does not apply."""
    import torch

    count = torch.cuda.device_count()
    if not count:
        pytest.skip("not applicable: no accelerator")
    return count


@pytest.fixture
def nvidia_cards(cards: int) -> int:
    """How many accelerators of NVIDIA this node has; without one the test does not apply."""
    import torch

    if torch.version.hip is not None:
        pytest.skip("not applicable: no accelerator of NVIDIA")
    return cards
