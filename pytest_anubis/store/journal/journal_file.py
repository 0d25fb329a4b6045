"""Write the journal of a run: an append-only file with one JSON object per line.

One ``write`` on a descriptor opened for appending hands a whole line to the kernel, so a killed process loses
at most the event in flight. The file is synchronised once a second, so a power cut loses about a second.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Self

from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.core.events import Event, NodeDecided, Resumed, RunFinished, RunStarted
from pytest_anubis.store.journal.journal_events import FORMAT, SCHEMA, JournalError, event_to_plain
from pytest_anubis.store.journal.journal_lines import last_number, line_of, text_of
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, journal_file

RUNS_FOLDER = "runs"

_SYNC_EVERY = 1.0  # seconds
_SYNC_ALWAYS = (RunStarted, NodeDecided, RunFinished)
_MAX_WAITING_BYTES = 64 * 1024 * 1024  # kept in memory while the disk takes nothing

_MOMENT = re.compile(rb'"at":(\d+(?:\.\d+)?),"seq":\d+,"crc":')
_MAX_LAST_BYTES = 4096  # of the last event, which is a short line
_CANNOT_SYNC = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EROFS)
"""Errors of pipes and file systems that cannot be synchronised, and need not be."""

_BEGINNING = re.compile(
    rb'\{"event":"(?:%s)".*"pid":([0-9]{1,19})[,}]'
    % b"|".join(event.kind.encode() for event in (RunStarted, Resumed))
)


# The clock is bound here, since a test in this process may replace `time.time` (freezegun).
def _now(clock: Callable[[], float] = time.time) -> float:
    return clock()


_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Journal:
    """A writer of the journal of one run, safe to call from several threads of one process.

    Make one with `create` or `open_existing`. A disk error never raises: it is reported once on stderr, and
    events that could not be written are kept (up to 64 MiB) and tried again with every later event.

    Attributes:
        trouble: The first error of writing; empty without one.
        lost: How many events could not be kept at all.
        unsafe: The first error of synchronising, or what another program did to the file meanwhile; empty
            without one.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.trouble = ""
        self.lost = 0
        self.unsafe = ""
        self._descriptor = descriptor
        self._lock = threading.Lock()
        _open_ones.add(self)
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._synced = time.monotonic()
        self._torn = False
        self._place = path.absolute()  # a test may change the working folder
        self._size = os.fstat(descriptor).st_size
        self._number = 0  # of the last line

    def forget(self) -> None:
        """Close the descriptor in a process that a test has forked, which must not hold the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @classmethod
    def create(cls, store: Path, run_id: str) -> Journal:
        """Start the journal ``<store>/runs/<run_id>/journal.jsonl`` of a new run, and make its folders.

        Raises:
            JournalError: The id is not valid or taken, or the folder cannot be made.
        """
        if _RUN_ID.fullmatch(run_id) is None:
            raise JournalError(
                f"run id {run_id!r}: use letters, digits, '.', '_' and '-', at most 128 characters"
            )
        path = journal_path(store, run_id)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o644)
        except FileExistsError:
            raise JournalError(f"{path}: this run exists already; choose another run id") from None
        except OSError as error:
            raise JournalError(
                f"{path}: cannot start a journal ({error.strerror}); choose another store folder"
            ) from error
        _lock(path, descriptor)
        return cls(path, descriptor)

    @classmethod
    def open_existing(cls, path: Path) -> Journal:
        """Open a journal, or that of a run's folder, to append to it; a truncated last line is closed.

        Raises:
            JournalError: There is no such journal, it cannot be written, or another process writes it.
        """
        path = journal_file(path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise JournalError(f"{path}: cannot go on with it ({error.strerror})") from error
        _lock(path, descriptor)
        journal = cls(path, descriptor)
        size = os.fstat(descriptor).st_size
        journal._number = last_number(path.read_bytes())
        journal._torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        return journal

    def write(self, event: Event) -> None:
        """Append one event at once, with ``at``, the time in seconds since 1970."""
        plain = event_to_plain(event)
        if isinstance(event, RunStarted):
            plain |= {"format": FORMAT, "schema": SCHEMA}
        plain.setdefault("at", round(_now(), 3))
        if isinstance(event, (RunStarted, Resumed)):
            plain["pid"] = os.getpid()  # named to a second process that finds the journal locked
        text = text_of(plain)
        with self._lock:
            if self._descriptor < 0:
                self._came_late()
                return
            self._keep(text)
            self._drain()
            if not self._waiting:
                self._sync(always=isinstance(event, _SYNC_ALWAYS))

    def close(self) -> None:
        """Write waiting events, synchronise, and close; doing it twice is harmless."""
        with self._lock:
            if self._descriptor < 0:
                return
            self._drain()
            self._sync(always=True)
            if self._waiting:
                self.lost += len(self._waiting)
                _warn(
                    f"{self.path}: {len(self._waiting)} events could not be written "
                    f"({self.trouble}); this journal is incomplete"
                )
                self._waiting.clear()
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def missing(self) -> int:
        """How many events the disk has not taken so far."""
        with self._lock:
            return self.lost + len(self._waiting)

    @property
    def unrecorded(self) -> str:
        """A sentence about events that may be missing on the disk; empty if all are there."""
        if self.missing:
            return f"events missing in this run's journal: {self.missing} ({self.trouble})"
        if self.unsafe:
            return f"the disk may not have kept this run's journal: {self.unsafe}"
        return ""

    def withdraw(self) -> None:
        """Close and delete the journal with its run's folder, for a run that never began."""
        self.close()
        with contextlib.suppress(OSError):  # then it stays as a run that was broken off
            self._place.unlink()
            self._place.parent.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, text: bytes) -> None:
        line = line_of(text, self._number + 1)
        if self._waiting_bytes + len(line) > _MAX_WAITING_BYTES:
            self.lost += 1
            return
        self._number += 1
        self._waiting.append(line)
        self._waiting_bytes += len(line)

    def _drain(self) -> None:
        while self._waiting:
            line = self._waiting[0]
            # A truncated line is closed first, so that it damages no other.
            data = b"\n" + line if self._torn else line
            try:
                written = os.write(self._descriptor, data)
            except OSError as error:
                self._fail(error.strerror or str(error))
                return
            self._size += written
            if written < len(data):
                self._torn = not self._taken_back(written) and (self._torn or written > 0)
                self._fail("the disk took only part of an event")
                return
            self._torn = False
            self._waiting.popleft()
            self._waiting_bytes -= len(line)

    def _taken_back(self, written: int) -> bool:
        """Remove half a line from the file again, since the whole line will be written later."""
        try:
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
        except OSError:
            return written == 0
        return not self._torn

    def _sync(self, *, always: bool) -> None:
        now = time.monotonic()
        if always or now - self._synced >= _SYNC_EVERY:
            self._synced = now
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                if error.errno not in _CANNOT_SYNC:
                    # Kept from the first time: the kernel reports such an error only once.
                    self.unsafe = self.unsafe or error.strerror or str(error)
            self.unsafe = self.unsafe or self._changed()

    def _changed(self) -> str:
        """Return what another program, such as a test, has done to the file; empty if nothing."""
        ours = os.fstat(self._descriptor)
        if not stat.S_ISREG(ours.st_mode):
            return ""
        try:
            there = self._place.stat()
        except OSError:
            return "somebody removed or moved it during the run"
        if not os.path.samestat(ours, there):
            return "somebody put another file in its place during the run"
        return "" if ours.st_size == self._size else "somebody changed it during the run"

    def _came_late(self) -> None:
        """Count an event after the end, as from a worker that ends slowly, and report the first one."""
        self.lost += 1
        if not self.trouble:
            self.trouble = "the journal is closed already"
            _warn(f"{self.path}: what came after the run's end is not in it")

    def _fail(self, text: str) -> None:
        if not self.trouble:
            self.trouble = text
            _warn(
                f"{self.path}: events cannot be written ({text}); the run goes on, they are kept in "
                "memory and tried again; make room on the disk"
            )


