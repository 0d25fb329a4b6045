"""A mixture of experts that are spread over the ranks: its rows go to their experts and back, part by part.

The ways are those of Tutel (Hwang et al. 2022, arXiv 2206.03382): an all-to-all in one step, or in two,
within groups of ranks and then across; one part's rows are on their way while experts work on another's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from pytest_anubis.benchmarking.children import Message
from pytest_anubis.benchmarking.precision import single_precision
from pytest_anubis.benchmarking.ranks import timed
from pytest_anubis.benchmarking.verification import count_errors, flip_bit, wrong_elements
from suites.traffic.group import PARTS, SMALL
from suites.traffic.seat import Seat
from suites.workload.models.experts import Experts
from suites.workload.running import SEED

EACH = 2
"""Experts of a rank."""

CHOSEN = 2
"""Experts that a token takes."""

PERIOD = 251
"""After so many numbers the known ones repeat: a prime, and bfloat16 has all whole numbers up to it."""

STRIDE = 7
"""By how much the known numbers of two neighbouring rows differ: a row in another's place shows."""


class Passage:
    """Rows (ranks, ...) on their way, each to the rank of its number; those that arrive are by sender.

    In two steps they first go to that rank of their own group that has their receiver's place, then across
    the groups, in fewer and longer messages. In no step they stay, as if they had arrived.

    Args:
        seat: The rank.
        rows: What is sent; contiguous.
        steps: 0, 1 or 2.
    """

    def __init__(self, seat: Seat, rows: torch.Tensor, steps: int) -> None:
        self._seat, self._shape = seat, rows.shape
        self._crosses = steps == 2
        self._work: dist.Work | None = None
        self._rows = rows
        if steps == 1:
            self._begin(rows, None)
        elif self._crosses:
            by_group = rows.view(seat.groups, seat.peers, -1)
            self._begin(by_group.transpose(0, 1).contiguous(), seat.within)

    def advance(self) -> None:
        """Begin the second step, where there is one, as soon as the first is over."""
        if self._crosses:
            self._crosses = False
            by_peer = self._arrived().view(self._seat.peers, self._seat.groups, -1)
            self._begin(by_peer.transpose(0, 1).contiguous(), self._seat.across)

    def finish(self) -> torch.Tensor:
        """Return what has arrived, in the shape of what was sent."""
        self.advance()
        arrived = self._arrived().view(self._shape)
        self._seat.spoil(arrived)
        return arrived

    def _begin(self, rows: torch.Tensor, among: dist.ProcessGroup | None) -> None:
        self._leaving = rows  # kept until it has left
        self._rows = torch.empty_like(rows)
        self._work = dist.all_to_all_single(self._rows, rows, group=among, async_op=True)

    def _arrived(self) -> torch.Tensor:
        if self._work is not None:
            self._work.wait()
        return self._rows


