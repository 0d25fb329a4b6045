"""A process that ends with the one that started it, whatever ended that one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent: int | None = None) -> None:
    """Let the kernel end this process when the one that started it is gone; Linux only.

    Otherwise a test that hangs outlives a run that was killed, and keeps its device.

    Args:
        parent: Process id of the parent, where it is known: it may have gone before this could be said.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
