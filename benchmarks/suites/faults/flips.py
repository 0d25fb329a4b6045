"""A flipped bit, and how one is tried."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Try = Callable[[random.Random, bool], bool]
"""Takes what draws the place, and whether there is a fault; returns whether the check complained."""


def flip(tensor: Any, draw: random.Random) -> None:
    """Flip one bit of a contiguous tensor."""
    import torch

    seen = tensor.view(-1).view(torch.uint8)
    place, bit = draw.randrange(len(seen)), draw.randrange(8)
    seen[place] ^= 1 << bit
