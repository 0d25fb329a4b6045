"""What the training steps need before they begin."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def optimizers() -> None:
    """Let torch load what its optimisers need at their first use: as torch itself, once and before a test.

    These are some hundred files of Python (``torch._dynamo``), two seconds in which a card would rest.
    """
    import torch

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
