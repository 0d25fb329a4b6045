"""Streaming kernels: copy, scale, add and triad over arrays far larger than every cache.

The operations and the way of counting bytes are those of McCalpin's STREAM (1995): every array that is
read or written counts once, a write does not count as the read that a cache may do before it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

Operation = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

SCALAR = 3.0
OPERATIONS: dict[str, tuple[int, Operation]] = {
    "copy": (2, lambda x, y, out: out.copy_(x)),
    "scale": (2, lambda x, y, out: torch.mul(x, SCALAR, out=out)),
    "add": (3, lambda x, y, out: torch.add(x, y, out=out)),
    "triad": (3, lambda x, y, out: torch.add(x, y, alpha=SCALAR, out=out)),
}
"""Name -> (arrays that move, the operation)."""

_CHUNK = 1 << 20


class Stream:
    """One streaming operation over fixed arrays of numbers that double precision holds exactly.

    Args:
        operation: A key of `OPERATIONS`.
        elements: Length of each array.
        device: Where the arrays lie.
        dtype: Torch's name of the element type.
        apply: Does the work instead; one that makes a fault shows that it is noticed.
    """

    def __init__(
        self,
        operation: str,
        elements: int,
        device: torch.device,
        *,
        dtype: str = "float64",
        apply: Operation | None = None,
    ) -> None:
        self._arrays, self._expected = OPERATIONS[operation]
        self._apply = apply or self._expected
        kind = getattr(torch, dtype)
        # Periods without a common factor: a value read from the wrong place is a wrong value.
        self._x = _repeating(elements, 1021, kind, device)
        self._y = _repeating(elements, 509, kind, device)
        self._out = torch.full((elements,), -1.0, dtype=kind, device=device)

    @property
    def bytes(self) -> float:
        """Bytes that one pass moves, counted as STREAM does."""
        return float(self._arrays * self._out.numel() * self._out.element_size())

    def run(self) -> None:
        """Make one pass over the arrays."""
        self._apply(self._x, self._y, self._out)

    def wrong_elements(self) -> int:
        """Return how many elements of the last pass's result are not exactly right.

        All values are small whole numbers, so every operation is exact. Works piece by piece on the
        host, so a faulty device does not check itself.
        """
        wrong = 0
        for x, y, out in zip(*map(_pieces, (self._x, self._y, self._out)), strict=True):
            expected = torch.empty_like(x)
            self._expected(x, y, expected)
            wrong += int(torch.count_nonzero(out != expected))
        return wrong


def elements_for(last_level_bytes: int, memory_bytes: int, element_bytes: int = 8) -> int:
    """Return an array length of four times the last-level cache, STREAM's rule.

    At least 64 MiB, so that a pass is long enough to time, and at most a sixteenth of the memory.
    """
    wanted = max(4 * last_level_bytes, 64 << 20)
    return min(wanted, memory_bytes // 16) // element_bytes


def _repeating(length: int, period: int, kind: torch.dtype, device: torch.device) -> torch.Tensor:
    ramp = torch.arange(period, dtype=kind)
    return ramp.repeat(-(-length // period))[:length].to(device=device, copy=True)


def _pieces(array: torch.Tensor) -> list[torch.Tensor]:
    return [array[i : i + _CHUNK].cpu() for i in range(0, array.numel(), _CHUNK)]
