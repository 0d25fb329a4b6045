"""Store the values of a fleet in memory up to a budget, and in files of a scratch folder beyond it.

``anubis learn`` and ``anubis export`` use it, since they need all values of a fleet at once.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from weakref import WeakSet

import numpy as np

from pytest_anubis.core.sample import FloatArray
from pytest_anubis.store.scratch_folders import ScratchFolder

HELD = 1 << 28
"""Bytes of values in memory before files are used: those of hundreds of nodes."""

_SMALL = 1 << 17
"""Bytes of an array that always stays in memory: a mapping would cost the kernel more than it saves."""


class SpilledValues:
    """A `core.gather.SampleStorage` that keeps values in memory up to a budget, and in files beyond it.

    Files are memory-mapped: pages are read on demand, `release` drops them from memory, and `close` deletes
    the files. Arrays must not be used after that.

    Args:
        budget: Bytes held in memory; default: `HELD`.
        parent: Parent of the scratch folder, made when it is needed; default: the one for temporary files.
    """

    def __init__(self, budget: int | None = None, parent: Path | None = None) -> None:
        self._left = HELD if budget is None else budget
        self._parent = parent
        self._stack = ExitStack()
        self._folder: Path | None = None
        self._maps: WeakSet[mmap.mmap] = WeakSet()
        self._here: dict[str, list[FloatArray]] = {}
        self._filed: set[str] = set()
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files."""
        self._maps.clear()
        self._here.clear()
        self._stack.close()

    def append(self, name: str, values: FloatArray) -> None:
        """Append values to those of a name."""
        if not values.nbytes:  # a file of 0 bytes cannot be mapped
            return
        if name not in self._filed:
            self._left -= values.nbytes
            self._here.setdefault(name, []).append(values)
            if self._left >= 0:
                return
            values = np.concatenate(self._here.pop(name))
            self._left += values.nbytes
            self._filed.add(name)
        self._write(self._path(name), values)

    def pop(self, name: str) -> FloatArray:
        """Return all values of a name as one array; pop no name twice."""
        if name in self._filed:
            return self._mapped(self._path(name))
        values = np.concatenate([np.empty(0), *self._here.pop(name, [])])
        self._left += values.nbytes
        return values

    def keep(self, parts: Iterable[FloatArray]) -> FloatArray:
        """Return the parts as one array, in memory if it is small or within the budget."""
        held: list[FloatArray] = []
        size = 0
        path: Path | None = None
        for part in parts:
            held.append(part)
            size += part.nbytes
            if path is None and size > max(_SMALL, self._left):
                self._count += 1
                path = self._path(f"kept-{self._count}")
            if path is not None:
                self._write(path, *held)
                held.clear()
        if path is None:
            self._left -= size
            return np.concatenate([np.empty(0), *map(np.ravel, held)])
        return self._mapped(path)

    def release(self) -> None:
        """Free the memory that was filled from files, which are read again when they are needed."""
        for one in self._maps:
            one.madvise(mmap.MADV_DONTNEED)

    def _path(self, name: str) -> Path:
        if self._folder is None:
            self._folder = self._stack.enter_context(ScratchFolder(self._parent)).path
        return self._folder / f"{name}.values"

    def _write(self, path: Path, *parts: FloatArray) -> None:
        with path.open("ab") as file:
            for part in parts:
                file.write(np.ascontiguousarray(part, dtype=np.float64).data)

    def _mapped(self, path: Path) -> FloatArray:
        with path.open("rb") as file:
            found = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        path.unlink()  # the mapping keeps it until the array is freed
        self._maps.add(found)
        return np.frombuffer(found, dtype=np.float64)
