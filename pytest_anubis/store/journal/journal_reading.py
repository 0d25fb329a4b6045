"""Read a journal back into a run: damaged lines are skipped, reported, and block acceptance.

It may be a file, come out of a history (`state_of`), or still be written (`FollowedJournal`).
"""

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
from pytest_anubis.core.run_state import RunState, undecided_by
from pytest_anubis.core.verdict import Decision
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
"""Beginning of a line whose event no later part of a run takes back."""

_MAX_DAMAGES_LISTED = 20
"""Damaged lines that are reported one by one, about a screen; the rest is counted."""


def read_journal(path: Path) -> RunRecord:
    """Read a journal, or that of a run's folder, back as the run's record.

    A last line that was cut short, and lines in the middle that are not valid events, are left out and
    reported by number in the record's ``warnings``. A damaged line might have spoken against the node, so
    each becomes an event (`DamageFound`) that blocks acceptance.

    Raises:
        JournalError: The file is missing, is no journal, or was written by another version; one line.
    """
    return read_state(path).record()


def read_state(path: Path) -> RunState:
    """Read a journal back as the run's state, which a resumed run goes on with; as `read_journal`."""
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
    """Read the lines of a journal, from a file or out of a history, as `read_state`.

    Each has its line end; the last one may be cut short. Errors name the place, warnings the name.

    Raises:
        JournalError: They are no journal, or one of another version; one line.
    """
    reading = _Reading(name)
    most = most_bytes(LARGEST_DATA)
    try:
        for number, line in enumerate(lines, start=1):
            if len(line) > most:
                raise JournalError(f"line {number}: {too_large('too long', most)}")
            reading.line(number, line)
        return reading.state()
    except JournalError as error:
        raise JournalError(f"{place}: {error}") from None


class FollowedJournal:
    """A journal that is still being written, read piece by piece; it need not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = _Reading(path.name)
        self._lines = self._offset = 0

    def look(self) -> RunState:
        """Read the lines that were added since the last look, and return the state so far.

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
        return self._reading.run


def journal_file(path: Path) -> Path:
    """Return the journal of a run's folder, or the path itself."""
    return path / JOURNAL_NAME if path.is_dir() else path


_Torn = tuple[int, bytes, str]
"""Number of a line, its bytes, and why it cannot be read."""


class _Reading:
    """A reader that takes the lines of one journal in order.

    Attributes:
        run: The state of the run after the lines so far.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.run = RunState()
        self._bad = 0
        # The number that the next line should have; None after a damaged line.
        self._next: int | None = None
        # An unreadable line, kept until the line after it shows whether it was only cut short.
        self._torn: _Torn | None = None

    def line(self, number: int, line: bytes) -> None:
        """Apply one line to the run.

        Raises:
            JournalError: The file is no journal, or one of another version.
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
        if isinstance(written := data.get("at"), (int, float)):
            self.run.last = written
        if data["event"] != Resumed.kind:
            self._settle(torn)
        elif torn is not None:
            self._cut_short(*torn)
        if not self.run.begun:
            self._begin(number, data)
            return
        self._check_number(number, data.pop(NUMBER, None))
        try:
            if data["event"] == RunStarted.kind:
                raise JournalError("a second beginning: two journals in one file?")
            event = event_from_plain(data)
            self.run.apply(event)
            if isinstance(event, UnknownEvent):
                raise JournalError(f"unknown event {data['event'][:40]!r}")
        except JournalError as error:
            self._damaged(number, str(error))

    def _check_number(self, number: int, found: object) -> None:
        """Report lines that are lost, repeated or moved, as a line's own number shows."""
        expected, self._next = self._next, None
        if type(found) is not int:
            self._damaged(number, "its number is missing", "")
            return
        if expected is not None and found != expected:
            lost = found - expected
            gone = f"{lost} line{'s' if lost > 1 else ''} before it missing"
            self._damaged(number, gone if lost > 0 else "it is in the wrong place", "")
        self._next = found + 1

    def _settle(self, torn: _Torn | None) -> None:
        """Report an unreadable line that other lines follow as damage: what it said is lost."""
        if torn is not None:
            self._damaged(torn[0], torn[2])

    def _cut_short(self, number: int, line: bytes, error: str) -> None:
        """Warn of a last line that was cut short; it is no damage.

        Its event was in flight when the process ended, and happens again in a resumed run, unless it is one
        of `_LASTING`. A line that ends with a checksum was not cut short.
        """
        if has_checksum(line) or _LASTING.match(line):
            self._damaged(number, error)
            return
        self.run.warnings.append(
            f"{self._name} line {number}: cut short, the event in flight was lost"
        )

    def state(self) -> RunState:
        """Return the run after the last line.

        Raises:
            JournalError: There was no event at all.
        """
        if self._torn is not None:
            self._cut_short(*self._torn)
            self._torn = None
        if not self.run.begun:
            raise JournalError("no run_started event; this is not a journal, or it is empty")
        if (more := self._bad - _MAX_DAMAGES_LISTED) > 0:
            self.run.warnings.append(f"{self._name}: {more} more damaged lines skipped")
        if not self.run.record().ended:
            self.run.warnings.append(f"{self._name}: the run never finished")
            decided = self.run.node_verdict
            if decided is not None and decided.decision is Decision.ACCEPTED:
                self.run.node_verdict = undecided_by(decided, "the run never finished")
        return self.run

    def _begin(self, number: int, data: dict[str, Any]) -> None:
        if data["event"] != RunStarted.kind or data.get("format") != FORMAT:
            raise JournalError(f"line {number}: not an Anubis journal (no run_started event)")
        schema = data.get("schema")
        place = data.pop(NUMBER, None)
        if type(schema) is not int or schema != SCHEMA or type(place) is not int:
            older = ", without line numbers" if schema == SCHEMA else ""
            raise JournalError(
                f"line {number}: journal schema {str(schema)[:20]}{older}, this version reads {SCHEMA}; use "
                "the version of pytest-anubis that wrote it, or measure again"
            )
        self._next = place + 1
        try:
            self.run.apply(event_from_plain(data))
        except JournalError as error:
            raise JournalError(f"line {number}: {error}") from None

    def _damaged(self, number: int, text: str, then: str = "; skipped") -> None:
        self._bad += 1
        self._next = None  # the line's number is lost with it
        listed = self._bad <= _MAX_DAMAGES_LISTED
        if listed:
            self.run.warnings.append(f"{self._name} line {number}: {text}{then}")
        if self._bad <= _MAX_DAMAGES_LISTED + 1:  # one event covers all further damage
            where = f"line {number}" if listed else "more lines"
            self.run.apply(DamageFound(text=f"{self._name} {where}: damaged ({text})"))
