"""Copies between the host and one card, in a process of its own: started by `suites.link.all_cards`."""

from __future__ import annotations

import sys
import time
from functools import partial

import torch

from pytest_anubis.benchmarking.children import Message, answer, handlers_of
from pytest_anubis.benchmarking.placement import stay_near, synchronize
from pytest_anubis.benchmarking.sizes import fitting
from suites.link.transfer import Copy, Transfer, copy

BUFFERS = 2
"""Buffers of a transfer that lie on the card."""


class Copier:
    """Copies on request.

    Args:
        move: Does the copying; a slow or faulty one can be put in to see that it is noticed.
    """

    def __init__(self, device: torch.device, *, move: Copy = copy) -> None:
        self._device = device
        self._synchronize = partial(synchronize, device)
        self._move = move
        self._transfer: Transfer | None = None

    def prepare(self, request: Message) -> Message:
        """Make buffers of so many ``bytes``, or of what there is room for; answer the ``bytes`` of one."""
        size = fitting(request["bytes"], self._device, times=BUFFERS)
        self._transfer = Transfer(size, self._device, move=self._move)
        self._transfer.both_ways()
        self._synchronize()
        return {"bytes": size}

    def copy(self, request: Message) -> Message:
        """Copy ``times`` times, from ``at`` of the monotonic clock on; answer the ``seconds``."""
        transfer = self._transfer
        assert transfer is not None, "copies are wanted before there are buffers"
        run = {
            "to_device": transfer.to_device,
            "to_host": transfer.to_host,
            "both_ways": transfer.both_ways,
        }[request["way"]]
        time.sleep(max(0.0, request["at"] - time.monotonic()))
        begin = time.perf_counter()
        for _ in range(request["times"]):
            run()
        self._synchronize()
        return {"seconds": time.perf_counter() - begin}

    def check(self, _request: Message) -> Message:
        """Copy both ways at once; answer how many bytes are ``wrong``."""
        assert self._transfer is not None, "a check is wanted before there are buffers"
        return {"wrong": self._transfer.wrong_bytes_of_both(self._synchronize)}


def main(descriptor: str, kind: str, number: str, *, move: Copy = copy) -> None:
    """Answer until the parent closes the socket."""
    device = torch.device(kind, int(number))
    stay_near(
        getattr(torch, kind).get_device_properties(device)
    )  # before it has threads or buffers
    torch.accelerator.set_device_index(device)
    answer(int(descriptor), handlers_of(Copier(device, move=move)))


if __name__ == "__main__":
    main(*sys.argv[1:])
