"""One flipped bit in what cards copy, reduce, exchange and multiply: stand-ins, and ranks without others."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from benchmarks.suites.faults.flips import Try, flip

SIZE = 64  # rows of the matrices
BYTES = 1 << 20  # of a copy
SHAPE = {"width": 64, "layers": 2, "heads": 4, "kept": 2, "inner": 96, "vocabulary": 256}
"""Of a network whose steps take milliseconds."""

HIGH = (28, 29, 30)  # bits of the exponent, in single precision


def product(dtype: str) -> Try:
    """A bit of a later result of a product of whole numbers, of which the first is right."""

    def attempt(draw: random.Random, faulty: bool) -> bool:
        import torch

        from suites.compute.exact import ExactProduct, Shape, product_of
        from tests.suites.stand_in_card import stand_in

        with stand_in(rounded=False):
            card = torch.device("cuda", 0)
            plain, spoils = product_of(dtype, card), False

            def spoilt(a: Any, b: Any, out: Any) -> None:
                plain(a, b, out)
                if spoils:
                    flip(out, draw)

            exact = ExactProduct(Shape.square(SIZE), dtype, card, product=spoilt)
            exact.keep()
            spoils = faulty
            exact.run_compared()
            return exact.wrong_elements() > 0

    return attempt


def _spoiling(draw: random.Random, faulty: bool) -> Callable[[Any, Any], None]:
    """Return what copies, and turns a bit of what arrives round."""

    def move(target: Any, source: Any) -> None:
        target.copy_(source)
        if faulty:
            flip(target, draw)

    return move


def transfer(draw: random.Random, faulty: bool) -> bool:
    """A bit of what is copied to a card and back."""
    import torch

    from suites.link.transfer import Transfer
    from tests.suites.stand_in_card import stand_in

    with stand_in(rounded=False):
        copies = Transfer(BYTES, torch.device("cuda", 0), move=_spoiling(draw, faulty))
        return copies.wrong_bytes(lambda: None) > 0


def peer(draw: random.Random, faulty: bool) -> bool:
    """A bit of what one card sends to another."""
    import torch

    from suites.link.peer_copy import PeerCopies
    from tests.suites.stand_in_card import stand_in

    with stand_in(rounded=False, cards=2):
        way = torch.device("cuda", 0), torch.device("cuda", 1)
        return bool(PeerCopies([way], BYTES, move=_spoiling(draw, faulty)).wrong_words())


def reduced(draw: random.Random, faulty: bool) -> bool:
    """A bit of a sum that is reduced while products are computed: a rank alone, whose sum is its own."""
    import torch

    from suites.collective.rank import Rank

    def alone(buffer: Any, _in_background: bool) -> None:
        if faulty:
            flip(buffer, draw)

    rank = Rank(0, 1, torch.device("cpu"), reduce=alone)
    rank.prepare({"bytes": BYTES, "products": 1, "size": SIZE, "dtype": "float32"})
    return bool(rank.check({})["wrong"])


def exchanged(draw: random.Random, faulty: bool) -> bool:
    """A high bit of the largest number of an exchanged gradient, which is held to a tolerance."""
    import torch

    from suites.workload import data_parallel_rank as real
    from suites.workload.catalogue import BY_NAME, Sizes
    from suites.workload.test_data_parallel import GRADIENT_TOLERANCE

    def spoil(model: Any) -> None:
        if faulty:
            gradients = [one.grad for one in model.parameters() if one.grad is not None]
            found = max(gradients, key=lambda one: float(one.abs().max()))
            place = int(found.abs().argmax())
            found.view(-1).view(torch.int32)[place] ^= 1 << draw.choice(HIGH)

    small = replace(BY_NAME["llama-small"], shape=SHAPE, cpu=Sizes(batch=2, length=32))
    with _alone(), mock.patch.dict(BY_NAME, {"llama-small": small}):
        rank = real.TrainingRank(0, 1, torch.device("cpu"), spoil)
        return not rank.gradient({"workload": "llama-small"})["off"] < GRADIENT_TOLERANCE


def function(made: Callable[[], Any]) -> Try:
    """A high bit of the largest number of what a function of a model makes, which is held to a tolerance."""

    def attempt(draw: random.Random, faulty: bool) -> bool:
        import torch

        from suites.compute.functions import FunctionCall

        plain = made()

        def spoilt(*inputs: Any) -> Any:
            found = plain.apply(*inputs)
            if faulty:
                place = int(found.abs().argmax())
                found.view(-1).view(torch.int32)[place] ^= 1 << draw.choice(HIGH)
            return found

        call = FunctionCall(plain, "float32", torch.device("cpu"), apply=spoilt)
        call.run()
        return call.wrong_elements() > 0

    return attempt


def _convolution() -> Any:
    from suites.compute.functions import convolution

    return convolution(4, 6, 3, 10, batch=6)


def _gradient() -> Any:
    from suites.compute.functions import convolution_gradient

    return convolution_gradient("weights", 4, 6, 3, 10, batch=6)


@contextmanager
def _alone() -> Iterator[None]:
    """Be the only rank of a group."""
    import torch.distributed as dist

    # A store of its own: gloo would look up the host's name, which many containers cannot.
    with mock.patch.dict("os.environ", {"GLOO_SOCKET_IFNAME": "lo"}):
        dist.init_process_group(
            "gloo",
            store=dist.HashStore(),  # type: ignore[attr-defined]
            rank=0,
            world_size=1,
        )
    try:
        yield
    finally:
        dist.destroy_process_group()


BUFFERS: dict[str, tuple[str, Try]] = {
    **{
        f"bit in a card's {kind} product": ("burn, exact products", product(kind))
        for kind in ("float16", "int8", "float8_e4m3fn")
    },
    "bit in a copy to a card": ("transfers", transfer),
    "bit in a copy between cards": ("peer copies", peer),
    "bit in a sum beside products": ("overlap", reduced),
    "bit in an exchanged gradient": ("data-parallel training", exchanged),
    "bit in a convolution": ("functions of models", function(_convolution)),
    "bit in a gradient of filters": ("functions of models", function(_gradient)),
}
"""Kind of buffer -> the benchmark whose check has to see it, and how it is tried."""
