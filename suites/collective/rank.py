"""One rank of a group, in a process of its own: started by `suites.collective.group`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.children import Handler, Message, handlers_of
from pytest_anubis.benchmarking.ranks import serve, timed
from pytest_anubis.benchmarking.sizes import fitting, give_back
from suites.collective.operations import Exchange, Perform, perform, wrong_sums
from suites.compute.kernels import Gemm

Reduce = Callable[[torch.Tensor, bool], dist.Work | None]


def all_reduce(tensor: torch.Tensor, in_background: bool) -> dist.Work | None:
    """Sum `tensor` over all ranks, in place; return what to wait for when in the background."""
    return dist.all_reduce(tensor, async_op=in_background)  # type: ignore[no-any-return]


class Rank:
    """A buffer to reduce and a matrix product to compute meanwhile.

    Args:
        reduce: Does the reducing; a slow or faulty one can be put in to see that it is noticed.
        perform: Does the other operations, likewise.
    """

    def __init__(
        self,
        number: int,
        world: int,
        device: torch.device,
        reduce: Reduce = all_reduce,
        perform: Perform = perform,
    ) -> None:
        self._number = number
        self._world = world
        self._device = device
        self._reduce = reduce
        self._perform = perform
        self._exchange: Exchange | None = None
        self._buffer = torch.empty(0)
        self._gemm: Gemm | None = None
        self._products = 0

    def fit(self, request: Message) -> Message:
        """Answer how many of the ``bytes`` that are wanted this rank's device has room for."""
        return {"bytes": fitting(request["bytes"], self._device)}

    def prepare(self, request: Message) -> Message:
        """Make a buffer of so many ``bytes``, and ``products`` of matrices of a ``size`` and ``dtype``."""
        # Small whole numbers: the sum is exact in any order, so every wrong bit is an error.
        self._buffer = torch.zeros(request["bytes"] // 4, device=self._device)
        self._products = request.get("products", 0)
        self._gemm = None
        if self._products:
            self._gemm = Gemm(request["size"], request["dtype"], self._device)
        return {}

    def rest(self, _request: Message) -> Message:
        """Give back all memory."""
        self._buffer = torch.empty(0)
        self._gemm = self._exchange = None
        give_back(self._device)
        return {}

    def reduce(self, request: Message) -> Message:
        """Reduce the buffer ``times`` times; answer the ``seconds`` of one time."""
        self._buffer.zero_()
        reduce = partial(self._reduce, self._buffer, False)
        return {"seconds": timed(reduce, self._device, request["times"])}

    def overlap(self, request: Message) -> Message:
        """Compute, communicate, and do both at once, ``steps`` times each; answer the seconds of a step."""
        steps = request["steps"]
        parts: dict[str, Callable[[], object]] = {
            "compute": self._compute,
            "communicate": partial(self._reduce, self._buffer, False),
            "together": self._both,
        }
        self._buffer.zero_()
        return {name: timed(part, self._device, steps) for name, part in parts.items()}

    def check(self, _request: Message) -> Message:
        """Reduce known numbers; answer how many elements, and rows of an exact product, are ``wrong``.

        When there is a product it is computed while the numbers are reduced: all that it needs is there
        before.
        """
        if self._gemm is not None:
            self._gemm.prepare_exact()
        wrong = wrong_sums(self._buffer, self._number, self._world, self._both)
        wrong_rows = self._gemm.inexact_rows() if self._gemm is not None else 0
        return {"wrong": wrong, "wrong_rows": wrong_rows}

    def prepare_exchange(self, request: Message) -> Message:
        """Make the buffers of an ``operation`` of so many ``bytes``; answer the ``bytes`` that they have."""
        self._buffer = torch.empty(0)
        self._exchange = None  # its memory first
        place = (self._number, self._world, self._device)
        self._exchange = Exchange(request["operation"], request["bytes"], *place, self._perform)
        return {"bytes": self._exchange.bytes}

    def exchange(self, request: Message) -> Message:
        """Do the prepared operation ``times`` times; answer the ``seconds`` of one time."""
        exchange, times = self._prepared(), request["times"]
        return {"seconds": timed(lambda: exchange.run(times), self._device) / times}

    def check_exchange(self, _request: Message) -> Message:
        """Do the prepared operation on known numbers; answer how many elements are ``wrong``."""
        return {"wrong": self._prepared().wrong_elements()}

    def _prepared(self) -> Exchange:
        if self._exchange is None:
            raise RuntimeError("an exchange is wanted before it is prepared")
        return self._exchange

    def _both(self) -> None:
        work = self._reduce(self._buffer, True)
        self._compute()
        if work is not None:
            work.wait()

    def _compute(self) -> None:
        if self._gemm is not None:
            for _ in range(self._products):
                self._gemm.run()


def main(*arguments: str, reduce: Reduce = all_reduce, perform: Perform = perform) -> None:
    """Join the group and answer until the parent closes the socket."""

    def make(
        number: int, world: int, device: torch.device, _own: Sequence[str]
    ) -> Mapping[str, Handler]:
        return handlers_of(Rank(number, world, device, reduce, perform))

    serve(arguments, make)


if __name__ == "__main__":
    main(*sys.argv[1:])
