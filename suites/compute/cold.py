"""A process that meets its device for the first time: started by `suites.compute.test_dispatch`."""

from __future__ import annotations

import sys
import time

import torch

from pytest_anubis.benchmarking.children import Message, answer

SIZE = 64
"""Of a product of ones: each element of the result is this number."""


def start(request: Message) -> Message:
    """Answer the ``seconds`` to the first result on a ``device``, and how many elements are ``wrong``."""
    device = torch.device(request["device"])
    begin = time.perf_counter()
    ones = torch.ones(SIZE, SIZE, device=device)
    product = (ones @ ones).cpu()  # waits
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "wrong": int((product != SIZE).sum())}


def ready(_request: Message) -> Message:
    """Answer when torch is loaded: that is the disk's and the host's time."""
    return {}


if __name__ == "__main__":
    answer(int(sys.argv[1]), {"ready": ready, "start": start})
