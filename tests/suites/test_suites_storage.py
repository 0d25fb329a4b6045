"""The disk benchmark reads fio rightly, shows a slow disk, and notices a changed byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.storage.fio import DiskFile, FioError, find_fio, read_log, read_result

MIB = 1 << 20
FIO = find_fio()
needs_fio = pytest.mark.skipif(FIO is None, reason="fio not found")


def wrapper(folder: Path, body: str) -> str:
    """Return the path of a program that stands before fio."""
    path = folder / "wrapped-fio"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
    path.chmod(0o755)
    return str(path)


@pytest.mark.alone
@needs_fio
def test_longer_runs_have_more_windows_and_all_of_them_moved_data(tmp_path: Path) -> None:
    with DiskFile(tmp_path, 16 * MIB, str(FIO)) as disk:
        short, long = disk.sequential("read", 0.2), disk.sequential("read", 0.8)
        assert len(long) > 1.25 * len(short) > 0
        assert sum(long) > 0
        assert sum(disk.random("write", 0.2)) > 0
        disk.write_checked()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.alone
@needs_fio
def test_slow_disk_shows(tmp_path: Path) -> None:
    slow = wrapper(tmp_path, f'exec {FIO} "$@" --rate=2m')
    with DiskFile(tmp_path, 4 * MIB, str(FIO)) as disk:
        free = max(disk.sequential("read", 0.4))
    with DiskFile(tmp_path, 4 * MIB, slow) as disk:
        throttled = disk.sequential("read", 1.0)
    assert sum(throttled) / len(throttled) < free / 2


@needs_fio
def test_changed_byte_is_noticed(tmp_path: Path) -> None:
    with DiskFile(tmp_path, 16 * MIB, str(FIO)) as disk:
        disk.write_checked()
        disk.read_checked()
        with disk.path.open("r+b") as file:
            file.seek(MIB + 1234)
            byte = file.read(1)[0]
            file.seek(MIB + 1234)
            file.write(bytes([byte ^ 16]))
        with pytest.raises(FioError, match="fio check"):
            disk.read_checked()


@needs_fio
def test_refused_direct_io_falls_back_and_says_so(tmp_path: Path) -> None:
    refusing = wrapper(tmp_path, f'case "$*" in *direct=1*) exit 22;; esac\nexec {FIO} "$@"')
    with DiskFile(tmp_path, MIB, refusing) as disk:
        assert not disk.way.direct
        assert "O_DIRECT was refused" in str(disk.way)
        assert sum(disk.sequential("read", 0.2)) > 0


def test_program_that_always_fails_leaves_nothing(tmp_path: Path) -> None:
    failing = wrapper(tmp_path, "echo 'no space left' >&2; exit 28")
    with pytest.raises(FioError, match="ended with 28: no space left"):
        DiskFile(tmp_path, MIB, failing)
    assert [path.name for path in tmp_path.iterdir()] == ["wrapped-fio"]


def test_result_is_found_behind_warnings() -> None:
    job = read_result("x", 0, 'note: something\n{"jobs": [{"error": 0, "read": {}}]}', "")
    assert job["read"] == {}


@pytest.mark.parametrize("output", ["", "{", '{"jobs": []}', "[]", '{"jobs": 3}'])
def test_output_that_is_no_result(output: str) -> None:
    with pytest.raises(FioError, match="something else than JSON"):
        read_result("x", 0, output, "")


def test_error_of_the_job() -> None:
    with pytest.raises(FioError, match="error 5"):
        read_result("x", 0, '{"jobs": [{"error": 5}]}', "")


def test_log_keeps_every_window() -> None:
    assert read_log("50, 1000, 0, 0, 0\n100, 0, 0, 0, 0\n\n150, 2000, 0, 0, 0\n") == [1000, 0, 2000]
