"""Files are written whole or not at all, and devices stay devices."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from pytest_anubis.store.atomic import write_atomically


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
