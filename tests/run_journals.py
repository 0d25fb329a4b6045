"""What the only run in a test's folder has written: its journal, its events, its record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.journal.journal_reading import read_journal


def journal_of(pytester: pytest.Pytester) -> Path:
    (path,) = pytester.path.glob(".anubis/runs/*/journal.jsonl")
    return path


def record_of(pytester: pytest.Pytester) -> RunRecord:
    return read_journal(journal_of(pytester))


def events_of(pytester: pytest.Pytester, *kinds: str) -> list[dict[str, Any]]:
    """Return the events as plain data, of all kinds if none is named."""
    events = [json.loads(line) for line in journal_of(pytester).read_text().splitlines()]
    return [event for event in events if not kinds or event["event"] in kinds]
