"""Copies between the host's memory and a device's."""

from __future__ import annotations

from collections.abc import Callable

import torch

PERIOD = 8_388_593
"""Bytes after which the pattern repeats, about 8 MiB: a prime, so that no page or block repeats with it. To
draw a gigabyte at random takes longer than to measure."""

Copy = Callable[[torch.Tensor, torch.Tensor], object]


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Queue a copy without waiting for it."""
    target.copy_(source, non_blocking=True)


class Transfer:
    """Copies of one buffer to a device and back, through page-locked host memory.

    Args:
        size: Bytes to copy.
        device: The device; a CPU stands in for one in tests.
        move: Does the copying; another one can be put in to see that a fault is noticed.
    """

    def __init__(self, size: int, device: torch.device, *, move: Copy = copy) -> None:
        self.size = size
        self._move = move
        locked = device.type != "cpu"
        random = torch.Generator().manual_seed(20240224)
        pattern = torch.randint(0, 256, (min(PERIOD, size),), dtype=torch.uint8, generator=random)
        self._host = torch.empty(size, dtype=torch.uint8, pin_memory=locked)
        for part in torch.split(self._host, PERIOD):
            part.copy_(pattern[: len(part)])
        self._device = torch.empty(size, dtype=torch.uint8, device=device)
        self._back = torch.empty(size, dtype=torch.uint8, pin_memory=locked)

    def to_device(self) -> None:
        """Queue the copy from the host to the device."""
        self._move(self._device, self._host)

    def to_host(self) -> None:
        """Queue the copy from the device to the host."""
        self._move(self._back, self._device)

    def wrong_bytes(self, synchronize: Callable[[], None]) -> int:
        """Return how many bytes differ after one copy there and back."""
        self.to_device()
        synchronize()
        self.to_host()
        synchronize()
        if torch.equal(self._back, self._host):  # several times quicker than to count
            return 0
        return int(torch.count_nonzero(self._back != self._host))
