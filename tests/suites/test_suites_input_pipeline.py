"""Loading has the rate of its reader, steps wait for it as long as it takes, a changed byte is named."""

from __future__ import annotations

import errno
import hashlib
import os
import statistics
import threading
import time
import zlib
from pathlib import Path
from random import SystemRandom
from typing import Any

import numpy as np
import pytest
import torch

from suites.storage import test_input_pipeline as pipeline
from suites.storage.fed_training import Fed, FedTraining, binding
from suites.storage.samples import DamagedSampleError, Samples, read_cold
from tests.suites.test_suites_on_a_card import Node, Taken
from tests.suites.work_probe import doubles

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
SHAPE = (4, 32, 32, 32)
COUNT, BATCH, WIDTH = 8, 2, 2
RATES = (2e6, 1e6, 0.5e6)
"""Bytes a second of readers, of which the fastest is slower than any disk: all samples are 400 kB."""


class Bucket:
    """Reads files at a rate that all threads share."""

    def __init__(self, rate: float) -> None:
        self.rate, self._free, self._lock = rate, 0.0, threading.Lock()

    def __call__(self, path: Path) -> bytes:
        """Return what the file has, when its bytes had their time."""
        content = read_cold(path)
        with self._lock:
            begin = max(self._free, time.monotonic())
            self._free = begin + len(content) / self.rate
        time.sleep(max(0.0, self._free - time.monotonic()))
        return content


def test_samples_are_staged_and_loaded_as_they_are(tmp_path: Path) -> None:
    with Samples(tmp_path, COUNT, SHAPE, 2) as samples:
        assert samples.stage() > 0
        [folder] = tmp_path.iterdir()
        files = sorted(folder.iterdir())
        loaded = list(samples.loaded())
        assert len(files) == len(loaded) == COUNT
        assert samples.wrong_files() == []
        for path, sample in zip(files, loaded, strict=True):
            raw = zlib.decompress(path.read_bytes())
            assert np.array_equal(np.frombuffer(raw, np.int16).reshape(SHAPE), sample)
            assert len(raw) > 3 * path.stat().st_size
        assert len({hashlib.sha256(sample.tobytes()).digest() for sample in loaded}) == COUNT
        assert samples.packed_bytes == sum(path.stat().st_size for path in files)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.alone
@pytest.mark.parametrize("part", ["loading", "reading"])
def test_loading_and_reading_have_the_rate_of_the_reader(tmp_path: Path, part: str) -> None:
    hidden = [2 * rate * SystemRandom().uniform(0.7, 1.3) for rate in RATES]
    bucket = Bucket(hidden[0])
    with Samples(tmp_path, COUNT, SHAPE, 2, read=bucket) as samples:
        samples.stage()
        each = samples.packed_bytes / COUNT
        for bucket.rate in hidden:
            # The quickest of a few: another process may take the core in any of them.
            found = max(samples.rate(part, 0.1) for _ in range(2)) * each
            assert found == pytest.approx(bucket.rate, rel=0.2)
        assert samples.rate("decompressing", 0.1) * each > 1.5 * max(hidden)


@pytest.mark.alone
def test_slower_reading_stalls_a_larger_share_of_a_step(tmp_path: Path) -> None:
    bucket = Bucket(RATES[0])
    with Samples(tmp_path, COUNT, SHAPE, 2, read=bucket) as samples:
        samples.stage()
        training = FedTraining(samples, BATCH, CPU, width=WIDTH)
        shares = []
        for bucket.rate in RATES:
            runs = [training.run() for _ in range(2)]
            shares.append(statistics.median(run.stall_share for run in runs))
            # Each way through waits at least for what the reader takes, and computes meanwhile.
            assert min(run.loaded for run in runs) > 0.8 * samples.packed_bytes / bucket.rate
        assert shares == sorted(set(shares))
        assert shares[-1] > 0.5
        ceilings = training.ceilings(0.05)
    assert min(ceilings, key=ceilings.__getitem__) == "reading"
    assert binding(ceilings).startswith("reading binds")


def test_stall_share_is_what_is_longer_than_without_loading() -> None:
    assert Fed(loaded=2.0, synthetic=1.5).stall_share == 0.25
    assert Fed(loaded=2.0, synthetic=1.0).stretch == 2.0
    assert Fed(loaded=1.0, synthetic=1.1).stall_share == 0.0


@pytest.mark.alone
def test_twice_the_channels_are_twice_the_work(tmp_path: Path) -> None:
    def seconds(times: int) -> float:
        with Samples(tmp_path, 4, (4 * times, *SHAPE[1:]), 1) as samples:
            return 1 / samples.rate("decompressing", 0.2)

    doubles(seconds)


