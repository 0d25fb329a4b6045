"""What the tests of the benchmark kernels share: comparing costs, and one thread for torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

Costs = Callable[..., list[float]]


def interleaved(
    *works: Callable[[], object], rounds: int = 12, most: int = 300, seconds: float = 0.25
) -> list[float]:
    """Return the least seconds of each work, taken in turns: for `seconds`, but `rounds` to `most` times.

    In turns, and the least: a neighbour that comes or goes meets all of them, and slows no minimum
    for long. Only ratios of these numbers mean anything.
    """
    least = [float("inf")] * len(works)
    start = time.perf_counter()
    for done in range(most):
        if done >= rounds and time.perf_counter() - start > seconds:
            break
        for number, work in enumerate(works):
            begin = time.perf_counter()
            work()
            least[number] = min(least[number], time.perf_counter() - begin)
    return least


@pytest.fixture
def costs() -> Costs:
    """Take the least seconds of several works, in turns."""
    return interleaved


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread: its cost then does not hang on who uses the other cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def right_eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this CPU multiply eight bits rightly, whatever instructions it has."""
    from tests.suites import stand_in_card

    stand_in_card.right_eight_bits(monkeypatch)
