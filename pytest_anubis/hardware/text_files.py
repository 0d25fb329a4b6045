"""Read the small text files of /proc and sysfs: an absent file gives None, an unreadable one is noted."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

# Errors for files that do not exist, or whose device does not have the value.
_ABSENT = frozenset((
    errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP, errno.ENODATA,
))  # fmt: skip


class Files:
    """Reader of kernel files below a root folder.

    Args:
        root: ``/`` on a live machine; a folder with copies for tests and recorded nodes.

    Attributes:
        unreadable: ``field: reason`` for every file that exists and could not be read.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self._prefix = "" if root == Path("/") else str(root)
        self.unreadable: list[str] = []

    def part(self) -> Files:
        """Return a reader of the same root with its own list of unreadable sensors."""
        return Files(self.root)

    def path(self, path: str | Path) -> Path:
        """Return the location of an absolute or relative path below the root."""
        return self.root / str(path).lstrip("/")

    def text(self, path: str | Path, field: str = "") -> str | None:
        """Return a file's text without surrounding white space; None when absent, empty or unreadable.

        Args:
            path: Path below the root.
            field: Name for the list of unreadable sensors; default the path itself.
        """
        try:
            found = self.path(path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError as error:
            if error.errno not in _ABSENT:
                self.unreadable.append(f"{field or path}: {error.strerror or error}")
            return None
        return found.strip("\x00").strip() or None

    def quick(self, path: str, limit: int = 1 << 20) -> str:
        """Return a file's text, empty if it cannot be read; fast enough for counters that are read often.

        Args:
            path: Absolute path below the root.
            limit: Stop reading after this number of bytes.
        """
        try:
            descriptor = os.open(self._prefix + path, os.O_RDONLY)
        except OSError:
            return ""
        try:
            # One read returns a page at most, whatever its size argument.
            chunks = [os.read(descriptor, 65536)]
            while chunks[-1] and sum(map(len, chunks)) < limit:
                chunks.append(os.read(descriptor, 65536))
        except OSError:
            return ""
        finally:
            os.close(descriptor)
        return b"".join(chunks).decode(errors="replace")

    def integer(self, path: str | Path, field: str = "") -> int | None:
        """Return the whole number in a file (decimal or 0x...); other text is noted as unreadable."""
        found = self.text(path, field)
        if found is None:
            return None
        try:
            return int(found, 0)
        except ValueError:
            self.unreadable.append(f"{field or path}: {found[:40]!r} is not a whole number")
            return None

    def names(self, path: str | Path) -> list[str]:
        """Return the sorted names in a folder; empty when it is not there."""
        try:
            return sorted(entry.name for entry in self.path(path).iterdir())
        except OSError as error:
            if error.errno not in _ABSENT:
                self.unreadable.append(f"{path}: {error.strerror or error}")
            return []

    def entries(self, path: str) -> list[str]:
        """Return the unsorted names in a folder, none if it cannot be read; for frequent calls."""
        try:
            return os.listdir(self._prefix + path)  # noqa: PTH208  # thousands of Paths cost more
        except OSError:
            return []

    def target(self, path: str | Path) -> str | None:
        """Return the last part of a link's target; None if the path is not a link."""
        try:
            return self.path(path).readlink().name
        except OSError:
            return None

    def exists(self, path: str | Path) -> bool:
        """Return whether a path exists."""
        try:
            return self.path(path).exists()
        except OSError:
            return False


def key_values(text: str | None, separator: str | None = None) -> dict[str, str]:
    """Return lines ``key<separator>value`` as a dict; lines without the separator are left out."""
    pairs: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, found, value = line.partition(separator or " ")
        if found:
            pairs.setdefault(key.strip(), value.strip())
    return pairs


def mounts(files: Files) -> Iterator[tuple[str, str, str, str]]:
    """Yield type, options, root in the filesystem and mount point of all mounts (proc_pid_mountinfo(5))."""
    for line in (files.text("/proc/self/mountinfo") or "").splitlines():
        head, dash, tail = line.partition(" - ")
        before, after = head.split(), tail.split()
        if dash and len(before) >= 5 and after:
            yield after[0], after[-1], before[3], before[4]
