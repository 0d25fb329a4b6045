"""Reading a journal back: its lines become events, its events a run; tolerant of damage, honest about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError
from pytest_anubis.codec.input_limits import LARGEST_DATA, most_bytes, too_large
from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.core.events import (
    DamageFound,
    LaneGivenUp,
    Resumed,
    RunStarted,
    UnknownEvent,
    WorkerDied,
)
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.run_state import RunState
from pytest_anubis.store.journal.journal_events import (
    FORMAT,
    SCHEMA,
    JournalError,
    event_from_plain,
)
from pytest_anubis.store.journal.journal_lines import NUMBER, has_checksum, parse_line

JOURNAL_NAME = "journal.jsonl"

_LASTING = re.compile(
    rb'\{"event":"(?:%s)'
    % b"|".join(c.kind.encode() for c in (WorkerDied, LaneGivenUp, DamageFound))
)
"""How the line of an event begins that no later part of a run takes back."""

_MANY = 20
"""Damaged lines that are named one by one, about a screen; the rest is counted."""


def read_journal(path: Path) -> RunRecord:
    """Read a journal back.

    A last line that was cut short, and lines in the middle that are not valid events, are left out and
    reported by number in the record's ``warnings``. What stood in damaged lines might have spoken against the
    node, so each is an event of its own (`DamageFound`) that blocks acceptance.

    Args:
        path: The journal or its run's folder.

    Raises:
        JournalError: The file is missing, is no journal, or has another schema; one line.
    """
    return read_state(path).record()


def read_state(path: Path) -> RunState:
    """Read a journal back as the state that the run had when it was written; as `read_journal`."""
    path = journal_file(path)
    try:
        most = most_bytes(LARGEST_DATA)
        with open_regular(path) as file:
            return state_of(iter(partial(file.readline, most + 1), b""), str(path), path.name)
    except OSError as error:
        raise JournalError(f"{path}: cannot be read ({error.strerror})") from error
    except CodecError as error:
        raise JournalError(str(error)) from None


def state_of(lines: Iterable[bytes], place: str, name: str = JOURNAL_NAME) -> RunState:
    """Read the lines of a journal, wherever they are kept, as `read_state`.

    Args:
        lines: Each with its line end; the last one may be cut short.
        place: Where they are kept, for errors.
        name: What the journal is called in warnings.

    Raises:
        JournalError: They are no journal, or of another schema; one line.
    """
    reading, most = _Reading(name), most_bytes(LARGEST_DATA)
    try:
        for number, line in enumerate(lines, start=1):
            if len(line) > most:
                raise JournalError(f"line {number}: {too_large('too long', most)}")
            reading.line(number, line)
        return reading.state()
    except JournalError as error:
        raise JournalError(f"{place}: {error}") from None


class FollowedJournal:
    """A journal that is being written: every look reads what has come since the one before.

    Args:
        path: The journal, which need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = _Reading(path.name)
        self._lines = self._offset = 0

    def look(self) -> RunState:
        """Return what is known by now; nothing while there is no journal.

        Raises:
            JournalError: It cannot be read, or is no journal.
        """
        try:
            with suppress(FileNotFoundError), open_regular(self._path) as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # its end is on the way
                    self._offset += len(line)
                    self._lines += 1
                    self._reading.line(self._lines, line)
        except OSError as error:
            raise JournalError(f"{self._path}: cannot be read ({error.strerror})") from error
        return self._reading.so_far


def journal_file(path: Path) -> Path:
    """Return the journal of a run's folder, or the path itself."""
    return path / JOURNAL_NAME if path.is_dir() else path


_Torn = tuple[int, bytes, str]
"""Number of a line, its bytes, and why it cannot be read."""


