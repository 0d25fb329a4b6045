"""The form of events in a journal: one JSON object each, and back.

The codec does it by the events' types; what stands here is which word means which type, and how the words of
older journals are read.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from pytest_anubis.codec import CodecError, from_plain, to_plain
from pytest_anubis.core.events import (
    Attempted,
    BenchmarksChosen,
    BlockerFound,
    Event,
    Judged,
    Measured,
    NodeDecided,
    TestFinished,
    UnknownEvent,
)

FORMAT = "anubis-journal"
SCHEMA = 2
READABLE = (1, 2)
"""Schema 1 had other words for a blocker and a limit, objects where series and counts are pairs now."""

_KINDS: dict[str, type[Event]] = {
    event.kind: event for event in typing.get_args(Event) if event is not UnknownEvent
}


_LEFT_OUT_IN_1: dict[str, dict[str, str]] = {
    Judged.kind: {"text": "", "benchmark": "", "metric": ""},
    TestFinished.kind: {"benchmark": ""},
}
"""Texts that schema 1 left out where they were empty, and that are always there now."""


class JournalError(ValueError):
    """A journal, or one event of it, cannot be used; the message is one line for people."""


def event_to_plain(event: Event) -> dict[str, Any]:
    """Return an event as builtin types, for the journal and between processes."""
    if isinstance(event, UnknownEvent):
        plain: dict[str, Any] = to_plain(event.data)
        return plain
    body = event.choice if isinstance(event, BenchmarksChosen) else event
    return {"event": event.kind, **to_plain(body)}


def event_from_plain(data: Mapping[str, Any], schema: int = SCHEMA) -> Event:
    """Return the event of one object; one of an unknown kind is kept as it is.

    Args:
        data: What `event_to_plain` wrote, or an earlier version.
        schema: Of the journal that it comes from.

    Raises:
        JournalError: A field is missing, of another type or out of its range; the message names it.
    """
    if schema == 1:
        data = _from_schema_1(data)
    cls = _KINDS.get(data["event"])
    if cls is None:
        return UnknownEvent(data=data)
    rest = {key: value for key, value in data.items() if key not in ("event", "at")}
    if cls is BenchmarksChosen:  # plain data of its own, which its readers check
        return BenchmarksChosen(choice=rest)
    try:
        return from_plain(cls, rest, unknown="ignore")
    except CodecError as error:
        raise JournalError(str(error)) from error


def _from_schema_1(data: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = data["event"]
    if kind == "hindrance":
        return {**data, "event": BlockerFound.kind}
    if kind in (Measured.kind, Attempted.kind) and "telemetry" in data:
        series = data["telemetry"]
        return {**data, "telemetry": [_pair(one) for one in series] if _is_list(series) else series}
    if kind == NodeDecided.kind and isinstance(data.get("counts"), Mapping):
        return {**data, "counts": [list(pair) for pair in data["counts"].items()]}
    if kind == Judged.kind and "bound" in data:
        data = {**data, "limit": data["bound"]}
    return {**_LEFT_OUT_IN_1.get(kind, {}), **data}


def _pair(series: Any) -> Any:
    named = isinstance(series, Mapping) and {"name", "values"} <= series.keys()
    return [series["name"], series["values"]] if named else series


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def started_to_plain(event: Event) -> dict[str, Any]:
    """Return the first event of a journal, which says what kind of file this is."""
    return {**event_to_plain(event), "format": FORMAT, "schema": SCHEMA}
