"""A training step whose gradients are exchanged bucket by bucket, in chunks, behind its products.

Idea from Intel MLSL: what the next forward pass needs first overtakes what was ready first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.children import Message
from pytest_anubis.benchmarking.precision import single_precision
from pytest_anubis.benchmarking.ranks import timed
from suites.collective.operations import wrong_sums
from suites.compute.kernels import Gemm
from suites.traffic.exchange_order import cut
from suites.traffic.seat import Seat


class LayeredTraffic:
    """One rank's gradients and the products that make and need them.

    Args:
        seat: The rank.
    """

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._chunks: list[Sequence[torch.Tensor]] = []
        self._products: list[int] = []
        self._gemm: Gemm | None = None
        self.rest({})

    def prepare_layers(self, request: Message) -> Message:
        """Make gradients, ``numbers`` of each bucket in chunks, and a product's matrices.

        Buckets have ``products`` of the forward pass, in its order; the backward pass makes twice as many.
        """
        device = self._seat.device
        self._gradients = torch.zeros(sum(request["numbers"]), device=device)
        buckets = torch.split(self._gradients, request["numbers"])
        self._chunks = [torch.split(one, cut(len(one), request["chunk"])) for one in buckets]
        self._products = request["products"]
        self._gemm = Gemm(request["size"], request["dtype"], device)
        return {}

    def time_layers(self, request: Message) -> Message:
        """Answer the seconds of some ``forms`` of a step, the mean of so many ``times``.

        They are ``products`` without exchange, ``exchange`` without products, and ``step`` in an ``order``,
        the bucket of every chunk.
        """
        self._gradients.zero_()
        forms: dict[str, Callable[[], object]] = {
            "products": self._compute,
            "exchange": self._exchange,
            "step": partial(self._step, request["order"]),
        }
        with single_precision():
            return {
                form: timed(forms[form], self._seat.device, request["times"])
                for form in request["forms"]
            }

    def check_layers(self, request: Message) -> Message:
        """Step in one ``order`` on known numbers; answer how many sums or product rows are ``wrong``."""
        assert self._gemm is not None
        self._gemm.prepare_exact()
        step = partial(self._step, request["order"])
        wrong = wrong_sums(self._gradients, self._seat.number, self._seat.world, step)
        return {"wrong": wrong + self._gemm.inexact_rows()}

    def rest(self, _request: Message) -> Message:
        """Give up gradients and matrices."""
        self._gradients = torch.empty(0)
        self._chunks, self._products, self._gemm = [], [], None
        return {}

    def _compute(self) -> None:
        """Do the products of a step, without any exchange."""
        for count in (*(2 * count for count in reversed(self._products)), *self._products):
            self._multiply(count)

    def _exchange(self) -> None:
        """Exchange all chunks, without any product."""
        works = [_reduced(chunk) for bucket in reversed(self._chunks) for chunk in bucket]
        for work in works:
            work.wait()
        self._seat.spoil(self._gradients)

    def _step(self, order: Sequence[int]) -> None:
        """Make a step: the backward pass, then the next forward pass, whose layers wait for their gradients.

        A chunk begins to be exchanged when its bucket is ready and those before it in the order have begun.
        """
        queue = deque(order)
        left = [iter(bucket) for bucket in self._chunks]
        works: list[list[dist.Work]] = [[] for _ in self._chunks]
        for bucket in reversed(range(len(self._chunks))):
            self._multiply(2 * self._products[bucket])
            while queue and queue[0] >= bucket:  # ready
                first = queue.popleft()
                works[first].append(_reduced(next(left[first])))
        for begun, count in zip(works, self._products, strict=True):
            for work in begun:
                work.wait()
            self._multiply(count)
        self._seat.spoil(self._gradients)

    def _multiply(self, count: int) -> None:
        assert self._gemm is not None
        for _ in range(count):
            self._gemm.run()


def _reduced(chunk: torch.Tensor) -> dist.Work:
    """Begin to sum a chunk over all ranks, in place."""
    work: dist.Work | None = dist.all_reduce(chunk, async_op=True)
    assert work is not None
    return work
