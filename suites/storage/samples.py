"""Compressed training samples: staged to a file system, and read and decompressed by threads."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import cycle
from pathlib import Path
from typing import Any, Self

import numpy as np

from suites.storage.small_files import Write

Read = Callable[[Path], bytes]

LEVEL = 1
"""Of zlib's compression: more only takes longer before the first sample is there."""

COUNTS = np.minimum(31, 64 // (1 + np.arange(256))).astype(np.int16)
"""Matter in a cell by a random byte: mostly none, so that samples compress to a fifth."""

PART = 1 << 22
"""Bytes that are handed to the file system at a time."""

AHEAD = 8
"""Samples that wait for the training at most, beyond those that the threads are at: a batch."""


class DamagedSampleError(RuntimeError):
    """A sample cannot be decompressed, or is not what was staged."""


def read_cold(path: Path) -> bytes:
    """Return a file's bytes, from its disk where the kernel lets go of what it has cached of it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    except OSError as error:  # of reading, which does not name the file
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)


class Samples:
    """Cubes of whole numbers (int16) in compressed files; a context manager that leaves none.

    Args:
        folder: Where their folder is made.
        count: Number of samples.
        shape: Of a sample: channels, and three axes.
        threads: Number of threads that read and decompress; fewer where one would have less than two samples.
        write: Writes a part of a file; one that makes a fault shows that it is noticed.
        read: Reads a file; a slower one shows that it is measured.

    Attributes:
        threads: How many there are.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        shape: tuple[int, ...],
        threads: int,
        *,
        write: Write = os.write,
        read: Read = read_cold,
    ) -> None:
        self.shape, self.count = shape, count
        self._write, self._read = write, read
        self._folder = tempfile.TemporaryDirectory(prefix="anubis-samples-", dir=folder)
        self.threads = max(1, min(threads, count // 2))
        self._pool = ThreadPoolExecutor(self.threads)
        self._ahead = self.threads + min(self.threads, AHEAD)
        self._packed = list(self._pool.map(self._packed_sample, range(count)))
        self._staged: dict[Path, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    @property
    def packed_bytes(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self._packed))

    def stage(self) -> float:
        """Write all files until the disk says that it has them, and keep their SHA-256; return bytes/s."""
        begin = time.perf_counter()
        for number, packed in enumerate(self._packed):
            path = Path(self._folder.name) / f"sample-{number:05}.z"
            self._staged[path] = hashlib.sha256(packed).digest()
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                left = memoryview(packed)
                while left:
                    left = left[self._write(file, bytes(left[:PART])) :]
                os.fsync(file)
            finally:
                os.close(file)
        return self.packed_bytes / (time.perf_counter() - begin)

    def loaded(self) -> Iterator[np.ndarray]:
        """Give the samples in order, read and decompressed some ahead by the threads.

        Raises:
            DamagedSampleError: A file cannot be decompressed.
        """
        return self._ahead_of(self._load, self._staged)

    def rate(self, part: str, seconds: float) -> float:
        """Return how many samples a second the threads load, or do a part of it with.

        Args:
            part: ``loading``; ``reading`` alone; ``decompressing`` alone, of files in memory.
            seconds: All samples are gone through again until it lasted so long.
        """
        parts: dict[str, tuple[Callable[[Any], object], Iterable[object]]] = {
            "loading": (self._load, self._staged),
            "reading": (self._read, self._staged),
            "decompressing": (zlib.decompress, self._packed),
        }
        work, given = parts[part]
        results = self._ahead_of(work, cycle(given))
        turn = range(self.threads)  # threads that begin together end together
        for _ in turn:
            next(results)
        done, begin = 0, time.perf_counter()
        while (lasted := time.perf_counter() - begin) < seconds or not done:
            for _ in turn:
                next(results)
            done += self.threads
        results.close()
        return done / lasted

    def wrong_files(self) -> list[str]:
        """Return the names of the files that are not what was staged."""
        digests = self._pool.map(self._digest, self._staged)
        return [
            path.name
            for (path, staged), found in zip(self._staged.items(), digests, strict=True)
            if staged != found
        ]

    def _ahead_of(self, work: Callable[[Any], Any], given: Iterable[object]) -> Generator[Any]:
        """Give what `work` returns of each, in order; until it is closed the threads are some ahead."""
        waiting: deque[Future[Any]] = deque()
        try:
            for one in given:
                waiting.append(self._pool.submit(work, one))
                if len(waiting) > self._ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)

    def _digest(self, path: Path) -> bytes:
        return hashlib.sha256(self._read(path)).digest()

    def _load(self, path: Path) -> np.ndarray:
        try:
            sample = np.frombuffer(zlib.decompress(self._read(path)), np.int16)
            return sample.reshape(self.shape)
        except (zlib.error, ValueError) as error:
            raise DamagedSampleError(f"{path.name} is damaged: {error}") from error

    def _packed_sample(self, number: int) -> bytes:
        cells = np.random.default_rng(number).integers(0, 256, self.shape, np.uint8)
        return zlib.compress(COUNTS[cells].tobytes(), LEVEL)
