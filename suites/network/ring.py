"""A stream of bytes between two processes through memory that both have; only short notices use a socket.

It has the methods of a connected socket that `suites.network.peer` uses, so the same transfers go through
TCP, through a socket of the kernel, and through memory.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from typing import Self

SLOT = 1 << 18
"""Bytes that are handed over at once."""

SLOTS = 4
"""Of a direction: the writer is this far ahead of the reader at most."""

NOTICE = struct.Struct("!I")
FREED = b"F"


class _Way:
    """One direction of a ring: slots of memory, and a socket for notices of what is in them or was read.

    Args:
        notices: Carries the length of each filled slot to the reader, and `FREED` back for each one read.
        memory: All slots of this direction.
    """

    def __init__(self, notices: socket.socket, memory: memoryview) -> None:
        self._notices, self._memory = notices, memory
        self._slot, self._free = 0, SLOTS
        self._here = memory[:0]

    def write(self, data: memoryview) -> None:
        """Write all of it, waiting for the reader where all slots are full."""
        for begin in range(0, len(data), SLOT):
            part = data[begin : begin + SLOT]
            if not self._free:
                self._free = len(_received(self._notices, SLOTS))
            first = self._slot * SLOT
            self._memory[first : first + len(part)] = part
            self._slot, self._free = (self._slot + 1) % SLOTS, self._free - 1
            self._notices.sendall(NOTICE.pack(len(part)))

    def read(self, into: memoryview) -> int:
        """Read what is in the next slot, as much as fits; return the number of bytes, 0 at the end."""
        if not len(self._here):
            notice = b""
            while len(notice) < NOTICE.size:
                more = self._notices.recv(NOTICE.size - len(notice))
                if not more:
                    return 0
                notice += more
            first = self._slot * SLOT
            self._here = self._memory[first : first + NOTICE.unpack(notice)[0]]
            self._slot = (self._slot + 1) % SLOTS
        count = min(len(into), len(self._here))
        into[:count] = self._here[:count]
        self._here = self._here[count:]
        if not len(self._here):
            self._notices.sendall(FREED)
        return count


class Ring:
    """One end of a connection through memory.

    Args:
        ways: Connected sockets, one for each direction; the first one is that of what this end sends.
        memory: Of both directions, likewise.
    """

    def __init__(
        self, ways: tuple[socket.socket, socket.socket], memory: mmap.mmap, *, first: bool
    ) -> None:
        half = memoryview(memory)[: SLOT * SLOTS], memoryview(memory)[SLOT * SLOTS :]
        out, back = half if first else half[::-1]
        self._sockets = ways
        self._out, self._back = _Way(ways[0], out), _Way(ways[1], back)

    @classmethod
    def offered(cls, ways: tuple[socket.socket, socket.socket]) -> Self:
        """Make memory, send the other end its descriptor, and return this end."""
        descriptor = os.memfd_create("anubis-ring")
        try:
            os.ftruncate(descriptor, 2 * SLOT * SLOTS)
            socket.send_fds(ways[0], [FREED], [descriptor])
            return cls(ways, mmap.mmap(descriptor, 0), first=True)
        finally:
            os.close(descriptor)

    @classmethod
    def taken(cls, ways: tuple[socket.socket, socket.socket]) -> Self:
        """Receive the memory that the other end has made, and return this end."""
        _, descriptors, _, _ = socket.recv_fds(ways[1], 1, 1)
        try:
            return cls(ways, mmap.mmap(descriptors[0], 0), first=False)
        finally:
            os.close(descriptors[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._sockets:
            one.close()

    def sendall(self, data: bytes | memoryview) -> None:
        """Send all bytes."""
        self._out.write(memoryview(data))

    def recv_into(self, into: memoryview, most: int = 0, flags: int = 0) -> int:
        """Receive bytes; return how many, 0 at the end of the stream.

        Args:
            into: Where to.
            most: How many at most; 0: as many as fit.
            flags: With ``MSG_WAITALL`` exactly so many, unless the stream ends.
        """
        wanted = into[: most or len(into)]
        count = self._back.read(wanted)
        while flags & socket.MSG_WAITALL and 0 < count < len(wanted):
            more = self._back.read(wanted[count:])
            if not more:
                break
            count += more
        return count


def _received(connection: socket.socket, most: int) -> bytes:
    data = connection.recv(most)
    if not data:
        raise ConnectionError("the other end is gone")
    return data
