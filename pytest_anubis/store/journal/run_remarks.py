"""What a journal says about its node besides samples: verdicts without one, deaths, a broken end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_anubis.core.run import Remarks, RunRecord

INTERRUPTED = (2, 3, 4)
"""pytest's exit statuses for interrupted, internal error, wrong usage."""


def remarks_of(record: RunRecord) -> Remarks:
    """Return what judging a run's samples anew would miss.

    Args:
        record: The run, with measurements, verdicts and events.
    """
    measured = {(m.benchmark, m.metric.name, m.device) for m in record.measurements}
    return Remarks(
        verdicts=tuple(
            verdict
            for verdict in record.verdicts
            # What pooled or measured values were found to be is judged again from the values.
            if verdict.scope == "unit"
            and (verdict.benchmark, verdict.metric, verdict.device) not in measured
        ),
        # A node may have several runs: the line says which one is to be repeated or left out.
        obstacles=tuple(
            f"run {record.run}: {line}"
            for line in (*deaths(record.events), *hindrances(record.events), *_end(record))
        ),
        notes=tuple(f"run {record.run}: {line}" for line in repeated(record.events)),
        residual_risk=record.node_verdict.residual_risk if record.node_verdict else None,
    )


def deaths(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line for every worker that died, and for every lane that was given up.

    Args:
        events: Events of a journal; others are passed over.
    """
    for event in events:
        if event.get("event") == "worker_died":
            what = event.get("test") or "no test was running"
            lane, text = event.get("lane", ""), event.get("text", "")
            yield f"worker of lane {lane} died ({what}): {text}"
        elif event.get("event") == "lane_given_up":
            lane = event.get("lane", "")
            yield f"lane {lane} is given up: its workers died again and again"


def hindrances(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what else stood in the way of acceptance, in the last part of a run that was resumed.

    Args:
        events: Events of a journal; others are passed over.
    """
    found: list[str] = []
    for event in events:
        if event.get("event") == "resumed":  # which devices are hidden was found out anew
            found.clear()
        elif event.get("event") == "hindrance":
            found.append(str(event.get("text", "")))
    return found


def repeated(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line for every attempt of a test that failed and was repeated.

    Args:
        events: Events of a journal; others are passed over.
    """
    for event in events:
        if event.get("event") == "test_repeated":
            text = event.get("text", "")
            yield f"{event.get('test', '')}: an attempt failed and was repeated: {text}"


def _end(record: RunRecord) -> Iterator[str]:
    if not record.ended:
        yield "it never finished"
    elif record.exit_status in INTERRUPTED:
        yield f"it was broken off (exit status {record.exit_status})"
