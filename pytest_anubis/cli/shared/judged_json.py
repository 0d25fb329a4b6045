"""The JSON file of ``anubis judge``: written row by row, since a fleet has millions of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from pytest_anubis.codec import to_plain
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import Reference
from pytest_anubis.store.atomic import writing_atomically
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.verdict_table import OUTCOMES, PASS, REASONS

SCHEMA = 1
_NULL = "null"


def write_judged(judged: JudgedFleet, path: Path, progress: Callable[[int, int], None]) -> None:
    """Write ``{"schema", "findings": [...], "nodes": [...], "verdicts": [...]}``.

    Every verdict has node, device, benchmark, metric, scope, value, similarity, limit (the threshold that
    the similarity was held against; the key is older than the word), verdict, reason and the reference that
    decided (fleet, peers, self, none); one that is not PASS also has the sentence for people, and one of a
    run that changed has onset, size and probability of the change; one that a waiver covers has
    the waiver. What does not exist is null. Findings concern a class as a whole.

    Args:
        judged: What was judged.
        path: The file, replaced when all is written.
        progress: Called with (done, all) populations.

    Raises:
        OSError: The disk refuses.
    """
    with writing_atomically(path) as out:
        for text in judged_json(judged, progress):
            out.write(text.encode("ascii"))


def judged_json(judged: JudgedFleet, progress: Callable[[int, int], None]) -> Iterator[str]:
    """Yield the text of the file, in pieces and in ASCII; as `write_judged`."""
    nodes = [
        {**to_plain(verdict, full=True), "verdict": verdict.decision.value}
        for verdict in judged.nodes
    ]
    findings = json.dumps([to_plain(finding, full=True) for finding in judged.findings])
    yield f'{{"schema": {SCHEMA},\n"findings": {findings},\n'
    yield f'"nodes": {json.dumps(nodes)},\n"verdicts": [\n'
    separator = ""
    for done, columns in enumerate(judged.columns, start=1):
        baseline = judged.baselines.get(columns.population.hardware_class)
        rows = ",\n".join(_rows(columns, baseline))
        if rows:
            yield separator + rows
            separator = ",\n"
        progress(done, len(judged.columns))
    yield "\n]}\n"


def _rows(columns: JudgedColumns, baseline: Baseline | None) -> Iterator[str]:
    population = columns.population
    scope = columns.criterion.scope if columns.criterion else "unit"
    fixed = (
        f'"benchmark": {_quoted(population.benchmark)}, '
        f'"metric": {_quoted(population.metric.name)}, "scope": "{scope}"'
    )
    if population.group:
        fixed += f', "group": {_quoted(population.group)}'
    ends: dict[tuple[int, int, bool], str] = {}
    for row, (node, device, value, similarity, limit, outcome, reason) in enumerate(
        zip(
            population.nodes,
            population.devices,
            _numbers(columns.value),
            _numbers(columns.similarity),
            _numbers(columns.threshold),
            columns.outcome.tolist(),
            columns.reason.tolist(),
            strict=True,
        )
    ):
        kind = (outcome, reason, similarity == _NULL)
        end = ends.get(kind)
        if end is None:  # a fleet has millions of rows of a few kinds
            reference = Reference.NONE if similarity == _NULL else columns.reference
            end = ends[kind] = (
                f', "verdict": "{OUTCOMES[outcome]}", "reason": "{REASONS[reason]}", '
                f'"reference": "{reference}"'
            )
        if outcome != PASS:
            end += f', "text": {_quoted(columns.verdict(row, baseline).text)}'
        if row in columns.waived:
            end += f', "waiver": {json.dumps(to_plain(columns.waived[row].waiver, full=True))}'
        if row in columns.changes:
            end += f', "change": {json.dumps(to_plain(columns.changes[row].change, full=True))}'
        yield (
            f'{{"node": {_quoted(node)}, "device": {_quoted(device)}, {fixed}, "value": {value}, '
            f'"similarity": {similarity}, "limit": {limit}{end}}}'
        )


@lru_cache(maxsize=65536)
def _quoted(text: str) -> str:
    return json.dumps(text)


def _numbers(values: FloatArray) -> Iterable[str]:
    """Return every value as JSON has it, what is not finite as null."""
    if np.isfinite(values).all():
        return map(repr, values.tolist())
    return [repr(value) if math.isfinite(value) else _NULL for value in values.tolist()]
