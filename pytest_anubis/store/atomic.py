"""Replace a file atomically: readers see the old or the new content, never half of it.

`alone` locks a file among processes, for changes that read it first; `node_standing` uses it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def write_atomically(path: Path, content: bytes | str, *, durable: bool = True) -> None:
    r"""Replace a file, and make its folders; as `writing_atomically`.

    Text is written as UTF-8, and a lone surrogate as an escape such as ``\udc80``.

    Raises:
        OSError: The disk refuses; the old file is untouched and nothing is left behind.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    with writing_atomically(path, durable=durable) as out:
        out.write(content)


@contextlib.contextmanager
def writing_atomically(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Give a temporary file to write to, and rename it to `path` at the end.

    A durable file is on the disk before it is renamed, so a power cut leaves the old one; files that the next
    call makes anew need not be durable. The temporary name
    is unpredictable, so no prepared link is followed; a link in the place of `path` is replaced. A device,
    pipe or socket, such as ``/dev/null``, is written to directly: replacing it would break the machine.

    Raises:
        OSError: The disk refuses; the old file is untouched and nothing is left behind.
    """
    if _is_special(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)  # waits for no reader
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "wb") as out:
            yield out
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # A long name is cut, since prefix and suffix may make it longer than file systems take.
    descriptor, name = tempfile.mkstemp(
        dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".new"
    )
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            os.fchmod(out.fileno(), 0o644)
            if durable:
                os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    if durable:
        _keep_name(path.parent)


def _is_special(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISLNK(mode):  # /dev/stdout is a link
        return path.absolute().parts[:2] in (("/", "dev"), ("/", "proc"))
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _keep_name(folder: Path) -> None:
    # Not every file system lets a folder be synchronised; the content is safe already.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def alone(path: Path, timeout: float) -> Iterator[None]:
    """Hold the lock of a file, of its name with the ending ``.lock``; go on without it if there are no locks.

    Also go on after `timeout` seconds, which should be what a change takes: any user who can read the lock
    can hold it for ever.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    lock = path.with_suffix(".lock")
    try:
        held = os.open(lock, flags | os.O_WRONLY, 0o644)
    except PermissionError:  # another user's; a network file system may lock nothing then
        held = os.open(lock, os.O_RDONLY | flags & ~os.O_CREAT)
    try:
        until = time.monotonic() + timeout
        with contextlib.suppress(OSError):
            while not _locked(held) and time.monotonic() < until:
                time.sleep(timeout / 100)
        yield
    finally:
        os.close(held)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
