"""The disk benchmark reads fio rightly, shows a slow disk, and notices a changed byte."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.benchmarking.tools import UnreadableOutput
from suites.storage.fio import (
    PERCENTILES,
    DiskFile,
    FioError,
    Windows,
    read_log,
    read_mixed,
    read_result,
)
from suites.storage.latency_log import BINS, middle_of, percentiles, read_histograms
from suites.storage.small_files import BLOCK, RING, SmallFiles, SyncedFile
from suites.storage.test_disk import counted

MIB = 1 << 20
FIO = shutil.which("fio")
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
        run = disk.random_windows("write", 0.2, 0.0)
        assert sum(run.rates) > 0
        assert run.latencies == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.alone
@needs_fio
def test_slow_disk_shows(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    program = wrapper(tmp_path, f'[ -e {slow} ] && set -- "$@" --rate=4m\nexec {FIO} "$@"')
    with DiskFile(tmp_path, 4 * MIB, program) as disk:
        free = max(disk.sequential("read", 0.4))
        slow.touch()
        throttled = disk.sequential("read", 0.8)
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
    with pytest.raises(UnreadableOutput, match="output of fio cannot be read"):
        read_result("x", 0, output, "")


def test_error_of_the_job() -> None:
    with pytest.raises(FioError, match="error 5"):
        read_result("x", 0, '{"jobs": [{"error": 5}]}', "")


@pytest.mark.parametrize("line", ["50", "50; 1000; 0", "time, value, direction"])
def test_log_of_another_format_is_no_result(line: str) -> None:
    with pytest.raises(UnreadableOutput, match="cannot be read"):
        read_log(f"50, 1000, 0, 0, 0\n{line}\n")


def test_log_keeps_every_window() -> None:
    assert read_log("50, 1000, 0, 0, 0\n100, 0, 0, 0, 0\n\n150, 2000, 0, 0, 0\n") == [1000, 0, 2000]


def test_disk_that_stood_still_for_windows_counts_in_each_of_them() -> None:
    # As fio 3.33 logs it: one line for the 250 ms in which nothing ended in four windows.
    log = "50, 1000, 1, 1048576, 0\n300, 200, 1, 1048576, 0\n351, 1000, 1, 1048576, 0\n"
    assert read_log(log) == [1000, 200, 200, 200, 200, 200, 1000]


@pytest.mark.parametrize("place", ["/dev", "/dev/null", "/dev/disk", "link"])
def test_nothing_is_written_to_a_device_or_among_devices(tmp_path: Path, place: str) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev")
    ran = tmp_path / "ran"
    program = wrapper(tmp_path, f"touch {ran}")
    with pytest.raises(FioError, match=r"is no folder for files; choose one with --anubis-scratch"):
        DiskFile(link if place == "link" else Path(place), MIB, program)
    assert not ran.exists()


def test_file_that_became_a_way_to_a_device_is_not_written_to(tmp_path: Path) -> None:
    program = wrapper(tmp_path, "echo '{\"jobs\": [{}]}'")
    with DiskFile(tmp_path, MIB, program) as disk:
        disk.path.symlink_to("/dev/null")
        with pytest.raises(FioError, match="is no plain file any more"):
            disk.write_checked()
        disk.path.unlink()
        os.mkfifo(disk.path)
        with pytest.raises(FioError, match="is no plain file any more"):
            disk.write_checked()


def test_fio_is_given_no_path_at_all(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    program = wrapper(tmp_path, f'echo "$@" >> {seen}; echo \'{{"jobs": [{{}}]}}\'')
    with (
        DiskFile(tmp_path, MIB, program) as disk,
        pytest.raises(UnreadableOutput, match=r"no log_bw\.1\.log"),
    ):
        disk.sequential("read", 0.1)
    given = [word for line in seen.read_text().splitlines() for word in line.split()]
    assert "--filename=data" in given
    assert not [word for word in given if "/" in word or word.startswith("--directory")]


@needs_fio
def test_colon_in_the_scratch_folder_makes_no_second_file(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.mkdir()
    with DiskFile(folder, MIB, str(FIO)) as disk:
        assert disk.path.stat().st_size == MIB
        assert sum(disk.sequential("write", 0.1)) > 0
    assert list(tmp_path.iterdir()) == [folder]


@needs_fio
def test_mixed_load_has_both_kinds_with_growing_percentiles(tmp_path: Path) -> None:
    with DiskFile(tmp_path, 4 * MIB, str(FIO)) as disk:
        window = disk.mixed(0.2)
    assert window.rate > 0
    assert list(window.latencies) == [
        f"{kind}_{at}" for kind in ("read", "write") for at in PERCENTILES.values()
    ]
    for kind in ("read", "write"):
        middle, high, highest = (window.latencies[f"{kind}_{at}"] for at in PERCENTILES.values())
        assert 0 < middle <= high <= highest


def side(iops: float, *nanoseconds: int) -> dict[str, Any]:
    names = ("50.000000", "99.000000", "99.900000")
    return {
        "iops": iops,
        "clat_ns": {"percentile": dict(zip(names, nanoseconds, strict=True))},
    }


def test_percentiles_of_a_slow_disk_are_read_in_microseconds() -> None:
    job = {"read": side(70.5, 2000, 9000, 50_000), "write": side(30.0, 1000, 2000, 3000)}
    window = read_mixed(job)
    assert window.rate == 100.5
    assert list(window.latencies.values()) == [2.0, 9.0, 50.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "job",
    [
        {"read": side(1.0, 1, 2, 3)},
        {"read": side(1.0, 1, 2, 3), "write": {"iops": 1.0, "clat_ns": {}}},
        {"read": side(1.0, 1, 2, 3), "write": {"iops": None, "clat_ns": {"percentile": {}}}},
        {"read": [], "write": 3},
    ],
)
def test_output_without_latencies_is_no_result(job: dict[str, Any]) -> None:
    with pytest.raises(UnreadableOutput, match=r"no latencies of (read|write)s"):
        read_mixed(job)


@needs_fio
@pytest.mark.parametrize("direction", ["read", "write"])
def test_windows_of_random_blocks_have_growing_percentiles(tmp_path: Path, direction: Any) -> None:
    with DiskFile(tmp_path, 4 * MIB, str(FIO)) as disk:
        run = disk.random_windows(direction, 0.4, 0.1)
    assert sum(run.rates) > 0
    assert list(run.latencies) == list(PERCENTILES.values())
    for middle, high, highest in zip(*run.latencies.values(), strict=True):
        assert 0 < middle <= high <= highest


GOLDEN = Path(__file__).parents[1] / "tool_outputs" / "data"
REQUESTS = [4803, 4154, 2734]
EXPECTED = [
    {"p50": 436.224, "p99": 2899.968, "p999": 3686.4},
    {"p50": 741.376, "p99": 2867.2, "p999": 3457.024},
    {"p50": 1466.368, "p99": 2572.288, "p999": 3162.112},
]
TOLD = {"p50": 1155.072, "p99": 2867.2, "p999": 3620.864}
"""Microseconds that fio printed for the same run."""


def test_recorded_histograms_say_what_fio_said_of_the_whole_run() -> None:
    windows = read_histograms((GOLDEN / "fio_clat_hist.log").read_text(encoding="ascii"))
    assert [sum(one) for one in windows] == REQUESTS
    assert [percentiles(one, PERCENTILES) for one in windows] == EXPECTED
    whole = [sum(column) for column in zip(*windows, strict=True)]
    for name, told in TOLD.items():  # fio's own, of all windows and the part after the last one
        assert percentiles(whole, PERCENTILES)[name] == pytest.approx(told, rel=0.15)


@pytest.mark.parametrize(
    ("number", "nanoseconds"),
    # As fio's own table of bins has them: 64 for each octave, of twice the width in the next one.
    [
        (0, 0.0),
        (127, 127.0),
        (128, 129.0),
        (191, 255.0),
        (192, 258.0),
        (BINS - 1, 17_112_760_320.0),
    ],
)
def test_bins_have_the_latencies_of_fios_table(number: int, nanoseconds: float) -> None:
    assert middle_of(number) == nanoseconds


def test_percentiles_are_those_of_the_requests_in_bins() -> None:
    bins = [0] * BINS
    bins[100], bins[300], bins[600] = 500, 490, 10
    wanted = {"50": "p50", "99": "p99", "99.9": "p999", "100": "most"}
    found = percentiles(bins, wanted)
    assert list(found) == list(wanted.values())
    assert list(found.values()) == [middle_of(at) / 1e3 for at in (100, 300, 600, 600)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no request was finished"),
        ("250, 0, 4096, " + ", ".join(["0"] * BINS), "no request was finished"),
        ("250, 0, 4096, " + ", ".join(["1"] * (BINS - 1)), f"{BINS - 1} bins of latency"),
        ("250, 0, 4096, " + ", ".join(["1"] * (BINS + 1)), f"{BINS + 1} bins of latency"),
        ("250, 0, 4096, " + ", ".join(["-1"] * BINS), f"{BINS} bins of latency"),
        ("time, direction, block, bins", "time, direction"),
        ("250, 0, 4096, " + ", ".join(["1.5"] * BINS), "1.5"),
    ],
    ids=["empty", "no request", "too few", "too many", "negative", "words", "fractions"],
)
def test_log_of_other_histograms_is_no_result(text: str, words: str) -> None:
    with pytest.raises(UnreadableOutput, match=words):
        read_histograms(text)


def test_window_without_a_request_has_no_latency() -> None:
    bins = ["0"] * BINS
    bins[7] = "2"
    still, one = (f"250, 0, 4096, {', '.join(each)}\n" for each in (["0"] * BINS, bins))
    assert read_histograms(still + one + "\n" + still) == [[int(count) for count in bins]]


def test_latencies_count_for_the_runs_whose_rates_were_kept() -> None:
    disturbed, first, second = (Windows([rate, 2.0], {"p50": [rate]}) for rate in (1.0, 3.0, 4.0))
    runs = [disturbed, first, disturbed, second]
    assert counted(runs, [3.0, 2.0, 4.0, 2.0]) == [first, second]
    assert counted(runs, [4.0, 2.0]) == [second]
    assert counted([Windows([], {}), first], [3.0, 2.0]) == [first]
    assert counted([], []) == []


def test_small_files_are_made_looked_up_and_removed(tmp_path: Path) -> None:
    with SmallFiles(tmp_path, 20) as files:
        (place,) = tmp_path.iterdir()
        for work, left in ((files.create, 20), (files.look, 20), (files.create, 20)):
            assert work() > 0
            assert len(list(place.iterdir())) == left
        assert files.unlink() > 0
        assert list(place.iterdir()) == []
        assert files.unlink() > 0
        assert files.wrong_files() == 0
        files.create()
        next(place.iterdir()).unlink()
        with pytest.raises(FileNotFoundError):
            files.unlink()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.alone
def test_ten_times_the_files_take_longer(tmp_path: Path, costs: Callable[..., list[float]]) -> None:
    with SmallFiles(tmp_path, 30) as few, SmallFiles(tmp_path, 300) as many:
        for one, other in ((few.create, many.create), (few.look, many.look)):
            least = costs(one, other)
            assert least[1] > 3 * least[0]


def test_wrong_or_short_content_of_a_small_file_is_noticed(tmp_path: Path) -> None:
    def flipped(file: int, data: bytes) -> int:
        last = data == (7).to_bytes(8, "little") * (len(data) // 8)
        return os.write(file, data[:-1] + bytes([data[-1] ^ 1]) if last else data)

    with SmallFiles(tmp_path, 10, write=flipped) as files:
        assert files.wrong_files() == 1
    with SmallFiles(tmp_path, 10, write=lambda file, data: os.write(file, data[:-1])) as files:
        assert files.wrong_files() == 10


def test_synced_blocks_go_round_and_a_lost_or_changed_one_is_noticed(tmp_path: Path) -> None:
    written: list[int] = []

    def lossy(file: int, data: bytes) -> int:
        written.append(len(data))
        if len(written) == RING + 3:
            return len(data)  # says that it wrote, and did not
        if len(written) == RING + 5:
            data = data[:100] + bytes([data[100] ^ 8]) + data[101:]
        return os.write(file, data)

    for write, wrong in ((os.write, 0), (lossy, 2)):
        with SyncedFile(tmp_path, write=write) as file:
            for _ in range(RING + 10):
                file.sync()
            assert file.wrong_blocks() == wrong
    assert written == [BLOCK] * (RING + 10)
    assert list(tmp_path.iterdir()) == []
