"""Reading the small text files of /proc and sysfs: absent is None, broken is noted by name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

# What the kernel answers when a file exists but the device behind it has nothing to say.
_ABSENT = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EINVAL,
    errno.ENODEV,
    errno.ENXIO,
    errno.EOPNOTSUPP,
    errno.ENODATA,
}


class Files:
    """Kernel files below a root.

    Args:
        root: ``/`` on a live machine; a folder with copies for tests and recorded nodes.

    Attributes:
        unreadable: ``field: reason`` of everything that exists and could not be read.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self._prefix = "" if root == Path("/") else str(root)
        self.unreadable: list[str] = []

    def part(self) -> Files:
        """Return a reader of the same root with its own list of unreadable sensors."""
        return Files(self.root)

    def path(self, path: str | Path) -> Path:
        """Return where a path (absolute or relative) lies below the root."""
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

    def quick(self, path: str, most: int = 1 << 20) -> str:
        """Return a file's text, empty when it cannot be read: for counters that are read often.

        Args:
            path: Absolute path below the root.
            most: Bytes after which nothing more is needed.
        """
        try:
            descriptor = os.open(self._prefix + path, os.O_RDONLY)
        except OSError:
            return ""
        try:
            # The kernel hands out a page at a time, whatever was asked for.
            chunks = [os.read(descriptor, 65536)]
            while chunks[-1] and sum(map(len, chunks)) < most:
                chunks.append(os.read(descriptor, 65536))
        except OSError:
            return ""
        finally:
            os.close(descriptor)
        return b"".join(chunks).decode(errors="replace")

    def integer(self, path: str | Path, field: str = "") -> int | None:
        """Return a file's whole number (decimal or 0x...); what is no number is unreadable."""
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
        """Return the names in a folder in no order, none when it cannot be read: for what is read often."""
        try:
            return os.listdir(self._prefix + path)  # noqa: PTH208  # thousands of Paths cost more
        except OSError:
            return []

    def target(self, path: str | Path) -> str | None:
        """Return the last name of what a link points to, None when it is no link."""
        try:
            return self.path(path).readlink().name
        except OSError:
            return None

    def exists(self, path: str | Path) -> bool:
        """Say whether something is there."""
        try:
            return self.path(path).exists()
        except OSError:
            return False


def key_values(text: str | None, separator: str | None = None) -> dict[str, str]:
    """Split lines ``key<separator>value`` into a dict; lines without a value are left out."""
    pairs: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, found, value = line.partition(separator or " ")
        if found:
            pairs.setdefault(key.strip(), value.strip())
    return pairs
