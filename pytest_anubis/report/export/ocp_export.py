"""A run as OCP Test & Validation JSONL, schema 2.0: a step for each test, the node's decision in the last.

`anubis report --ocp` writes it. Format: https://github.com/opencomputeproject/ocp-diag-core, ``json_spec``.
Optional fields are left out instead of null, and values that are no numbers become errors, since JSON has
neither NaN nor infinities. A record has no time stamps of single events: the lines of a step have the start
of its test, computed from the durations. Lines are in time order, so steps of concurrent tests interleave.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from pytest_anubis import __version__
from pytest_anubis.codec.encodable_text import encodable
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.events import TestRan
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.shown_loss import place_of
from pytest_anubis.core.verdict import Decision, NodeVerdict, Triage
from pytest_anubis.report.export.ocp_hardware import TestedNode, tested_node
from pytest_anubis.report.export.ocp_steps import Plain, Step, error, log, step_artifacts
from pytest_anubis.report.text.part_lines import part_lines

NODE_STEP = "node-verdict"
"""Name of the last step: the format has no diagnosis of a whole run."""

NODE = "anubis.node"
"""Name of the extension with the decision's own fields."""


_LAST = 253402300799.0
"""The last second of the year 9999, after which Python has no dates."""


def ocp_text(record: RunRecord) -> str:
    """Return a run as JSON lines; of a run that was cut short too, with an end that says so."""
    clock = _Clock(record)
    node = tested_node(record)
    lines: list[str] = []

    def write(stamp: str, **content: Any) -> None:
        head = {"sequenceNumber": len(lines), "timestamp": stamp}
        lines.append(json.dumps({**head, **_cleaned(content)}, allow_nan=False))

    write(_stamp(clock.began), schemaVersion={"major": 2, "minor": 0})
    write(_stamp(clock.began), testRunArtifact={"testRunStart": _run_start(record, node)})
    steps = sorted(((clock.span(step), step) for step in _steps(record)), key=itemgetter(0))
    timed = [
        (ended if "testStepEnd" in artifact else began, {"testStepId": str(number), **artifact})
        for number, ((began, ended), step) in enumerate(steps)
        for artifact in step_artifacts(step, str(number), node, _stamp(began))
    ]
    for when, artifact in sorted(timed, key=itemgetter(0)):
        write(_stamp(when), testStepArtifact=artifact)
    end = _stamp(clock.ended)
    for artifact in _node_artifacts(record):
        write(end, testStepArtifact={"testStepId": str(len(steps)), **artifact})
    status, result = run_end(record)
    write(end, testRunArtifact={"testRunEnd": {"status": status, "result": result}})
    return "\n".join(lines) + "\n"


def run_end(record: RunRecord) -> tuple[str, str]:
    """Return status and result of a run: FAIL if the node is rejected, PASS only if it is accepted.

    Hardware that is surely bad is FAIL although the run was cut short afterwards. A run that only measured
    has no result.
    """
    verdict, broken = record.node_verdict, _broken_off(record)
    if verdict is None:
        return ("ERROR" if broken else "SKIP"), "NOT_APPLICABLE"
    surely = bool(verdict.components) and verdict.triage is Triage.REJECT
    if verdict.decision is Decision.REJECTED or (broken and surely):
        return "COMPLETE", "FAIL"
    good = record.exit_status in (None, Decision.ACCEPTED.exit_code)
    if verdict.decision is Decision.ACCEPTED and good:
        return "COMPLETE", "PASS"
    return "ERROR", "NOT_APPLICABLE"


def _broken_off(record: RunRecord) -> str:
    """Return why a run has no decision of its own; runs that were judged together have no exit status."""
    verdict = record.node_verdict
    decided = verdict is not None and verdict.decision is not Decision.UNDECIDED
    together = bool(record.ended) and record.exit_status is None and not record.cause
    return record.broken_off if record.settings and not (decided or together) else ""


class _Clock:
    """When the parts of a run happened, in seconds since 1970, as far as its record says."""

    def __init__(self, record: RunRecord) -> None:
        self.began = moment(record.started) or 0.0
        ended = moment(record.ended)
        self._last = None if ended is None else max(ended, self.began)
        self._now = self.began
        self._ran = {one.test: one for one in record.events if isinstance(one, TestRan)}

    @property
    def ended(self) -> float:
        """The end of the run, or of what is known of it."""
        return self._now if self._last is None else self._last

    def span(self, step: Step) -> tuple[float, float]:
        """Return beginning and end of a step; tests whose place in time is unknown follow each other."""
        ran = self._ran.get(step.name)
        if ran is not None:
            first, last = self.began + ran.start, self.began + ran.end
        else:
            took = step.result.seconds + step.result.around if step.result is not None else 0.0
            first, last = self._now, self._now + took
        latest = math.inf if self._last is None else self._last
        begin, end = (min(max(self.began, one), latest) for one in (first, last))
        self._now = max(self._now, end)
        return begin, max(begin, end)


