"""Send to and receive from other hosts, round by round: one host's process, started by `pair_group`.

The hosts connect by torchrun's variables: ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR``, ``MASTER_PORT``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.children import Message, answer
from pytest_anubis.hardware.telemetry.network_counters import resent_segments
from pytest_anubis.hardware.text_files import Files

Peer = TypeVar("Peer")
Result = TypeVar("Result")

TIMEOUT = 180.0
"""Seconds for which a host waits for another one: longer than a transfer of 0.1 s at a thousandth of its
rate."""

NAME_BYTES = 128
"""Bytes of a host's name that the others get: a part of a DNS name has at most 63."""

PERIOD = 251
"""Bytes after which the pattern repeats: a prime, so that misplaced data are detected."""

BLANK = 255
"""Content of a buffer before data arrive: a byte that the pattern does not have."""


class PairRank:
    """One host, which sends to and receives from the others."""

    def __init__(self, number: int, world: int, name: str, port: float) -> None:
        self._number = number
        self._world = world
        self._name = name
        self._port = port
        self._pattern = torch.empty(0, dtype=torch.uint8)
        self._arrived = torch.empty((0, 0), dtype=torch.uint8)
        self._threads = ThreadPoolExecutor(max_workers=max(1, world - 1))
        self._files = Files()

    def join(self, _request: Message) -> Message:
        """Wait for all hosts and answer with their ``names`` and the rates of their ``ports``."""
        text = self._name.encode()[:NAME_BYTES].ljust(NAME_BYTES, b"\0")
        own = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        names = [torch.empty_like(own) for _ in range(self._world)]
        dist.all_gather(names, own)
        decoded = [bytes(name.tolist()).rstrip(b"\0").decode(errors="replace") for name in names]
        ports = self._gather(torch.tensor([self._port], dtype=torch.float64))
        return {"names": decoded, "ports": ports.flatten().tolist()}

    def measure(self, request: Message) -> Message:
        """Run ``rounds`` of ways ``repeats`` times with transfers of ``bytes``; return all results.

        In a round a host should only send or only receive, over all its ways at once: it sends before it
        receives, so hosts that send in a circle would wait for each other. The rounds belong to ``kinds`` in
        turn. Within a kind each way occurs once, and each host has several ways in one round at most. The
        results are ``seconds`` by repeat and kind, sender and receiver; likewise the TCP segments
        ``resent``, where the sender had one way; the seconds of several ways ``together`` by repeat and
        kind, and host; and the number of ``wrong`` bytes by sender and receiver; nan if not measured. If a
        session has several hosts, only the ``teller`` answers with them.
        """
        size, repeats, kinds = (int(request[name]) for name in ("bytes", "repeats", "kinds"))
        rounds = request["rounds"]
        at_once = max((len(self._senders(ways)) for ways in rounds), default=0)
        self._prepare(size, at_once)
        seconds = torch.full((repeats * kinds, self._world), torch.nan, dtype=torch.float64)
        resent = seconds.clone()
        together = torch.full((repeats * kinds,), torch.nan, dtype=torch.float64)
        wrong = torch.full((self._world,), torch.nan, dtype=torch.float64)
        for repeat in range(repeats):
            for number, ways in enumerate(rounds):
                place = repeat * kinds + number % kinds
                senders = self._senders(ways)
                receivers = [receiver for sender, receiver in ways if sender == self._number]
                self._arrived[: len(senders)] = BLANK
                dist.barrier()  # all ways of a round at once
                before, begin = resent_segments(self._files), time.perf_counter()
                took = self._at_once(lambda receiver: self._send(receiver, size), receivers)
                for receiver, one in zip(receivers, took, strict=True):
                    seconds[place, receiver] = one
                if len(receivers) == 1:
                    resent[place, receivers[0]] = resent_segments(self._files) - before
                arriving = list(zip(senders, self._arrived, strict=False))
                self._at_once(self._receive, arriving)
                if len(senders) + len(receivers) > 1:
                    together[place] = time.perf_counter() - begin
                for sender, arrived in arriving:
                    wrong[sender] = wrong[sender].nan_to_num() + self._errors(sender, arrived)
        gathered = [self._gather(one) for one in (seconds, resent, together, wrong)]
        if request["teller"] != self._number:
            return {}
        names = ("seconds", "resent", "together", "wrong")
        return {name: one.tolist() for name, one in zip(names, gathered, strict=True)}

    def _senders(self, ways: Sequence[Sequence[int]]) -> list[int]:
        """Return the hosts that send to this one in a round."""
        return [sender for sender, receiver in ways if receiver == self._number]

    def _at_once(self, act: Callable[[Peer], Result], peers: Sequence[Peer]) -> list[Result]:
        """Return what a function returns for each peer, with a thread for each of several."""
        if len(peers) < 2:
            return [act(peer) for peer in peers]
        return list(self._threads.map(act, peers))

    def _gather(self, own: torch.Tensor) -> torch.Tensor:
        """Return the tables of all hosts as one, with the host as its second dimension."""
        tables = [torch.empty_like(own) for _ in range(self._world)]
        dist.all_gather(tables, own)
        return torch.stack(tables, dim=1)

    def _prepare(self, size: int, at_once: int) -> None:
        """Allocate the buffers; each host sends from its own offset in one pattern."""
        if self._arrived.shape != (at_once, size):
            times = (size + self._world) // PERIOD + 1
            self._pattern = torch.arange(PERIOD, dtype=torch.uint8).repeat(times)
            self._arrived = torch.empty((at_once, size), dtype=torch.uint8)

    def _send(self, receiver: int, size: int) -> float:
        """Send; return the seconds from the receiver's ready message to its acknowledgement."""
        data = self._pattern[self._number : self._number + size]
        token = torch.zeros(1, dtype=torch.uint8)
        dist.recv(token, receiver)
        begin = time.perf_counter()
        dist.send(data, receiver)
        dist.recv(token, receiver)
        return time.perf_counter() - begin

    def _receive(self, arriving: tuple[int, torch.Tensor]) -> None:
        """Receive one sender's data into their buffer, and acknowledge them."""
        sender, arrived = arriving
        token = torch.zeros(1, dtype=torch.uint8)
        dist.send(token, sender)
        dist.recv(arrived, sender)
        dist.send(token, sender)

    def _errors(self, sender: int, arrived: torch.Tensor) -> int:
        """Return the number of wrong bytes from one sender."""
        return int(torch.count_nonzero(arrived != self._pattern[sender : sender + len(arrived)]))


def main(arguments: Sequence[str]) -> None:
    """Connect to the other hosts and answer until the parent closes the socket.

    Args:
        arguments: The socket's descriptor, the host's name, the number of the group in this run, the
            seconds to wait for the other hosts, and what the host's port carries.
    """
    descriptor, name, group, patience, port = arguments
    number, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    # torch exports neither by name.
    store = dist.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world,
        # Under torchrun, its agent has already opened the port.
        is_master=number == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        timeout=timedelta(seconds=float(patience)),
    )
    dist.init_process_group(
        "gloo",
        store=dist.PrefixStore(  # type: ignore[attr-defined]
            f"anubis-pairs-{group}", store
        ),
        rank=number,
        world_size=world,
        timeout=timedelta(seconds=TIMEOUT),
    )
    rank = PairRank(number, world, name, float(port))
    try:
        answer(int(descriptor), {"join": rank.join, "measure": rank.measure})
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
