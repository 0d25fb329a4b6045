"""Limits the captured output of tests, and keeps the files open in which pytest captures it.

pytest reads the whole output of a phase as one text, keeps it, sends it and writes it several times, which
gigabytes would break. A test that closes ``sys.stdout`` would take it from all later tests.

`leftovers` and `watching` use it.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import pytest

from pytest_anubis.codec.encodable_text import MAX_TEXT_LENGTH

_HALF = MAX_TEXT_LENGTH // 2 - 64
"""Bytes kept of each end of the output; with the line between them, a report's text is not cut again."""

closed_key = pytest.StashKey["set[str]"]()
"""Names of the streams that a test tried to close."""


class CapturedOutput:
    """Plugin that cuts the captured output after every phase, and guards the captured streams."""

    def __init__(self, config: pytest.Config) -> None:
        self._captures = (
            config.getoption("capture", "no") != "no"
        )  # else the streams are the user's own
        self._guarded: dict[str, Any] = {}  # name -> stream in which pytest captures
        self._closed: set[str] = set()

    @pytest.hookimpl(wrapper=True, trylast=True)  # innermost, before pytest reads the output
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Guard the streams, and cut only these, because the body may read what its fixtures captured."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if self._guarded.get(name) is not stream:
                self._release(name)
                self._guard(name, stream)
        self._closed = item.stash.setdefault(closed_key, set())
        try:
            return (yield)
        finally:
            self._cut()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """Cut the output of a phase, or of importing a file."""
        try:
            return (yield)
        finally:
            self._cut(sys.stdout, sys.stderr)

    pytest_runtest_teardown = pytest_runtest_call
    pytest_make_collect_report = pytest_runtest_call

    def pytest_unconfigure(self) -> None:
        """Release the streams, so that pytest can close its files."""
        for name in list(self._guarded):
            self._release(name)

    def _cut(self, *more: Any) -> None:
        if not self._captures:
            return
        for stream in {id(one): one for one in (*self._guarded.values(), *more)}.values():
            # A test may have replaced the stream with anything, which must not fail the test.
            with suppress(OSError, ValueError, AttributeError):
                _cut(stream)

    def _guard(self, name: str, stream: Any) -> None:
        def refuse() -> None:
            self._closed.add(f"sys.{name}")

        def detach() -> Any:
            refuse()
            return stream.buffer

        # The buffer too, because a second text layer around it closes it when it is garbage-collected.
        with suppress(AttributeError, TypeError):
            stream.buffer.close = refuse
            stream.close, stream.detach = refuse, detach
            self._guarded[name] = stream

    def _release(self, name: str) -> None:
        stream = self._guarded.pop(name, None)
        with suppress(AttributeError, ValueError):
            del stream.close, stream.detach
            del stream.buffer.close


def _cut(stream: Any) -> None:
    """Cut the output in a stream of pytest's; a user's file is left alone."""
    stream.flush()
    buffer = stream.buffer
    if isinstance(buffer, io.BytesIO):
        with buffer.getbuffer() as view:
            if len(view) <= MAX_TEXT_LENGTH:
                return
            kept = _kept(bytes(view[:_HALF]), bytes(view[-_HALF:]), len(view))
        buffer.seek(0)
        buffer.truncate()
        buffer.write(kept)
        return
    file = stream.fileno()
    found = os.fstat(file)
    # pytest captures in files without a name; any other file belongs to the user.
    if not stat.S_ISREG(found.st_mode) or found.st_nlink or found.st_size <= MAX_TEXT_LENGTH:
        return
    size = found.st_size
    kept = _kept(os.pread(file, _HALF, 0), os.pread(file, _HALF, size - _HALF), size)
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)  # descriptors 1 and 2 and all children share this position
    while kept:
        kept = kept[os.write(file, kept) :]


def _kept(head: bytes, tail: bytes, size: int) -> bytes:
    note = f"\n... {size - len(head) - len(tail)} bytes left out ...\n"
    # Decoding replaces a character that the cut has split.
    parts = head.decode("utf-8", "replace"), note, tail.decode("utf-8", "replace")
    return "".join(parts).encode("utf-8")