def _stamp(seconds: float) -> str:
    when = datetime.fromtimestamp(min(seconds, _LAST), UTC)
    return f"{when.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _run_start(record: RunRecord, node: TestedNode) -> Plain:
    return {
        "name": "pytest-anubis",
        "version": __version__,
        "commandLine": f"pytest --anubis {record.tests}".strip(),
        "parameters": {
            "run": record.run,
            "purpose": record.purpose,
            "profile": record.profile or None,
            "baseline": record.baseline or None,
            "devices": list(record.devices) or None,
            "tests_planned": len(record.planned),
            "selection": (record.choice or {}).get("mode"),
            "campaign": record.campaign or None,
        },
        "dutInfo": node.info,
    }


def _steps(record: RunRecord) -> list[Step]:
    """Return the steps: planned tests, then whatever else was measured or judged."""
    steps = {plan.test: Step(plan.test) for plan in record.planned}
    places = {plan.place: steps[plan.test] for plan in reversed(record.planned)}
    for result in record.results:
        steps.setdefault(result.test, Step(result.test)).result = result

    def step_of(test: str, benchmark: str, device: str) -> Step:
        known = steps.get(test) or places.get((benchmark or test, device))
        if known is not None:
            return known
        name = " on ".join(filter(None, (benchmark or test, device)))
        return steps.setdefault(name, Step(name))

    for one in record.measurements:
        step_of(one.test, one.benchmark, one.device).measurements.append(one)
    for verdict in record.effective_verdicts:
        step_of(verdict.test, verdict.benchmark, place_of(verdict)).verdicts.append(verdict)
    return list(steps.values())


def _node_artifacts(record: RunRecord) -> Iterator[Plain]:
    """Yield the last step: what the hardware and the run reported, and the decision."""
    yield {"testStepStart": {"name": NODE_STEP}}
    verdict = record.node_verdict
    for line in (*record.warnings, *record.deaths, *(one.text for one in record.hardware)):
        yield log("WARNING", line)
    if broken := _broken_off(record):
        yield error("run-broken-off", f"the run {broken}")
    if verdict is None:
        yield log("INFO", "nothing was judged")
        yield {"testStepEnd": {"status": "ERROR" if broken else "SKIP"}}
        return
    for line in part_lines(verdict):
        yield log("INFO", line)
    undecided = verdict.decision is Decision.UNDECIDED
    for blocker in verdict.blocking:
        line = str(blocker)
        yield error(f"blocker-{blocker.kind.value}", line) if undecided else log("INFO", line)
    for line in (*verdict.listed, *verdict.noted):
        yield log("INFO", line)
    yield from _decision(verdict, undecided)
    yield {"testStepEnd": {"status": "ERROR" if undecided else "COMPLETE"}}


def _decision(verdict: NodeVerdict, undecided: bool) -> Iterator[Plain]:
    name = f"node-{verdict.decision.value.lower()}"
    if undecided:
        yield error(name, verdict.headline)
    else:
        kind = "PASS" if verdict.decision is Decision.ACCEPTED else "FAIL"
        yield {"diagnosis": {"verdict": name, "type": kind, "message": verdict.headline}}
    content = {
        "@type": f"{NODE}/v1",
        "node": verdict.node,
        "decision": verdict.decision.value,
        "word": verdict.word,
        "triage": verdict.triage.value or None,
        "components": list(verdict.components),
        "counts": dict(verdict.counts),
        "baseline": verdict.baseline or None,
        "residual_risk": verdict.residual_risk,
    }
    yield {"extension": {"name": NODE, "content": content}}


def _cleaned(value: Any) -> Any:
    """Return plain data as the format takes it: without None, infinities, empty mappings and broken text."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        found = {encodable(str(key)): _cleaned(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item is not None and item != {}}
    if isinstance(value, list | tuple):
        return [one for item in value if (one := _cleaned(item)) is not None]
    return None if isinstance(value, float) and not math.isfinite(value) else value
