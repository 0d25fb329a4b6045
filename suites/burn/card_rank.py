"""One accelerator under load, in a process of its own: started by `suites.burn.cards`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.children import Handler, Message
from pytest_anubis.benchmarking.precision import single_precision
from pytest_anubis.benchmarking.ranks import serve
from pytest_anubis.benchmarking.sizes import fitting
from pytest_anubis.benchmarking.verification import Pattern, fill, wrong_elements
from suites.burn.burner import Burner
from suites.burn.sensors import Watch
from suites.compute.exact import ExactProduct, Multiply, Shape, whole_sums

BYTES_OF_A_PLACE = 32
"""Memory of a product for each element of a square: two factors, two results of 8 bytes at most."""

EXACT = 1 << 24
"""Whole numbers up to this are exact in single precision."""


class CardRank:
    """Product, copies and an all-reduce of one card.

    Args:
        number: This rank.
        world: How many there are.
        device: The card.
        product: Does the multiplying instead; a faulty one shows that it is noticed.
    """

    def __init__(
        self, number: int, world: int, device: torch.device, product: Multiply | None = None
    ) -> None:
        self._number, self._world, self._device = number, world, device
        self._multiply = product
        self._product: ExactProduct | None = None
        self._burner: Burner | None = None
        self._copies: Copies | None = None

    def prepare(self, request: Message) -> Message:
        """Make a product of matrices of a ``size`` and ``dtype``; answer the size and a product's seconds."""
        place = fitting(request["size"] ** 2 * BYTES_OF_A_PLACE, self._device) / BYTES_OF_A_PLACE
        size = min(request["size"], int(place**0.5) // 64 * 64)  # whole tiles of the units
        self._copies = None
        self._product = ExactProduct(
            Shape.square(size), request["dtype"], self._device, product=self._multiply
        )
        self._burner = Burner(self._product, self._synchronize)
        return {"size": size, "seconds": self._burner.seconds}

    def load(self, request: Message) -> Message:
        """Load the card for ``seconds`` from ``begin`` on; answer what it did and what its sensors told."""
        watch = Watch(self._device)
        done = self._loader.load(request["seconds"], begin=request["begin"], beside=watch.look)
        return {**asdict(done), "told": watch.told()}

    def steps(self, request: Message) -> Message:
        """Load the card at ``hertz`` for ``periods`` from ``begin`` on; answer what each part did."""
        hertz, periods, each = (request[name] for name in ("hertz", "periods", "each"))
        done = self._loader.steps(hertz, periods, each, begin=request["begin"])
        return {"parts": [asdict(part) for part in done]}

    def together(self, request: Message) -> Message:
        """Load units, copy engines and links at once; answer what was done, and what was ``wrong``."""
        if self._copies is None:
            self._copies = Copies(request["bytes"], self._number, self._world, self._device)
        self._copies.begin()
        done = self._loader.load(
            0.0, begin=request["begin"], batches=request["batches"], beside=self._copies.queue
        )
        return {**asdict(done), "moved": self._copies.rounds, "wrong_moved": self._copies.wrong()}

    def check(self, _request: Message) -> Message:
        """Answer what is wrong with the first result, and whether the card notices a flipped bit."""
        product = self._product
        assert product is not None, "nothing prepared"
        return {
            "unlike_double": product.unlike_double(),
            "fingerprint": product.fingerprint(),
            "rows": product.wrong_rows(),
            "notices": product.notices(),
        }

    @property
    def _loader(self) -> Burner:
        assert self._burner is not None, "nothing prepared"
        return self._burner

    def _synchronize(self) -> None:
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)


class Copies:
    """A buffer that goes to the card and back while it computes, and one that all cards reduce.

    Args:
        size: Bytes of each; a multiple of 8.
        number: This rank.
        world: How many there are.
        device: The card.

    Attributes:
        rounds: How often each buffer went its way since `begin`.
    """

    def __init__(self, size: int, number: int, world: int, device: torch.device) -> None:
        locked = device.type != "cpu"
        self._pattern = Pattern("random", seed=number << 40)
        self._host, self._back = (
            torch.empty(size // 8, dtype=torch.int64, pin_memory=locked) for _ in range(2)
        )
        fill(self._host, self._pattern)
        self._there = torch.empty(size // 8, dtype=torch.int64, device=device)
        words = Pattern("random").words(0, size // 4, device)
        self._known = torch.remainder(words, EXACT // world).float()
        self._sum, self._total = torch.empty_like(self._known), self._known * world
        self._stream: Any = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._wrong_sums = torch.zeros((), dtype=torch.int64, device=device)
        self.rounds = 0

    def begin(self) -> None:
        """Forget what was counted."""
        self.rounds = 0
        self._wrong_sums.zero_()
        for buffer in (self._there, self._back):
            buffer.zero_()

    def queue(self) -> None:
        """Queue one copy each way and one all-reduce beside what the card computes; count wrong sums."""
        with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
            self._there.copy_(self._host, non_blocking=True)
            self._back.copy_(self._there, non_blocking=True)
            self._sum.copy_(self._known)
            dist.all_reduce(self._sum)
            self._wrong_sums += (self._sum != self._total).sum()
        self.rounds += 1

    def wrong(self) -> int:
        """Return how many words of the last copy, and sums of all all-reduces, are not right."""
        return wrong_elements(self._back, self._pattern) + int(self._wrong_sums)


def main(*arguments: str, product: Callable[[int], Multiply | None] = lambda _: None) -> None:
    """Answer until the parent closes the socket.

    Args:
        *arguments: The command line.
        product: Returns what does the work of a rank; another one makes a fault, to see that it is noticed.
    """

    def make(
        number: int, world: int, device: torch.device, _own: Sequence[str]
    ) -> Mapping[str, Handler]:
        rank = CardRank(number, world, device, product(number))
        names = ("prepare", "load", "steps", "together", "check")
        return {name: getattr(rank, name) for name in names}

    with single_precision(), whole_sums():
        serve(arguments, make)


if __name__ == "__main__":
    main(*sys.argv[1:])
