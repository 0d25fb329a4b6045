"""Convert events (declared in `core.events`) to and from JSON, for the journal and for workers' messages."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from pytest_anubis.codec import CodecError, from_plain, to_plain
from pytest_anubis.core.events import BenchmarksChosen, Event, UnknownEvent

FORMAT = "anubis-journal"
SCHEMA = 2

_KINDS: dict[str, type[Event]] = {
    event.kind: event for event in typing.get_args(Event) if event is not UnknownEvent
}


class JournalError(ValueError):
    """A journal, or one event of it, cannot be used; the message is one line for people."""


def event_to_plain(event: Event) -> dict[str, Any]:
    """Return an event as builtin types, for the journal and for sending between processes."""
    if isinstance(event, UnknownEvent):
        plain: dict[str, Any] = to_plain(event.data)
        return plain
    body = event.choice if isinstance(event, BenchmarksChosen) else event
    return {"event": event.kind, **to_plain(body)}


def event_from_plain(data: Mapping[str, Any]) -> Event:
    """Return the event of one object that `event_to_plain` wrote; an unknown kind becomes `UnknownEvent`.

    Raises:
        JournalError: A field is missing, of another type or out of its range; the message names it.
    """
    cls = _KINDS.get(data["event"])
    if cls is None:
        return UnknownEvent(data=data)
    rest = {key: value for key, value in data.items() if key not in ("event", "at")}
    if cls is BenchmarksChosen:  # its readers check this plain data
        return BenchmarksChosen(choice=rest)
    try:
        return from_plain(cls, rest, unknown="ignore")
    except CodecError as error:
        raise JournalError(str(error)) from error
