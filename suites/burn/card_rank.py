"""One accelerator under load, in a process of its own: started by `suites.burn.cards`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import torch

from pytest_anubis.benchmarking.children import Handler, Message
from pytest_anubis.benchmarking.precision import single_precision
from pytest_anubis.benchmarking.ranks import serve
from pytest_anubis.benchmarking.sizes import fitting, give_back
from suites.burn.burner import BATCH, Burner
from suites.burn.sensors import Watch
from suites.burn.traffic import Traffic
from suites.compute.exact import ExactProduct, Multiply, Shape, whole_sums

BYTES_OF_A_PLACE = 32
"""Memory of a product for each element of a square: two factors, two results of 8 bytes at most."""


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
        self._traffic: Traffic | None = None

    def prepare(self, request: Message) -> Message:
        """Make a product of matrices of a ``size`` and ``dtype``; answer the size and a product's seconds."""
        place = fitting(request["size"] ** 2 * BYTES_OF_A_PLACE, self._device) / BYTES_OF_A_PLACE
        size = min(request["size"], int(place**0.5) // 64 * 64)  # whole tiles of the units
        self._traffic = None
        self._product = ExactProduct(
            Shape.square(size), request["dtype"], self._device, product=self._multiply
        )
        self._burner = Burner(self._product, self._synchronize)
        return {"size": size, "seconds": self._burner.seconds}

    def rest(self, _request: Message) -> Message:
        """Give back all memory."""
        self._traffic = self._burner = self._product = None
        give_back(self._device)
        return {}

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
        if self._traffic is None:
            self._traffic = Traffic(request["bytes"], self._number, self._world, self._device)
            self._traffic.fit(max(BATCH, self._loader.seconds), self._synchronize)
        self._traffic.begin()
        done = self._loader.load(
            0.0, begin=request["begin"], batches=request["batches"], beside=self._traffic.queue
        )
        wrong = self._traffic.wrong()
        return {**asdict(done), "moved": self._traffic.rates(), "wrong_moved": wrong}

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
        names = ("prepare", "rest", "load", "steps", "together", "check")
        return {name: getattr(rank, name) for name in names}

    with single_precision(), whole_sums():
        serve(arguments, make)


if __name__ == "__main__":
    main(*sys.argv[1:])
