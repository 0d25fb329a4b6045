"""One stage of a pipeline, in a process of its own: started by `suites.pipeline.group`."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.children import Handler, Message, handlers_of
from pytest_anubis.benchmarking.precision import single_precision
from pytest_anubis.benchmarking.ranks import serve, timed
from pytest_anubis.benchmarking.sizes import give_back, memory_of, require_free
from pytest_anubis.benchmarking.verification import fingerprint, flip_bit
from suites.pipeline.layers import Chain, micro_batch
from suites.workload.catalogue import BY_NAME
from suites.workload.running import double_precision, draw

TEXTS = 2
"""Different micro-batches, which take turns: a result that belongs to the one before is a wrong one."""

PROBES = 5
"""Values of a probe, of which the median counts."""

CALLS = {"cpu": 3, "cuda": 20}
"""Layers that are computed for each value, by kind of device."""

CHECKED = 128
"""First tokens of a text that are computed in double precision too: what comes after them changes nothing."""

Spoil = Callable[[str, torch.Tensor], object]


class PipelineRank:
    """One rank: another stage in each rotation.

    Args:
        spoil: Called with ``weights`` and the first matrix of a stage when its weights are drawn, and with
            ``passed`` and each result of it before it is sent; tests flip a bit there.
    """

    def __init__(
        self, number: int, world: int, device: torch.device, spoil: Spoil = lambda *_: None
    ) -> None:
        self._number, self._world, self._device, self._spoil = number, world, device, spoil
        # A connection for each pair of neighbours: what is sent on does not wait for what is received.
        pairs = [(rank, (rank + 1) % world) for rank in range(world)]
        self._to = [dist.new_group(list(pair)) for pair in pairs]
        self._chain: Chain | None = None
        self._texts: list[torch.Tensor] = []
        self._layers = range(0)
        self._batches = 0
        self._spans: list[tuple[Any, Any]] = []
        self._all = False
        # Of all micro-batches of a step their fingerprints, or the last ones themselves.
        self._received: list[torch.Tensor | int] = []
        self._passed: list[torch.Tensor | int] = []

    def prepare(self, request: Message) -> Message:
        """Get ready for a ``workload`` in a ``dtype`` and steps of so many ``batches``; answer the memory."""
        self.rest({})  # of the network before it, whose test may have failed
        workload = BY_NAME[request["workload"]]
        sizes = micro_batch(workload, on_accelerators=self._device.type != "cpu")
        self._chain = Chain(workload, request["dtype"])
        self._texts = [draw(workload, sizes, self._device, part=n)[0] for n in range(TEXTS)]
        self._batches = request["batches"]
        known = memory_of(self._device)
        return {"memory": known[1] if known else 0}

    def probe(self, _request: Message) -> Message:
        """Answer the seconds of a layer of each kind, and of receiving a micro-batch from the rank before."""
        chain, seconds = self._made(), {}
        x = self._empty().normal_(generator=torch.Generator(self._device).manual_seed(self._number))
        for number in (1, len(chain) - 1):
            one = range(number, number + 1)
            chain.hold(one, self._device)
            work = partial(chain.run, x, one)
            with single_precision():
                seconds[chain.kind(number)] = self._median(work, CALLS[self._device.type])
        link = 0.0
        for sender in range(self._world):
            ends: dict[int, Callable[[], object]] = {
                sender: partial(self._send, x),
                (sender + 1) % self._world: self._receive,
            }
            part = ends.get(self._number, bool)  # the others only wait
            # A transfer by itself on a CPU, as a shaped link lets the first bytes pass at once.
            taken = self._median(part, 1 if self._device.type == "cpu" else CALLS["cuda"])
            if self._number == (sender + 1) % self._world:
                link = taken
        return {"seconds": seconds, "link": link}

    def uncut(self, _request: Message) -> Message:
        """Answer the ``bits`` of each layer's results, and how far ``off`` double precision these are.

        One layer after the other, so that a device computes a network that it cannot hold; each in double
        precision of the input that it had, as errors of deep networks add up.
        """
        chain, texts, bits = self._made(), list(self._texts), []
        off: list[float] = []
        for number in range(len(chain)):
            one = range(number, number + 1)
            chain.hold(one, self._device)
            exact = texts[0][:1, :CHECKED]
            with single_precision():
                texts = [chain.run(x, one) for x in texts]
            bits.append([fingerprint(x) for x in texts])
            with double_precision(chain.model):
                exact = chain.run(exact.double() if number else exact, one)
            found = texts[0][:1, :CHECKED].double()
            off.append(float((found - exact).norm() / exact.norm()))
        flip_bit(texts[0])
        assert fingerprint(texts[0]) != bits[-1][0], "a flipped bit is not noticed"
        return {"bits": bits, "off": off}

    def load(self, request: Message) -> Message:
        """Draw the weights of this rank's stage of the ``stages`` in a ``rotation``."""
        stages = request["stages"]
        stage = (self._number + request["rotation"]) % self._world
        self._layers, chain = range(*stages[stage]), self._made()
        chain.hold(range(0), self._device)
        require_free(sum(chain.weights(one) for one in self._layers), self._device)
        chain.hold(self._layers, self._device)
        self._spoil("weights", next(chain.modules(self._layers[-1])[-1].parameters()))
        return {}

    def step(self, request: Message) -> Message:
        """Pass all micro-batches on.

        Answers the seconds of that and of ``computing`` in it, and a fingerprint for each text as it was
        ``received`` and ``passed`` on: that of its last micro-batch. With ``all`` those of all micro-batches
        are computed, which takes time, and that of the fewest is answered.
        """
        self._all = request["all"]
        self._spans.clear()
        with single_precision():
            seconds = timed(self._once, self._device)
        return {
            "seconds": seconds,
            "computing": sum(_between(*span) for span in self._spans),
            "received": _bits(self._received),
            "passed": _bits(self._passed),
        }

    def rest(self, _request: Message) -> Message:
        """Give back what the last network took."""
        self._chain = None
        for kept in (self._texts, self._received, self._passed):
            kept.clear()
        give_back(self._device)
        return {}

    def _once(self) -> None:
        """Receive, compute and pass on every micro-batch of a step."""
        chain, sent = self._made(), []
        self._received, self._passed = [], []
        for number in range(self._batches):
            x = self._receive() if self._layers.start else self._texts[number % TEXTS]
            begin = self._now()
            y = chain.run(x, self._layers)
            self._spans.append((begin, self._now()))
            self._spoil("passed", y)
            if self._layers.stop < len(chain):
                sent.append(dist.isend(y, (self._number + 1) % self._world, self._to[self._number]))
            for kept, passing in ((self._received, x), (self._passed, y)):
                kept.append(fingerprint(passing) if self._all else passing)
                del kept[: 0 if self._all else -TEXTS]
        for one in sent:
            if one is not None:
                one.wait()

    def _empty(self) -> torch.Tensor:
        """Return room for what passes between two stages."""
        chain, text = self._made(), self._texts[0]
        width = chain.model.tokens.embedding_dim
        return torch.empty((*text.shape, width), dtype=chain.dtype, device=self._device)

    def _receive(self) -> torch.Tensor:
        x, before = self._empty(), (self._number - 1) % self._world
        dist.recv(x, before, self._to[before])
        return x

    def _send(self, x: torch.Tensor) -> None:
        dist.send(x, (self._number + 1) % self._world, self._to[self._number])

    def _median(self, work: Callable[[], object], times: int) -> float:
        """Return the median seconds of work that all ranks begin together, after it was done once."""
        taken = [timed(work, self._device, times) for _ in range(1 + PROBES)]
        return statistics.median(taken[1:])

    def _now(self) -> Any:
        """Return this moment: on a card one in its queue, so that the host does not wait."""
        if self._device.type == "cpu":
            return time.perf_counter()
        event = torch.Event(self._device, enable_timing=True)
        event.record()
        return event

    def _made(self) -> Chain:
        assert self._chain is not None, "prepare comes first"
        return self._chain


def _bits(kept: Sequence[torch.Tensor | int]) -> list[int]:
    """Return the fingerprint of each text's micro-batches, or that which the fewest of them have."""
    bits = [one if isinstance(one, int) else fingerprint(one) for one in kept]
    texts = [bits[text::TEXTS] for text in range(TEXTS)]
    return [min(some, key=some.count) for some in texts]


def _between(begin: Any, end: Any) -> float:
    """Return the seconds between two moments that have passed."""
    if isinstance(begin, float):
        return float(end - begin)
    return float(begin.elapsed_time(end)) / 1e3


def main(*arguments: str, spoil: Spoil = lambda *_: None) -> None:
    """Join the group and answer until the parent closes the socket.

    Args:
        arguments: The command line.
        spoil: As for `PipelineRank`.
    """

    def make(
        number: int, world: int, device: torch.device, _own: Sequence[str]
    ) -> Mapping[str, Handler]:
        return handlers_of(PipelineRank(number, world, device, spoil))

    serve(arguments, make)


if __name__ == "__main__":
    main(*sys.argv[1:])
