"""One rank of a group, in a process of its own: started by `suites.collective.group`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist

from suites.children import Message, answer
from suites.compute.kernels import Gemm

TIMEOUT = timedelta(seconds=60)
"""After which a rank gives up on the others."""

Reduce = Callable[[torch.Tensor, bool], dist.Work | None]


def all_reduce(tensor: torch.Tensor, in_background: bool) -> dist.Work | None:
    """Sum `tensor` over all ranks, in place; return what to wait for when in the background."""
    return dist.all_reduce(tensor, async_op=in_background)  # type: ignore[no-any-return]


class Rank:
    """A buffer to reduce and a matrix product to compute meanwhile.

    Args:
        number: This rank.
        world: How many ranks there are.
        device: Where buffer and matrices lie.
        reduce: Does the reducing; a slow or faulty one can be put in to see that it is noticed.
    """

    def __init__(
        self, number: int, world: int, device: torch.device, reduce: Reduce = all_reduce
    ) -> None:
        self._number = number
        self._world = world
        self._device = device
        self._reduce = reduce
        self._buffer = torch.empty(0)
        self._ramp = torch.empty(0)
        self._gemm: Gemm | None = None
        self._products = 0

    def prepare(self, request: Message) -> Message:
        """Make a buffer of so many ``bytes``, and ``products`` of matrices of a ``size`` and ``dtype``."""
        elements = request["bytes"] // 4
        # Small whole numbers: the sum is exact in any order, so every wrong bit is an error.
        ramp = torch.arange(1021, dtype=torch.float32).repeat(-(-elements // 1021))
        self._ramp = ramp[:elements].to(self._device)
        self._buffer = torch.empty_like(self._ramp)
        self._products = request.get("products", 0)
        if self._products:
            self._gemm = Gemm(request["size"], request["dtype"], self._device)
        return {}

    def reduce(self, request: Message) -> Message:
        """Reduce the buffer ``times`` times; answer the ``seconds`` of one time."""
        times = request["times"]
        self._buffer.zero_()
        seconds = self._timed(lambda: [self._reduce(self._buffer, False) for _ in range(times)])
        return {"seconds": seconds / times}

    def overlap(self, request: Message) -> Message:
        """Compute, communicate, and do both at once, ``steps`` times each; answer the seconds of a step."""
        steps = request["steps"]
        parts: dict[str, Callable[[], object]] = {
            "compute": self._compute,
            "communicate": lambda: self._reduce(self._buffer, False),
            "together": self._both,
        }
        self._buffer.zero_()
        return {name: self._timed(_repeated(part, steps)) / steps for name, part in parts.items()}

    def check(self, _request: Message) -> Message:
        """Reduce known numbers; answer how many elements, and rows of an exact product, are ``wrong``.

        When there is a product it is computed while the numbers are reduced.
        """
        self._buffer.copy_(self._ramp).mul_(self._number + 1)
        self._synchronize()
        work = self._reduce(self._buffer, True)
        wrong_rows = self._gemm.wrong_rows() if self._gemm else 0
        if work is not None:
            work.wait()
        self._synchronize()
        factor = self._world * (self._world + 1) // 2  # 1 + 2 + ... + world
        wrong = int(torch.count_nonzero(self._buffer.cpu() != self._ramp.cpu() * factor))
        return {"wrong": wrong, "wrong_rows": wrong_rows}

    def _both(self) -> None:
        work = self._reduce(self._buffer, True)
        self._compute()
        if work is not None:
            work.wait()

    def _compute(self) -> None:
        if self._gemm is not None:
            for _ in range(self._products):
                self._gemm.run()

    def _timed(self, work: Callable[[], object]) -> float:
        """Return the seconds of `work`, begun on all ranks together."""
        self._synchronize()
        dist.barrier()
        self._synchronize()
        begin = time.perf_counter()
        work()
        self._synchronize()
        return time.perf_counter() - begin

    def _synchronize(self) -> None:
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)


def _repeated(part: Callable[[], object], times: int) -> Callable[[], None]:
    def work() -> None:
        for _ in range(times):
            part()

    return work


def main(
    descriptor: str,
    number: str,
    world: str,
    backend: str,
    store: str,
    threads: str,
    *,
    reduce: Reduce = all_reduce,
) -> None:
    """Join the group and answer until the parent closes the socket."""
    torch.set_num_threads(int(threads))
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(number))
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend,
        init_method=f"file://{store}",
        rank=int(number),
        world_size=int(world),
        timeout=TIMEOUT,
        device_id=device if backend == "nccl" else None,
    )
    try:
        rank = Rank(int(number), int(world), device, reduce)
        calls = ("prepare", "reduce", "overlap", "check")
        answer(int(descriptor), {name: getattr(rank, name) for name in calls})
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
