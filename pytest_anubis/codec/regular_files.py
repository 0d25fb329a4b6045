"""Open or digest a file only if it is a regular one, and never wait for it, since its path may be hostile."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading bytes; a named pipe, a device or a socket is refused at once.

    Opening a pipe without a writer would wait for ever, and a device may have no end.

    Raises:
        OSError: It cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(
                errno.EINVAL, "it is a pipe, device or socket, no regular file", str(path)
            )
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a regular file in hexadecimal digits; raise `OSError` if it cannot be read."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
