"""Reading a journal back: its lines become events, its events a run; tolerant of damage, honest about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_anubis.core.events import BlockerFound, LaneGivenUp, RunStarted, WorkerDied
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.run_state import RunState
from pytest_anubis.store.journal.journal_events import (
    FORMAT,
    READABLE,
    SCHEMA,
    JournalError,
    event_from_plain,
)

JOURNAL_NAME = "journal.jsonl"

_BLOCKING = frozenset((WorkerDied.kind, LaneGivenUp.kind, BlockerFound.kind, "hindrance"))

_MANY = 20
"""Damaged lines that are named one by one, about a screen; the rest is counted."""


def read_journal(path: Path) -> RunRecord:
    """Read a journal back.

    A last line that was cut short, and lines in the middle that are not valid events, are left out and
    reported by number in the record's ``warnings``.

    Args:
        path: The journal or its run's folder.

    Raises:
        JournalError: The file is missing, is no journal, or has another schema; one line.
    """
    return read_state(path).record()


def read_state(path: Path) -> RunState:
    """Read a journal back as the state that the run had when it was written; as `read_journal`."""
    path = journal_file(path)
    reading = _Reading(path.name)
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                reading.line(number, line)
        return reading.state()
    except OSError as error:
        raise JournalError(f"{path}: cannot be read ({error.strerror})") from error
    except JournalError as error:
        raise JournalError(f"{path}: {error}") from None


def journal_file(path: Path) -> Path:
    """Return the journal of a run's folder, or the path itself."""
    return path / JOURNAL_NAME if path.is_dir() else path


class _Reading:
    """Takes the lines of one journal in order.

    Args:
        name: The file's name, for warnings.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = RunState()
        self._schema = SCHEMA
        self._bad = 0

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
        try:
            data = _parse(line)
        except ValueError as error:
            if line.endswith(b"\n"):
                self._damaged(number, str(error))
            else:
                self._state.warnings.append(
                    f"{self._name} line {number}: cut short, the event in flight was lost"
                )
            return
        if not self._state.begun:
            self._begin(number, data)
            return
        try:
            if data["event"] == RunStarted.kind:
                raise JournalError("a second beginning: two journals in one file?")
            self._state.apply(event_from_plain(data, self._schema))
        except JournalError as error:
            self._damaged(number, str(error))
            if data["event"] in _BLOCKING:  # what it said is lost; that it stood in the way is not
                text = f"{self._name} line {number}: {error}"
                self._state.apply(BlockerFound(text=text))

    def state(self) -> RunState:
        """Return the run.

        Raises:
            JournalError: There was no event at all.
        """
        state = self._state
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
        if type(schema) is not int or schema not in READABLE:
            raise JournalError(
                f"line {number}: journal schema {str(schema)[:20]}, this version reads up to "
                f"{SCHEMA}; use the version of pytest-anubis that wrote it"
            )
        self._schema = schema
        try:
            self._state.apply(event_from_plain(data, schema))
        except JournalError as error:
            raise JournalError(f"line {number}: {error}") from None

    def _damaged(self, number: int, text: str) -> None:
        self._bad += 1
        if self._bad <= _MANY:
            self._state.warnings.append(f"{self._name} line {number}: {text}; skipped")


def _parse(line: bytes) -> dict[str, Any]:
    try:
        data: Any = json.loads(line, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:  # bad JSON, bad UTF-8, numbers with thousands of digits
        raise ValueError(f"not valid JSON ({str(error)[:60]})") from None
    if not isinstance(data, dict) or not isinstance(data.get("event"), str):
        raise ValueError("not an event (an object with an 'event' field)")
    return data


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")
