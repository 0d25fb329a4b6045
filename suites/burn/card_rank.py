"""One accelerator under load, in a process of its own: started by `suites.burn.cards`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import torch

from pytest_anubis.benchmarking.children import Handler, Message, handlers_of
from pytest_anubis.benchmarking.placement import synchronize
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
        product: Does the multiplying instead; a faulty one shows that it is noticed.
    """

    def __init__(
        self, number: int, world: int, device: torch.device, product: Multiply | None = None
    ) -> None:
        self._number, self._world, self._device = number, world, device
        self._synchronize = partial(synchronize, device)
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
        """Load the card from ``begin`` on for ``count`` parts of ``seconds``, without a rest between them.

        Answers what each of the ``parts`` did, and its sensor readings.
        """
        watch, parts = Watch(self._device), []
        seconds, count, begin = (request[name] for name in ("seconds", "count", "begin"))
        for done in self._loader.parts(seconds, count, begin=begin, each_batch=watch.look):
            parts.append({**asdict(done), "sensors": watch.readings()})
            watch.begin()
        return {"parts": parts}

    def steps(self, request: Message) -> Message:
        """Load the card at ``hertz`` for ``periods`` from ``begin`` on; answer what each part did."""
        hertz, periods, each = (request[name] for name in ("hertz", "periods", "each"))
        done = self._loader.steps(hertz, periods, each, begin=request["begin"])
        return {"parts": [asdict(part) for part in done]}

    def together(self, request: Message) -> Message:
        """Load units, copy engines and links at once, in ``count`` parts of ``batches`` without a rest.

        Answers what each of the ``parts`` did, what was moved in it, and what was wrong.
        """
        if self._traffic is None:
            self._traffic = Traffic(request["bytes"], self._number, self._world, self._device)
            self._traffic.fit(max(BATCH, self._loader.seconds), self._synchronize)
        traffic, parts = self._traffic, []
        traffic.begin()
        batches, count, begin = (request[name] for name in ("batches", "count", "begin"))
        for done in self._loader.parts(
            0.0, count, begin=begin, batches=batches, each_batch=traffic.queue
        ):
            parts.append({**asdict(done), "moved": traffic.rates(), "wrong_moved": traffic.wrong()})
            traffic.begin()
        parts[-1]["wrong_moved"] += traffic.wrong_at_last()
        return {"parts": parts}

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


def main(*arguments: str, product: Callable[[int], Multiply | None] = lambda _: None) -> None:
    """Answer until the parent closes the socket.

    Args:
        *arguments: The command line.
        product: Returns what does the work of a rank; another one makes a fault, to see that it is noticed.
    """

    def make(
        number: int, world: int, device: torch.device, _own: Sequence[str]
    ) -> Mapping[str, Handler]:
        return handlers_of(CardRank(number, world, device, product(number)))

    with single_precision(), whole_sums():
        serve(arguments, make)


if __name__ == "__main__":
    main(*sys.argv[1:])
