"""A run as one JSON document for other programs, which `anubis report --json` writes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pytest_anubis.codec import to_plain
from pytest_anubis.core.asking.open_questions import asked_questions
from pytest_anubis.core.end_to_end import MetricPlace, end_to_end_losses
from pytest_anubis.core.events import BenchmarksChosen, Event, UnknownEvent
from pytest_anubis.core.run import RunRecord

SCHEMA = 2
"""Version of the document. 2: verdicts name their test; ``events`` are the journal's without their time."""


def run_json(record: RunRecord) -> str:
    """Return the whole record as strict JSON: NaN and the infinities become strings.

    ``verdicts`` are those reached before waivers; ``waived`` repeats the waived ones as they count.
    ``questions`` are the counts of `AskedQuestions.plain`; ``end_to_end`` are the losses of
    `EndToEndLoss`, those with the same explanation together.
    """
    reached = record.reached
    plain = to_plain(dataclasses.replace(record, verdicts=reached, events=()), full=True)
    for verdict, cells in zip(reached, plain["verdicts"], strict=True):
        cells |= {"triage": verdict.triage.value, "loss": to_plain(verdict.loss)}
        del cells["waiver"]  # always None before waivers
        if not verdict.run:  # the verdict is of this run
            del cells["run"], cells["run_words"]
    plain |= {"schema": SCHEMA, "events": [_event(event) for event in record.events]}
    effective = record.effective_verdicts
    plain["questions"] = asked_questions(record.planned, effective, record.results).plain()
    waived = [to_plain(one, full=True) for one in effective if one.waiver is not None]
    together: dict[tuple[tuple[MetricPlace, ...], int], list[MetricPlace]] = {}
    for one in end_to_end_losses(effective):
        together.setdefault((one.explained_by, one.passed), []).append(one.whole)
    if together:
        plain["end_to_end"] = [
            {"wholes": to_plain(wholes), "explained_by": to_plain(parts), "passed": passed}
            for (parts, passed), wholes in together.items()
        ]
    if record.waivers or waived:  # any of several collected runs may have had waivers
        plain["waived"] = waived
    return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False)


def _event(event: Event) -> dict[str, Any]:
    if isinstance(event, UnknownEvent):
        return dict(to_plain(event.data))
    body = event.choice if isinstance(event, BenchmarksChosen) else event
    return {"event": event.kind, **to_plain(body)}
