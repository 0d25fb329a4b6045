"""Temporary folders that a killed process leaves behind, and the next run of the same user clears away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Self

PREFIX = "anubis-"
OLD = 24 * 3600.0
"""Seconds after which a folder that nobody holds is a leftover. Benchmarks have temporary folders without a
lock; they live for the length of one test, which no deadline lets last a day."""


class ScratchFolder:
    """A folder of a name that nobody can foresee, which only this user may enter; removed when closed.

    While it is open this process holds a lock on it, which the kernel drops when the process dies: that is
    how the next run tells what is left over. Making one removes leftovers beside it.

    Args:
        parent: Where it is made; default the folder for temporary files.

    Raises:
        OSError: It cannot be made there.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        remove_leftovers(parent)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a network file system without locks: it ages, then
            fcntl.flock(self._held, fcntl.LOCK_SH)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it with all that is in it; more than once does nothing."""
        if self._held >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            self._held = -1


def remove_leftovers(parent: Path) -> None:
    """Remove old folders of ours that no process holds; what cannot be removed stays, without a word.

    Only folders of this user are touched, and no link is followed: neither one in the place of a folder nor
    one inside.
    """
    with contextlib.suppress(OSError):
        for path in parent.iterdir():
            if path.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or time.time() - found.st_mtime < OLD:
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)  # which follows no link itself
    finally:
        os.close(descriptor)