class _Reading:
    """Takes the lines of one journal in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = RunState()
        self._bad = 0
        # The number that the next line should have, where it is known.
        self._next: int | None = None
        # A line that cannot be read, until it is known what follows.
        self._torn: _Torn | None = None

    @property
    def so_far(self) -> RunState:
        """What the lines so far say; the journal may go on."""
        return self._state

    def line(self, number: int, line: bytes) -> None:
        """Take one line.

        Args:
            number: Its number, from 1.
            line: Its bytes, with the line end unless it was cut short.

        Raises:
            JournalError: The journal as a whole is of another kind or schema.
        """
        if not line.strip():
            return
        torn, self._torn = self._torn, None
        try:
            data = parse_line(line)
        except ValueError as error:
            self._settle(torn)
            self._torn = (number, line, str(error))
            return
        if data["event"] != Resumed.kind:
            self._settle(torn)
        elif torn is not None:
            self._cut_short(*torn)
        self._count(number, data.pop(NUMBER, None))
        if not self._state.begun:
            self._begin(number, data)
            return
        try:
            if data["event"] == RunStarted.kind:
                raise JournalError("a second beginning: two journals in one file?")
            event = event_from_plain(data)
            self._state.apply(event)
            if isinstance(event, UnknownEvent):
                raise JournalError(f"unknown event {data['event'][:40]!r}")
        except JournalError as error:
            self._damaged(number, str(error))

    def _count(self, number: int, found: object) -> None:
        """Hold a line's own number against the one before: what is gone or stands twice is damage."""
        expected, self._next = self._next, None
        if type(found) is not int:
            if expected is not None:  # older versions have none, but none of them goes on with this
                self._damaged(number, "its number is missing", "")
            return
        if expected is not None and found != expected:
            lost = found - expected
            gone = f"{lost} line{'s' if lost > 1 else ''} before it missing"
            self._damaged(number, gone if lost > 0 else "it stands in the wrong place", "")
        self._next = found + 1

    def _settle(self, torn: _Torn | None) -> None:
        """A line that cannot be read and that more follows is damage: nobody knows what it said."""
        if torn is not None:
            self._damaged(torn[0], torn[2])

    def _cut_short(self, number: int, line: bytes, error: str) -> None:
        """Take the last line of a part of the run: the event in flight when it ended is no damage.

        What it began to say happens again when the run goes on, unless it is of the kind that lasts. A line
        that has its end was not cut short.
        """
        # Older versions wrote no checksums.
        whole = line.rstrip().endswith(b"}") if self._next is None else has_checksum(line)
        if whole or _LASTING.match(line):
            self._damaged(number, error)
            return
        self._state.warnings.append(
            f"{self._name} line {number}: cut short, the event in flight was lost"
        )

    def state(self) -> RunState:
        """Return the run.

        Raises:
            JournalError: There was no event at all.
        """
        state = self._state
        if self._torn is not None:
            self._cut_short(*self._torn)
            self._torn = None
        if not state.begun:
            raise JournalError("no run_started event; this is not a journal, or it is empty")
        if self._bad > _MANY:
            state.warnings.append(f"{self._name}: {self._bad - _MANY} more damaged lines skipped")
        if not state.record().ended:
            state.warnings.append(f"{self._name}: the run never finished")
        return state

    def _begin(self, number: int, data: dict[str, Any]) -> None:
        if data["event"] != RunStarted.kind or data.get("format") != FORMAT:
            raise JournalError(f"line {number}: not an Anubis journal (no run_started event)")
        schema = data.get("schema")
        if type(schema) is not int or schema != SCHEMA:
            raise JournalError(
                f"line {number}: journal schema {str(schema)[:20]}, this version reads {SCHEMA}; use the "
                "version of pytest-anubis that wrote it, or measure again"
            )
        try:
            self._state.apply(event_from_plain(data))
        except JournalError as error:
            raise JournalError(f"line {number}: {error}") from None

    def _damaged(self, number: int, text: str, then: str = "; skipped") -> None:
        self._bad += 1
        self._next = None  # whatever number it had is lost with it
        if self._bad <= _MANY:
            self._state.warnings.append(f"{self._name} line {number}: {text}{then}")
        if self._bad <= _MANY + 1:  # what it said is lost; that something was said is not
            where = f"line {number}" if self._bad <= _MANY else "more lines"
            self._state.apply(DamageFound(text=f"{self._name} {where}: damaged ({text})"))
