"""Probes of a benchmark: twice the work takes about twice as long, and what memory it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode


def doubles(seconds: Callable[[int], float]) -> None:
    """Assert that twice the work takes about twice as long, in one of some trials."""
    for _ in range(5):  # others may take the core meanwhile
        ratio = seconds(2) / seconds(1)
        if 1.4 < ratio < 2.6:
            return
    pytest.fail(f"twice the work took {ratio:.2f} times as long")


class Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the bytes behind the result of each operation of torch."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.sizes.append(made.untyped_storage().nbytes())
        return made
