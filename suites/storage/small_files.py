"""Many small files, and writes that wait for the disk: what logs and trees of packages ask of storage."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

CONTENT = 512
"""Bytes of a file: less than a block, so that it is the file that costs, not what is in it."""

BLOCK = 4096
"""Bytes of a write that is waited for: a page, the least that most disks write."""

RING = 256
"""Blocks that are written in turn, a megabyte: a log that is written round and round."""

Write = Callable[[int, bytes], int]


def content(number: int) -> bytes:
    """Return what belongs into a file or block: its number, again and again."""
    word = number.to_bytes(8, "little")
    return word * (CONTENT // len(word))


class SmallFiles:
    """Files that are made, looked at and removed; a context manager that leaves none.

    Args:
        folder: Where their folder is made.
        count: How many.
        write: Writes a file's content; one that makes a fault shows that it is noticed.
    """

    def __init__(self, folder: Path, count: int, *, write: Write = os.write) -> None:
        self._count = count
        self._write = write
        self._folder = tempfile.TemporaryDirectory(prefix="anubis-files-", dir=folder)
        self._place = Path(self._folder.name)
        self._files = [self._place / f"{number:06}" for number in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def create(self) -> float:
        """Make all files, each with its own content; return how many a second."""
        self._remove()
        return self._rate(self._make)

    def look(self) -> float:
        """Ask for the size of every file; return how many a second.

        Raises:
            OSError: One is missing.
        """
        self._make_missing()
        return self._rate(lambda: [path.stat() for path in self._files])

    def unlink(self) -> float:
        """Remove all files; return how many a second.

        Raises:
            OSError: One is missing.
        """
        self._make_missing()
        return self._rate(self._remove_each)

    def wrong_files(self) -> int:
        """Make all files; return how many lack their content, or are still there when they were removed."""
        self.create()
        wrong = sum(path.read_bytes() != content(number) for number, path in enumerate(self._files))
        wrong += len(set(self._place.iterdir()) - set(self._files))
        self.unlink()
        return wrong + len(list(self._place.iterdir()))

    def _rate(self, work: Callable[[], object]) -> float:
        """Do something to all files; return to how many a second."""
        begin = time.perf_counter()
        work()
        return self._count / (time.perf_counter() - begin)

    def _make(self) -> None:
        for number, path in enumerate(self._files):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._write(file, content(number))
            os.close(file)

    def _make_missing(self) -> None:
        if not self._files[0].exists():
            self._make()

    def _remove_each(self) -> None:
        for path in self._files:
            path.unlink()

    def _remove(self) -> None:
        for path in self._place.iterdir():
            path.unlink()


class SyncedFile:
    """Blocks that are written one by one, each waited for; a context manager that leaves nothing.

    Args:
        folder: Where the file lies.
        write: Writes a block; one that makes a fault shows that it is noticed.
    """

    def __init__(self, folder: Path, *, write: Write = os.write) -> None:
        self._write = write
        self._file = tempfile.TemporaryFile(prefix="anubis-fsync-", dir=folder, buffering=0)  # noqa: SIM115
        self._file.truncate(BLOCK * RING)
        os.fsync(self._file.fileno())
        self._written = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def sync(self) -> None:
        """Write the next block and wait until the disk says that it has it."""
        descriptor = self._file.fileno()
        os.lseek(descriptor, self._written % RING * BLOCK, os.SEEK_SET)
        self._write(descriptor, content(self._written) * (BLOCK // CONTENT))
        os.fsync(descriptor)
        self._written += 1

    def wrong_blocks(self) -> int:
        """Return how many blocks do not hold what was written to them last."""
        descriptor = self._file.fileno()
        # What the page cache holds is let go of where the kernel does so, and comes from the disk then.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        found = {}
        for number in range(max(0, self._written - RING), self._written):
            block = os.pread(descriptor, BLOCK, number % RING * BLOCK)
            found[number] = block == content(number) * (BLOCK // CONTENT)
        return len(found) - sum(found.values())
