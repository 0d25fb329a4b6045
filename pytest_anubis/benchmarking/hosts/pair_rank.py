"""Send to and receive from other hosts, round by round: one host's process, started by `pair_group`.

The hosts connect by torchrun's variables: ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR``, ``MASTER_PORT``.
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
"""Seconds for which a host waits for another one: longer than a transfer of 0.1 s at a thousandth of its
rate."""

NAME_BYTES = 128
"""Bytes of a host's name that the others get: a part of a DNS name has at most 63."""

PERIOD = 251
"""Bytes after which the pattern repeats: a prime, so that misplaced data are detected."""


class PairRank:
    """One host's part in the measurements."""

    def __init__(self, number: int, world: int, name: str) -> None:
        self._number = number
        self._world = world
        self._name = name
        self._token = torch.zeros(1, dtype=torch.uint8)
        self._pattern = torch.empty(0, dtype=torch.uint8)
        self._arrived = torch.empty(0, dtype=torch.uint8)

    def join(self, _request: Message) -> Message:
        """Wait for all hosts and answer with their ``names``."""
        text = self._name.encode()[:NAME_BYTES].ljust(NAME_BYTES, b"\0")
        own = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        names = [torch.empty_like(own) for _ in range(self._world)]
        dist.all_gather(names, own)
        decoded = [bytes(name.tolist()).rstrip(b"\0").decode(errors="replace") for name in names]
        return {"names": decoded}

    def measure(self, request: Message) -> Message:
        """Run ``rounds`` of directions ``repeats`` times with transfers of ``bytes``; return all results.

        They are ``seconds`` by repeat, sender and receiver, and the number of ``wrong`` bytes by sender and
        receiver; nan if not measured. Of several hosts of a session only the ``teller`` answers with them.
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
        """Allocate the buffers; each host sends from its own offset in one pattern."""
        if len(self._arrived) != size:
            times = (size + self._world) // PERIOD + 1
            self._pattern = torch.arange(PERIOD, dtype=torch.uint8).repeat(times)
            self._arrived = torch.empty(size, dtype=torch.uint8)

    def _send(self, receiver: int, size: int) -> float:
        """Send; return the seconds from the receiver's ready message to its acknowledgement."""
        data = self._pattern[self._number : self._number + size]
        dist.recv(self._token, receiver)
        begin = time.perf_counter()
        dist.send(data, receiver)
        dist.recv(self._token, receiver)
        return time.perf_counter() - begin

    def _receive(self, sender: int, size: int) -> int:
        """Receive; return the number of wrong bytes."""
        dist.send(self._token, sender)
        dist.recv(self._arrived, sender)
        dist.send(self._token, sender)
        return int(torch.count_nonzero(self._arrived != self._pattern[sender : sender + size]))


def main(arguments: Sequence[str]) -> None:
    """Connect to the other hosts and answer until the parent closes the socket.

    Args:
        arguments: The socket's descriptor, the host's name, the number of the group in this run, and the
            seconds to wait for the other hosts.
    """
    descriptor, name, group, patience = arguments
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
    rank = PairRank(number, world, name)
    try:
        answer(int(descriptor), {"join": rank.join, "measure": rank.measure})
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