def test_training_is_fed_what_was_loaded(tmp_path: Path) -> None:
    with Samples(tmp_path, BATCH, SHAPE, 1) as samples:
        samples.stage()
        training = FedTraining(samples, BATCH, CPU, width=WIDTH)
        training.run()
        fed = training.step._inputs
        assert torch.equal(fed, torch.from_numpy(np.stack(list(samples.loaded()))).float())


def flipping(place: int, number: int = 4) -> Any:
    """Return a writer that flips a bit of one file, the fourth or another that is written."""
    written = []

    def write(file: int, content: bytes) -> int:
        written.append(file)
        if len(written) == number:
            changed = bytearray(content)
            changed[place % len(changed)] ^= 1
            content = bytes(changed)
        return os.write(file, content)

    return write


@pytest.mark.parametrize("place", [100, 20_000, -1])
def test_flipped_bit_of_a_staged_file_fails_the_benchmark_and_names_it(
    tmp_path: Path, place: int
) -> None:
    with Samples(tmp_path, COUNT, SHAPE, 1, write=flipping(place)) as samples:
        samples.stage()
        assert samples.wrong_files() == ["sample-00003.z"]
        with pytest.raises(DamagedSampleError, match=r"sample-00003\.z is damaged"):
            list(samples.loaded())


def test_bit_that_decompresses_all_the_same_fails_too(tmp_path: Path) -> None:
    taken: Any = Taken()
    with Samples(tmp_path, COUNT, SHAPE, 1) as samples:
        samples.stage()
        training = FedTraining(samples, BATCH, CPU, width=WIDTH)
        stage = samples.stage

        def stage_another() -> float:
            rate = stage()
            path = sorted(samples._staged)[5]
            path.write_bytes(zlib.compress(zlib.decompress(path.read_bytes()), 0))
            return rate

        samples.stage = stage_another  # type: ignore[method-assign]
        with pytest.raises(AssertionError, match=r"not what was staged: sample-00005\.z"):
            pipeline.measure(taken, 1, samples, training)


def test_file_that_a_later_staging_made_right_again_is_named(tmp_path: Path) -> None:
    taken: Any = Taken()
    with Samples(tmp_path, COUNT, SHAPE, 1, write=flipping(100, COUNT + 4)) as samples:
        samples.stage()
        training = FedTraining(samples, BATCH, CPU, width=WIDTH)
        with pytest.raises(AssertionError, match=r"not what was staged: sample-00003\.z"):
            pipeline.measure(taken, 2, samples, training)
        assert samples.wrong_files() == []


def test_file_that_a_disk_cannot_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "sample.z").write_bytes(b"1")
    monkeypatch.setattr(os, "posix_fadvise", broken)
    with pytest.raises(OSError, match=r"Input/output error: .*sample\.z"):
        read_cold(tmp_path / "sample.z")


def test_threads_begin_the_next_pass_while_one_still_reads(tmp_path: Path) -> None:
    begun, again, waited = list[str](), threading.Event(), list[bool]()

    def read(path: Path) -> bytes:
        begun.append(path.name)
        if begun.count("sample-00000.z") > 1:
            again.set()
        if path.name == "sample-00007.z":
            waited.append(again.wait(20))
        return b""

    with Samples(tmp_path, COUNT, SHAPE, 2, read=read) as samples:
        samples.stage()
        assert samples.rate("reading", 0.1) > 0
    assert waited
    assert all(waited)


def test_threads_share_the_cores_of_a_host_with_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, int]] = []

    def measure(_metric: Any, _rounds: int, samples: Samples, *_: object) -> list[Fed]:
        found.append((samples.threads, torch.get_num_threads()))
        return [Fed(1.0, 1.0)]

    sizes = {"samples": COUNT, "batch": BATCH, "length": SHAPE[-1], "width": WIDTH}
    monkeypatch.setattr(pipeline, "ON_A_HOST", sizes)
    monkeypatch.setattr(pipeline, "measure", measure)
    monkeypatch.setattr(FedTraining, "ceilings", lambda *_: {"computing": 1.0})
    for cores in (1, 5, 64):
        metric: Any = Taken()
        node: Any = Node("standard", cores, tmp_path)
        pipeline.test_input_pipeline(metric, node, lambda *_: None)
    assert found == [(1, 1), (2, 3), (COUNT // 2, 64 - COUNT // 2)]


def test_short_writes_are_finished(tmp_path: Path) -> None:
    with Samples(
        tmp_path, 2, SHAPE, 1, write=lambda file, part: os.write(file, part[:1000])
    ) as samples:
        samples.stage()
        assert samples.wrong_files() == []
