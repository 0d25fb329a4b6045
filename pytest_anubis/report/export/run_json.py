"""A run as one JSON document, for other programs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pytest_anubis.codec import to_plain
from pytest_anubis.core.events import BenchmarksChosen, Event, UnknownEvent
from pytest_anubis.core.run import RunRecord

SCHEMA = 2
"""2: a verdict knows its test; the further events are those of the journal without their time."""


def run_json(record: RunRecord) -> str:
    """Return the whole record as strict JSON: NaN and the infinities become strings."""
    plain = to_plain(dataclasses.replace(record, events=()), full=True)
    for verdict, told in zip(record.verdicts, plain["verdicts"], strict=True):
        # What follows from the others.
        told |= {"triage": verdict.triage.value, "loss": to_plain(verdict.loss)}
    plain |= {"schema": SCHEMA, "events": [_event(event) for event in record.events]}
    return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False)


def _event(event: Event) -> dict[str, Any]:
    if isinstance(event, UnknownEvent):
        return dict(to_plain(event.data))
    body = event.choice if isinstance(event, BenchmarksChosen) else event
    return {"event": event.kind, **to_plain(body)}
