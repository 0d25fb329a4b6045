"""Copies between the host's memory and a device's: one way, both ways at once, and from pageable memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

PERIOD = 8_388_593
"""Bytes after which the pattern repeats, about 8 MiB: a prime, so that no page or block repeats with it. To
draw a gigabyte at random takes longer than to measure."""

Copy = Callable[[torch.Tensor, torch.Tensor], object]


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Queue a copy without waiting for it."""
    target.copy_(source, non_blocking=True)


class Transfer:
    """Copies of one buffer to a device and back.

    Args:
        size: Bytes to copy.
        device: The device; tests use a CPU.
        move: Does the copying; another one can be put in to see that a fault is noticed.
        locked: Through page-locked host memory, which the device reads by itself; from pageable memory the
            driver copies piece by piece through a buffer of its own.
    """

    def __init__(
        self, size: int, device: torch.device, *, move: Copy = copy, locked: bool = True
    ) -> None:
        self.size = size
        self._move = move
        self._place = device
        locked = locked and device.type != "cpu"
        random = torch.Generator().manual_seed(20240224)
        pattern = torch.randint(0, 256, (min(PERIOD, size),), dtype=torch.uint8, generator=random)
        self._host = torch.empty(size, dtype=torch.uint8, pin_memory=locked)
        for part in torch.split(self._host, PERIOD):
            part.copy_(pattern[: len(part)])
        self._device = torch.empty(size, dtype=torch.uint8, device=device)
        self._back = torch.empty(size, dtype=torch.uint8, pin_memory=locked)
        self._back.zero_()  # the kernel gives memory when it is written to, which is not to be measured
        self._inbound: torch.Tensor | None = None
        self._streams: list[Any] = []

    def to_device(self) -> None:
        """Queue the copy from the host to the device."""
        self._move(self._device, self._host)

    def to_host(self) -> None:
        """Queue the copy from the device to the host."""
        self._move(self._back, self._device)

    def both_ways(self) -> None:
        """Queue a copy to the device and one to the host that go on at the same time, on queues of their own.

        The one to the device has a place of its own there: what is sent back does not change meanwhile.
        """
        module = getattr(torch, self._place.type)
        if self._inbound is None:
            self._inbound = torch.empty_like(self._device)
            self._streams = [module.Stream(self._place) for _ in range(2)]
        here = module.current_stream(self._place)
        for stream, ends in zip(
            self._streams, ((self._inbound, self._host), (self._back, self._device)), strict=True
        ):
            stream.wait_stream(here)
            with module.stream(stream):
                self._move(*ends)
        for stream in self._streams:
            here.wait_stream(stream)

    def wrong_bytes(self, synchronize: Callable[[], None]) -> int:
        """Return how many bytes differ after one copy there and back."""
        self.to_device()
        synchronize()
        self.to_host()
        synchronize()
        return self._differing()

    def wrong_bytes_of_both(self, synchronize: Callable[[], None]) -> int:
        """Return how many bytes differ of those that went there and of those that came back at once."""
        self.to_device()
        synchronize()
        self._back.zero_()
        self.both_ways()
        synchronize()
        wrong = self._differing()
        if self._inbound is not None:
            self._move(self._back, self._inbound)
            synchronize()
            wrong += self._differing()
        return wrong

    def _differing(self) -> int:
        if torch.equal(self._back, self._host):  # several times quicker than to count
            return 0
        return int(torch.count_nonzero(self._back != self._host))
