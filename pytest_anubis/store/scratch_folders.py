"""Make temporary folders, and remove those that killed processes of the same user left behind."""

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
LEFTOVER_AGE = 24 * 3600.0
"""Seconds after which an unlocked folder is a leftover. Benchmarks have temporary folders without a lock for
the length of one test, which lasts less than a day."""


class ScratchFolder:
    """A folder with an unpredictable name that only this user may enter, removed when it is closed.

    An open folder is locked by its process. The kernel drops the lock when the process dies, so the next run
    recognises leftovers, which are removed whenever a scratch folder is made.

    Args:
        parent: Folder in which it is made; default: the folder for temporary files.

    Raises:
        OSError: It cannot be made there.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        remove_leftovers(parent)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # on a file system without locks its age decides
            fcntl.flock(self._held, fcntl.LOCK_SH)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder and its content; closing it twice is harmless."""
        if self._held >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            self._held = -1


def remove_leftovers(parent: Path) -> None:
    """Remove old scratch folders of this user that no process has locked; failures are ignored.

    No link is followed, neither in the place of a folder nor inside.
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
        if found.st_uid != os.geteuid() or time.time() - found.st_mtime < LEFTOVER_AGE:
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)  # follows no link
    finally:
        os.close(descriptor)
