"""What tests print: gigabytes are cut to a bound before pytest reads them, and nobody closes its files.

pytest reads all that a phase has printed as one text, and keeps it, sends it and writes it several times.
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
"""Bytes of each half, with room for the line between them: a report's text is not cut again."""

closed_key = pytest.StashKey["set[str]"]()
"""Names of the streams that a test tried to close."""


class CapturedOutput:
    """Bounds what tests print, and keeps the files open in which pytest captures it.

    A test that closes ``sys.stdout`` would take it from all that come after it.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._captures = config.option.capture != "no"  # else the streams are the user's own
        self._guarded: dict[str, Any] = {}  # name -> the stream that pytest captures
        self._closed: set[str] = set()

    @pytest.hookimpl(wrapper=True, trylast=True)  # innermost: pytest reads after it
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Guard the streams; the body of the test may still read what its fixtures have captured."""
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
        """Cut what was printed."""
        try:
            return (yield)
        finally:
            self._cut(sys.stdout, sys.stderr)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        """Cut what was printed."""
        try:
            return (yield)
        finally:
            self._cut(sys.stdout, sys.stderr)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_make_collect_report(self) -> Generator[None, Any, Any]:
        """Cut what importing a file printed."""
        try:
            return (yield)
        finally:
            self._cut(sys.stdout, sys.stderr)

    def pytest_unconfigure(self) -> None:
        """Let pytest close its files."""
        for name in list(self._guarded):
            self._release(name)

    def _cut(self, *more: Any) -> None:
        if not self._captures:
            return
        for stream in {id(one): one for one in (*self._guarded.values(), *more)}.values():
            # Whatever a test has put in the place of a stream: it is not worth a test.
            with suppress(OSError, ValueError, AttributeError):
                _cut(stream)

    def _guard(self, name: str, stream: Any) -> None:
        def refuse() -> None:
            self._closed.add(f"sys.{name}")

        def detach() -> Any:
            refuse()
            return stream.buffer

        # Also the buffer: a second text layer around it closes it when it is forgotten.
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
    """Cut what a stream of pytest's has captured; the file of another is left alone."""
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
    # pytest's are files without a name; everything else may be worth something to somebody.
    if not stat.S_ISREG(found.st_mode) or found.st_nlink or found.st_size <= MAX_TEXT_LENGTH:
        return
    size = found.st_size
    kept = _kept(os.pread(file, _HALF, 0), os.pread(file, _HALF, size - _HALF), size)
    os.ftruncate(file, 0)
    os.lseek(file, 0, os.SEEK_SET)  # shared with descriptor 1 or 2 and with all children
    while kept:
        kept = kept[os.write(file, kept) :]


def _kept(head: bytes, tail: bytes, size: int) -> bytes:
    note = f"\n... {size - len(head) - len(tail)} bytes left out ...\n"
    # A character may be cut in two.
    parts = head.decode("utf-8", "replace"), note, tail.decode("utf-8", "replace")
    return "".join(parts).encode("utf-8")
