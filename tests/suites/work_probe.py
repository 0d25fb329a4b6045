"""The probe of a benchmark that twice the work takes about twice as long."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def doubles(seconds: Callable[[int], float]) -> None:
    """Assert that twice the work takes about twice as long, in one of some trials."""
    for _ in range(5):  # others may take the core meanwhile
        ratio = seconds(2) / seconds(1)
        if 1.4 < ratio < 2.6:
            return
    pytest.fail(f"twice the work took {ratio:.2f} times as long")
