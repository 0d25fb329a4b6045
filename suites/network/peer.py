"""One end of a connection, in a process of its own: started by `suites.network.loopback`.

It goes through TCP, a socket of the kernel (Unix), or memory that both ends have.

Every transfer begins with a header: what it is, and how many bytes or repetitions. The timed transfers
only count bytes; a transfer to check them carries random bytes and comes back as a checksum.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import time
import zlib

from pytest_anubis.benchmarking.children import Message, answer, handlers_of
from suites.network.ring import Ring

Connection = socket.socket | Ring
TCP, SOCKET, RING = "tcp", "socket", "ring"
"""The ways that a connection goes."""

HEADER = struct.Struct("!cQ")
REPLY = struct.Struct("!QQ")
BULK, PING, CHECK = b"B", b"P", b"C"
PING_BYTES = 64
BLOCK = 1 << 18
"""Bytes that are handed over at once: with a fourth of it Python's own share was a seventh of the time, and
the rate that much below iperf3's (`benchmarks/suites/fidelity`)."""
BUFFER = 1 << 16
"""Bytes of a socket's buffers. Small and fixed, so that what is under way stays in the core's own cache;
with the kernel's growing buffers the same connection varied by a third from round to round."""
TIMEOUT = 60.0
"""Seconds without a byte after which an end gives up."""


class Receiver:
    """Takes what comes, and says how much it was.

    Args:
        way: ``tcp``, ``socket`` or ``ring``.
        address: Where to listen with TCP.
    """

    def __init__(self, way: str, address: str) -> None:
        self._way = way
        if way == TCP:
            self._listener = socket.create_server((address, 0))
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind("")  # the kernel chooses a name without a file
            self._listener.listen()
        # An accepted connection inherits the size, which has to be known when the window is agreed on.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self._block = memoryview(bytearray(BLOCK))

    @property
    def port(self) -> int | str:
        """Where it listens: a port of TCP, or a name without the byte 0 at its beginning."""
        name = self._listener.getsockname()
        return int(name[1]) if self._way == TCP else name[1:].decode()

    def serve(self) -> None:
        """Accept one connection and serve it until it is closed."""
        self._listener.settimeout(TIMEOUT)
        first = self._accepted()
        ring = self._way == RING
        connection = Ring.taken((self._accepted(), first)) if ring else first
        with connection:
            while header := _exactly(connection, self._block[: HEADER.size]):
                kind, amount = HEADER.unpack(header)
                if kind == PING:
                    self._echo(connection, amount)
                else:
                    self._take(connection, amount, check=kind == CHECK)

    def _accepted(self) -> socket.socket:
        connection, _ = self._listener.accept()
        _prepare(connection)
        return connection

    def _echo(self, connection: Connection, count: int) -> None:
        ball = self._block[:PING_BYTES]
        for _ in range(count):
            _exactly(connection, ball)
            connection.sendall(ball)

    def _take(self, connection: Connection, amount: int, *, check: bool) -> None:
        received = checksum = 0
        while received < amount:
            most = min(BLOCK, amount - received)
            count = connection.recv_into(self._block, most, socket.MSG_WAITALL)
            if not count:
                raise ConnectionError(f"closed after {received} of {amount} bytes")
            if check:
                checksum = zlib.crc32(self._block[:count], checksum)
            received += count
        connection.sendall(REPLY.pack(received, checksum))


class Sender:
    """Sends, and takes the time until the other end has everything."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._connection: Connection
        self._block = memoryview(random.Random(20240224).randbytes(BLOCK))  # noqa: S311 - a pattern

    def connect(self, request: Message) -> Message:
        """Connect to the ``address`` and ``port`` of the request."""
        tcp = self._way == TCP
        place = (request["address"], request["port"]) if tcp else "\0" + request["port"]
        self._connection = first = self._connected(place)
        if self._way == RING:
            self._connection = Ring.offered((first, self._connected(place)))
        return {}

    def _connected(self, place: tuple[str, int] | str) -> socket.socket:
        connection = socket.socket(socket.AF_INET if self._way == TCP else socket.AF_UNIX)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        connection.settimeout(TIMEOUT)
        connection.connect(place)
        _prepare(connection)
        return connection

    def bulk(self, request: Message) -> Message:
        """Send so many ``bytes``; answer the ``seconds`` until the receiver had counted them."""
        begin = time.perf_counter()
        received, _ = self._transfer(BULK, request["bytes"])
        return {"seconds": time.perf_counter() - begin, "received": received}

    def check(self, request: Message) -> Message:
        """Send so many ``bytes``; answer the checksums of what was ``sent`` and what ``arrived``."""
        received, arrived = self._transfer(CHECK, request["bytes"])
        sent = 0
        for begin in range(0, request["bytes"], BLOCK):
            sent = zlib.crc32(self._block[: request["bytes"] - begin], sent)
        return {"received": received, "sent": sent, "arrived": arrived}

    def ping(self, request: Message) -> Message:
        """Send a short message so many times and wait for each to come back; answer the ``seconds``."""
        count = request["count"]
        ball, back = self._block[:PING_BYTES], memoryview(bytearray(PING_BYTES))
        wrong = 0
        self._connection.sendall(HEADER.pack(PING, count))
        begin = time.perf_counter()
        for _ in range(count):
            self._connection.sendall(ball)
            wrong += _exactly(self._connection, back) != ball
        return {"seconds": time.perf_counter() - begin, "wrong": wrong}

    def _transfer(self, kind: bytes, amount: int) -> tuple[int, int]:
        try:
            self._connection.sendall(HEADER.pack(kind, amount))
            for begin in range(0, amount, BLOCK):
                self._connection.sendall(self._block[: amount - begin])
            reply = _exactly(self._connection, memoryview(bytearray(REPLY.size)))
        except BlockingIOError:  # what a socket of the kernel's own timeout raises after it
            raise TimeoutError(f"no byte went through for {TIMEOUT:.0f} s") from None
        received, checksum = REPLY.unpack(reply)
        return received, checksum


def _prepare(connection: socket.socket) -> None:
    # The kernel's own timeout, so that the kernel moves a whole block in one call (`MSG_WAITALL` above): with
    # Python's a block went in parts of a socket's buffer, each asked for first, and a third of the time was
    # Python's (`benchmarks/suites/fidelity --only tcp`).
    connection.settimeout(None)
    for way in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, way, struct.pack("@ll", int(TIMEOUT), 0))
    if connection.family == socket.AF_INET:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _exactly(connection: Connection, into: memoryview) -> memoryview:
    """Fill `into` from the connection; return it, or an empty view at the end of the stream."""
    filled = 0
    while filled < len(into):
        count = connection.recv_into(into[filled:])
        if not count:
            if filled:
                raise ConnectionError(f"closed after {filled} of {len(into)} bytes")
            return into[:0]
        filled += count
    return into


def main(descriptor: str, role: str, cpu: str, way: str, address: str) -> None:
    """Run one end: ``send`` or ``receive``, on one CPU."""
    os.sched_setaffinity(0, {int(cpu)})
    if role == "send":
        answer(int(descriptor), handlers_of(Sender(way)))
    else:
        receiver = Receiver(way, address)
        with socket.socket(fileno=int(descriptor)) as channel:
            channel.sendall(json.dumps({"port": receiver.port}).encode() + b"\n")
            receiver.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
