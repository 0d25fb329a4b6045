"""A relay on a TCP connection that can be slow or faulty, for tests of the network benchmarks."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self

from suites.network.peer import HEADER

BLOCK = 1 << 16


class Relay:
    """Passes one connection on, both ways; a context manager.

    Attributes:
        delay: Seconds to wait before every block is passed on.
        flip: Flip a bit in every block of data that goes forth; what comes back is left alone, as twice
            the same fault would undo itself.
    """

    def __init__(self) -> None:
        self.delay = 0.0
        self.flip = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._sockets:
            # A mere close would leave a thread that waits in a call on it waiting.
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)

    def before(self, port: int) -> int:
        """Return the port to connect to in place of `port`."""
        thread = threading.Thread(target=self._accept, args=(port,), daemon=True)
        self._threads.append(thread)
        thread.start()
        return int(self._listener.getsockname()[1])

    def _accept(self, port: int) -> None:
        try:
            near, _ = self._listener.accept()
        except OSError:
            return
        far = socket.create_connection(("127.0.0.1", port))
        self._sockets += [near, far]
        for source, target, forth in ((near, far, True), (far, near, False)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._pump, args=(source, target, forth), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, forth: bool) -> None:
        try:
            while block := bytearray(source.recv(BLOCK)):
                time.sleep(self.delay)
                # Data only: a header alone is shorter than any of it.
                if self.flip and forth and len(block) > HEADER.size:
                    block[-1] ^= 4
                target.sendall(block)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return
