"""One host's process: sends to and receives from others, round by round. Started by `pair_group`.

The hosts find each other as torchrun has it: ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR``, ``MASTER_PORT``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from pytest_anubis.benchmarking.children import Message, answer

TIMEOUT = 180.0
"""Seconds after which a host gives up on one that it waits for; a transfer of 0.1 s at a
thousandth of its rate takes less."""

NAME_BYTES = 128
"""Bytes of a host's name that the others are told: names in DNS parts have 63 at most."""

PERIOD = 251
"""After so many bytes a pattern repeats: a prime, so that what goes astray shows."""


class PairRank:
    """What one host does."""

    def __init__(self, number: int, world: int, name: str) -> None:
        self._number = number
        self._world = world
        self._name = name
        self._token = torch.zeros(1, dtype=torch.uint8)
        self._pattern = torch.empty(0, dtype=torch.uint8)
        self._arrived = torch.empty(0, dtype=torch.uint8)

    def join(self, _request: Message) -> Message:
        """Wait for all hosts; answer the ``names`` of all."""
        text = self._name.encode()[:NAME_BYTES].ljust(NAME_BYTES, b"\0")
        own = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        names = [torch.empty_like(own) for _ in range(self._world)]
        dist.all_gather(names, own)
        told = [bytes(name.tolist()).rstrip(b"\0").decode(errors="replace") for name in names]
        return {"names": told}

    def measure(self, request: Message) -> Message:
        """Run ``rounds`` of ways ``repeats`` times with so many ``bytes``; answer what all hosts measured.

        Answers ``seconds``, by repeat, sender and receiver, and how many bytes arrived ``wrong``, by sender
        and receiver; nan where nothing was measured; only the ``teller`` does, where a session has several.
        """
        size, repeats = int(request["bytes"]), int(request["repeats"])
        self._prepare(size)
        seconds = torch.full((repeats, self._world), torch.nan, dtype=torch.float64)
        wrong = torch.full((self._world,), torch.nan, dtype=torch.float64)
        for repeat in range(repeats):
            for ways in request["rounds"]:
                dist.barrier()  # all pairs of a round at once
                for sender, receiver in ways:
                    if self._number == sender:
                        seconds[repeat, receiver] = self._send(receiver, size)
                    elif self._number == receiver:
                        errors = self._receive(sender, size)
                        wrong[sender] = wrong[sender].nan_to_num() + errors
        all_seconds = [torch.empty_like(seconds) for _ in range(self._world)]
        all_wrong = [torch.empty_like(wrong) for _ in range(self._world)]
        dist.all_gather(all_seconds, seconds)
        dist.all_gather(all_wrong, wrong)
        if request["teller"] != self._number:
            return {}
        return {
            "seconds": torch.stack(all_seconds, dim=1).tolist(),
            "wrong": torch.stack(all_wrong, dim=1).tolist(),
        }

    def _prepare(self, size: int) -> None:
        """Make the bytes to send: each host begins at another place of one pattern."""
        if len(self._arrived) != size:
            times = (size + self._world) // PERIOD + 1
            self._pattern = torch.arange(PERIOD, dtype=torch.uint8).repeat(times)
            self._arrived = torch.empty(size, dtype=torch.uint8)

    def _send(self, receiver: int, size: int) -> float:
        """Send; return the seconds from the receiver's word that it waits to that it has all."""
        data = self._pattern[self._number : self._number + size]
        dist.recv(self._token, receiver)
        begin = time.perf_counter()
        dist.send(data, receiver)
        dist.recv(self._token, receiver)
        return time.perf_counter() - begin

    def _receive(self, sender: int, size: int) -> int:
        """Receive; return how many bytes are wrong."""
        dist.send(self._token, sender)
        dist.recv(self._arrived, sender)
        dist.send(self._token, sender)
        return int(torch.count_nonzero(self._arrived != self._pattern[sender : sender + size]))


def main(arguments: Sequence[str]) -> None:
    """Join the others and answer until the parent closes the socket.

    Args:
        arguments: The socket's number, the host's name, which group of this run it is, and for how many
            seconds it waits for the others.
    """
    descriptor, name, group, patience = arguments
    number, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    # torch exports neither by name.
    store = dist.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world,
        # Under torchrun its agent has opened the port already.
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
    rank = PairRank(number, world, name)
    try:
        answer(int(descriptor), {"join": rank.join, "measure": rank.measure})
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