_open_ones: weakref.WeakSet[Journal] = weakref.WeakSet()


def _forget_all() -> None:
    for journal in _open_ones:
        journal.forget()


os.register_at_fork(after_in_child=_forget_all)


def _lock(path: Path, descriptor: int) -> None:
    """Lock the journal for this process until it closes it or ends.

    Raises:
        JournalError: Another process writes it; the descriptor is closed.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise JournalError(
            f"{path}: this run is still being written by {_writer(path)}; wait for its end"
        ) from None
    except OSError:
        return  # a file system without locks must not prevent the run


def is_written(path: Path) -> bool:
    """Return whether a process is writing this journal, so that its run has not ended.

    It is False if the journal cannot be opened, or the file system has no locks.
    """
    with contextlib.suppress(OSError), open_regular(path) as journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _writer(path: Path) -> str:
    """Return the process that wrote the latest beginning in a journal, as words."""
    found = None
    with contextlib.suppress(OSError), open_regular(path) as lines:
        for line in lines:
            found = _BEGINNING.match(line) or found
    return f"process {int(found[1])}" if found is not None else "another process"


def has_ended(path: Path) -> bool:
    """Return whether the last event of a journal is the end of its run.

    Raises:
        OSError: It cannot be read.
    """
    return _last_line(path).startswith(b'{"event":"%s"' % RunFinished.kind.encode())


def last_moment(path: Path) -> float:
    """Return when a journal's last event was written, in seconds since 1970; 0 if it cannot be read."""
    found: list[bytes] = []
    with contextlib.suppress(OSError):
        found = _MOMENT.findall(_last_line(path))
    return float(found[-1]) if found else 0.0


def _last_line(path: Path) -> bytes:
    with open_regular(path) as file:
        file.seek(max(0, path.stat().st_size - _MAX_LAST_BYTES))
        return file.read().rstrip().rpartition(b"\n")[2]


def journal_path(store: Path, run_id: str) -> Path:
    """Return the path of a run's journal in a store."""
    return store / RUNS_FOLDER / run_id / JOURNAL_NAME


def _warn(text: str) -> None:
    sys.stderr.write(f"anubis: {text}\n")
