"""A run as one JSON document, for other programs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pytest_anubis.codec import to_plain
from pytest_anubis.core.asking.open_questions import asked_questions
from pytest_anubis.core.events import BenchmarksChosen, Event, UnknownEvent
from pytest_anubis.core.run import RunRecord

SCHEMA = 2
"""2: a verdict knows its test; the further events are those of the journal without their time."""


def run_json(record: RunRecord) -> str:
    """Return the whole record as strict JSON: NaN and the infinities become strings.

    The verdicts are those that were reached (`RunRecord.reached`); failures that a waiver covers stand once
    more in ``waived``, as they count. Its ``questions`` are those that `AskedQuestions.plain` counts.
    """
    reached = record.reached
    plain = to_plain(dataclasses.replace(record, verdicts=reached, events=()), full=True)
    for verdict, told in zip(reached, plain["verdicts"], strict=True):
        # What follows from the others.
        told |= {"triage": verdict.triage.value, "loss": to_plain(verdict.loss)}
        del told["waiver"]  # as it was reached, none has one
        if not verdict.run:  # it is of this very run
            del told["run"], told["run_words"]
    plain |= {"schema": SCHEMA, "events": [_event(event) for event in record.events]}
    plain["questions"] = asked_questions(
        record.planned, record.effective_verdicts, record.results
    ).plain()
    told = [verdict for verdict in record.effective_verdicts if verdict.waiver is not None]
    if record.waivers or told:  # of collected runs, any may have had waivers
        plain["waived"] = [to_plain(verdict, full=True) for verdict in told]
    return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False)


def _event(event: Event) -> dict[str, Any]:
    if isinstance(event, UnknownEvent):
        return dict(to_plain(event.data))
    body = event.choice if isinstance(event, BenchmarksChosen) else event
    return {"event": event.kind, **to_plain(body)}