class SpreadExperts(Experts):
    """The router, and those experts that are this rank's.

    Args:
        width: Length of a token's vector.
        inner: Numbers inside of an expert.
        seat: The rank.

    Attributes:
        steps: In how many steps rows travel (`Passage`).
        parts: In how many parts, a divisor of the largest of `PARTS`.
    """

    def __init__(self, width: int, inner: int, seat: Seat) -> None:
        super().__init__(width, inner, EACH * seat.world, CHOSEN)
        self._seat = seat
        self.steps, self.parts = 1, 1
        self.own = range(EACH * seat.number, EACH * (seat.number + 1))
        for name in ("gate", "up", "down"):
            weights = getattr(self, name).detach()
            setattr(self, name, nn.Parameter(weights[self.own.start : self.own.stop].clone()))

    def compute(self, rows: torch.Tensor) -> torch.Tensor:
        """Map the rows of all experts, (experts, rows, width), where these are; return them likewise."""
        return self.carry(rows, self._work_on)

    def carry(
        self, rows: torch.Tensor, work: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """Send rows (experts, rows, width) to their experts and back, part by part, with work in between.

        Args:
            rows: As many for each expert as the largest of `PARTS` divides.
            work: Maps what has arrived, (ranks, experts of this rank, rows of a part, width), to its shape.
        """
        begin = partial(Passage, self._seat, steps=self.steps)
        count, _, width = rows.shape
        pieces = rows.view(count, self.parts, -1, width).unbind(1)
        by_rank = (self._seat.world, EACH, -1, width)
        there = [begin(rows=piece.contiguous().view(by_rank)) for piece in pieces]
        back = []
        for number, part in enumerate(there):
            for ahead in there[number : number + 2]:
                ahead.advance()
            back.append(begin(rows=work(part.finish())))
        for part in back:
            part.advance()
        return torch.stack([part.finish().flatten(0, 1) for part in back], 1).flatten(1, 2)

    def room(self, tokens: int) -> int:
        """Return the rows of an expert for so many tokens of a rank."""
        return self._room(tokens)

    def _room(self, tokens: int) -> int:
        most = max(PARTS)
        return -(-super()._room(tokens) // most) * most

    def _work_on(self, arrived: torch.Tensor) -> torch.Tensor:
        found = super().compute(arrived.transpose(0, 1).flatten(1, 2))
        return found.view(EACH, self._seat.world, -1, found.shape[-1]).transpose(0, 1).contiguous()


def by_loop(layer: Experts, tokens: torch.Tensor, room: int) -> torch.Tensor:
    """Return what experts make of tokens (n, width), token by token: what the layer is compared with.

    Args:
        layer: The router and all experts.
        tokens: In the type of its weights.
        room: Tokens that an expert takes; those that follow go past it.
    """
    shares, experts = layer._choose(tokens)
    found = torch.zeros_like(tokens)
    taken = [0] * layer.count
    for number, token in enumerate(tokens):
        for share, expert in zip(shares[number], experts[number].tolist(), strict=True):
            taken[expert] += 1
            if taken[expert] > room:
                continue
            opened = nn.functional.silu(token @ layer.gate[expert]) * (token @ layer.up[expert])
            found[number] += share * (opened @ layer.down[expert])
    return found


class ExpertTraffic:
    """One rank's part of the layer, measured and checked.

    Args:
        seat: The rank.
    """

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._layer: SpreadExperts | None = None
        self._tokens = torch.empty(0)

    def prepare_experts(self, request: Message) -> Message:
        """Make the layer and ``tokens``; answer the ``bytes`` that leave this rank for others, one way."""
        kind = getattr(torch, request["dtype"])
        width, tokens = request["width"], request["tokens"]
        self._layer = self._made(width, request["inner"]).to(kind)
        self._layer.smooth()
        self._tokens = self._drawn(tokens, width).to(kind)
        rows = self._layer.count * self._layer.room(tokens)
        others = (self._seat.world - 1) / self._seat.world
        return {"bytes": int(rows * width * kind.itemsize * others)}

    def time_experts(self, request: Message) -> Message:
        """Answer the seconds of each of some ``forms`` of the layer, one of so many ``times``.

        They are ``alone``, without the exchange, ``exchange``, without the experts, and ``together``.
        """
        layer, tokens = self._prepared(request), self._tokens
        rows = tokens.new_zeros(layer.count, layer.room(len(tokens)), tokens.shape[-1])

        def run(form: str) -> object:
            layer.steps = 0 if form == "alone" else request["steps"]
            return layer.carry(rows, lambda x: x) if form == "exchange" else layer(tokens[None])

        with torch.no_grad(), single_precision():
            return {
                form: timed(partial(run, form), self._seat.device, request["times"])
                for form in request["forms"]
            }

    def check_experts(self, request: Message) -> Message:
        """Answer how far ``off`` a small layer is by type, and how many numbers of a large one are ``wrong``.

        The small one is compared with a loop over its tokens in double precision; once its router chooses,
        and experts run full, and once in the type that is measured. In the large one known numbers travel;
        where there are two ways for rows, its outputs by both have to be the same.
        """
        layer = self._prepared(request)
        kinds = (torch.float64, self._tokens.dtype)
        with torch.no_grad(), single_precision():
            off = {str(kind).rpartition(".")[2]: self._off(kind) for kind in kinds}
            wrong = self._wrong(layer, layer.room(len(self._tokens)))
            if self._seat.groups > 1:
                layer.steps = 1
                plain = layer(self._tokens[None])
                layer.steps = 2
                wrong += wrong_elements(layer(self._tokens[None]), plain)
            return {"off": off, "wrong": wrong}

    def rest(self, _request: Message) -> Message:
        """Give up layer and tokens."""
        self._layer, self._tokens = None, torch.empty(0)
        return {}

    def _prepared(self, request: Message) -> SpreadExperts:
        if self._layer is None:
            raise RuntimeError("experts are wanted before they are prepared")
        self._layer.steps, self._layer.parts = request["steps"], request["parts"]
        return self._layer

    def _made(self, width: int, inner: int) -> SpreadExperts:
        torch.manual_seed(SEED)
        with self._seat.device:
            return SpreadExperts(width, inner, self._seat)

    def _drawn(self, tokens: int, width: int) -> torch.Tensor:
        device = self._seat.device
        random = torch.Generator(device).manual_seed(SEED + 1 + self._seat.number)
        return torch.randn(tokens, width, generator=random, device=device)

    def _off(self, kind: torch.dtype) -> float:
        """Return |layer - loop| / |loop| of a small layer in an element type, of this rank's tokens."""
        assert self._layer is not None
        layer = self._made(SMALL["width"], SMALL["inner"]).to(kind)
        layer.steps, layer.parts = self._layer.steps, self._layer.parts
        torch.manual_seed(SEED)
        with self._seat.device:
            whole = Experts(SMALL["width"], SMALL["inner"], layer.count, CHOSEN).to(kind).double()
        if kind != torch.float64:  # a choice between nearly equal numbers is luck
            layer.smooth()
            whole.smooth()
        tokens = self._drawn(SMALL["tokens"], SMALL["width"]).to(kind)
        found = layer(tokens[None])[0].double()
        expected = by_loop(whole, tokens.double(), layer.room(len(tokens)))
        return float((found - expected).norm() / expected.norm())

    def _wrong(self, layer: SpreadExperts, room: int) -> int:
        """Return how many known numbers do not arrive at their experts, or do not come back."""
        width, kind = self._tokens.shape[-1], self._tokens.dtype

        def known(rank: int, experts: range) -> torch.Tensor:
            """Return the numbers of a rank's rows for some experts, (experts, room, width)."""
            device = self._seat.device
            first = (rank * layer.count + experts.start) * room
            rows = torch.arange(first, first + len(experts) * room, device=device) * STRIDE
            numbers = rows[:, None] + torch.arange(width, device=device)
            return (numbers % PERIOD + 1).to(kind).view(len(experts), room, width)

        arrived: list[torch.Tensor] = []

        def keep(part: torch.Tensor) -> torch.Tensor:
            arrived.append(part)
            return part

        sent = known(self._seat.number, range(layer.count))
        back = layer.carry(sent, keep)
        here = torch.stack(arrived, 2).flatten(2, 3)  # (ranks, experts, room, width)

        def differing() -> int:
            wrong = int(torch.count_nonzero(back != sent))
            for rank, rows in enumerate(here):
                wrong += int(torch.count_nonzero(rows != known(rank, layer.own)))
            return wrong

        return count_errors(differing, lambda: flip_bit(back))
