"""Files are written whole or not at all, and devices stay devices."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from pytest_anubis.store.atomic import alone, write_atomically


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device") as nobody_reads:
        write_atomically(pipe, "text")
    assert nobody_reads.value.errno == errno.ENXIO
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, "text")
    assert (os.read(reading, 10), stat.S_ISFIFO(pipe.stat().st_mode)) == (b"text", True)
    os.close(reading)


def test_a_full_device_says_so_and_is_not_replaced() -> None:
    with pytest.raises(OSError, match="No space") as full:
        write_atomically(Path("/dev/full"), "text")
    assert full.value.errno == errno.ENOSPC
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)
    write_atomically(Path("/dev/null"), "text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_text("old")
    link.symlink_to(precious)
    write_atomically(link, "new")
    assert (precious.read_text(), link.read_text(), link.is_symlink()) == ("old", "new", False)


def test_the_lock_of_another_user_is_held_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "n1.json"
    with alone(file, 0.1):
        pass
    open_any = os.open

    def of_another(path: str | Path, flags: int, *mode: int) -> int:
        if str(path).endswith(".lock") and flags & os.O_WRONLY:
            raise PermissionError(errno.EACCES, "Permission denied")
        return open_any(path, flags, *mode)

    monkeypatch.setattr(os, "open", of_another)
    with alone(file, 0.1), (tmp_path / "n1.lock").open() as same, pytest.raises(BlockingIOError):
        fcntl.flock(same, fcntl.LOCK_EX | fcntl.LOCK_NB)
