"""The JSON file of ``anubis judge``: written row by row, since a fleet has millions of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from pytest_anubis.codec import to_plain
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import MetricVerdict, Reference
from pytest_anubis.store.atomic import writing_atomically
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.verdict_table import FAIL, MARGINAL, OUTCOMES, PASS, REASONS

SCHEMA = 1
_NULL = "null"
SORTED = 100_000
"""Most bad verdicts that are sorted: some seconds' work. Where more are bad it is a matter of the class."""


def write_judged(judged: JudgedFleet, path: Path, progress: Callable[[int, int], None]) -> None:
    """Write ``{"schema", "findings": [...], "nodes": [...], "verdicts": [...]}``.

    Every verdict has node, device, benchmark, metric, scope, value, similarity, limit (the threshold that
    the similarity was held against; the key is older than the word), verdict, reason and the reference that
    decided (fleet, peers, self, none); one that is not PASS also has triage (reject, retest, investigate or
    empty), the loss relative to what is normal, the certainty that it is beyond the limit, and the sentence
    for people, and one of a run that changed has onset, size and probability of the change; one that a waiver
    covers has the waiver. What does not exist is null. What is bad stands first, the one to act on first
    before the others, as do the nodes. Findings concern a class as a whole.

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
        for verdict in sorted(judged.nodes, key=lambda verdict: verdict.severity)
    ]
    findings = json.dumps([to_plain(finding, full=True) for finding in judged.findings])
    notes = json.dumps(list(judged.notes))
    yield f'{{"schema": {SCHEMA},\n"findings": {findings},\n"notes": {notes},\n'
    yield f'"nodes": {json.dumps(nodes)},\n"verdicts": [\n'
    separator = ""
    tables = [
        _Table(columns, judged.baselines.get(columns.population.hardware_class))
        for columns in judged.columns
    ]
    first = _worst_first(tables)
    for number, row in first:
        yield separator + tables[number].row(row)
        separator = ",\n"
    told = set(first)
    for number, table in enumerate(tables):
        rows = ",\n".join(
            text for row, text in enumerate(table.rows()) if (number, row) not in told
        )
        if rows:
            yield separator + rows
            separator = ",\n"
        progress(number + 1, len(tables))
    yield "\n]}\n"


def _worst_first(tables: Sequence[_Table]) -> list[tuple[int, int]]:
    """Return (table, row) of everything bad, the one to act on first; none where they are too many."""
    places = []
    for number, table in enumerate(tables):
        bad = (table.columns.outcome == FAIL) | (table.columns.outcome == MARGINAL)
        places += [(number, row) for row in np.flatnonzero(bad).tolist()]
    if len(places) > SORTED:
        return []
    return sorted(places, key=lambda place: (tables[place[0]].verdict(place[1]).severity, place))


class _Table:
    """The rows of one population as text."""

    def __init__(self, columns: JudgedColumns, baseline: Baseline | None) -> None:
        self.columns = columns
        self._baseline = baseline
        population = columns.population
        scope = columns.criterion.scope if columns.criterion else "unit"
        self._fixed = (
            f'"benchmark": {_quoted(population.benchmark)}, '
            f'"metric": {_quoted(population.metric.name)}, "scope": "{scope}"'
        )
        if population.group:
            self._fixed += f', "group": {_quoted(population.group)}'
        self._ends: dict[tuple[int, int, bool], str] = {}

    def verdict(self, row: int) -> MetricVerdict:
        """Return the full verdict on one row."""
        return self.columns.verdict(row, self._baseline)

    def row(self, row: int) -> str:
        """Return one row."""
        (text,) = self._texts(range(row, row + 1))
        return text

    def rows(self) -> Iterator[str]:
        """Yield every row."""
        return self._texts(range(len(self.columns.population)))

    def _texts(self, rows: range) -> Iterator[str]:
        columns, part = self.columns, slice(rows.start, rows.stop)
        for row, node, device, value, similarity, limit, outcome, reason in zip(
            rows,
            columns.population.nodes[part],
            columns.population.devices[part],
            _numbers(columns.value[part]),
            _numbers(columns.similarity[part]),
            _numbers(columns.threshold[part]),
            columns.outcome[part].tolist(),
            columns.reason[part].tolist(),
            strict=True,
        ):
            kind = (outcome, reason, similarity == _NULL)
            end = self._ends.get(kind)
            if end is None:  # a fleet has millions of rows of a few kinds
                reference = Reference.NONE if similarity == _NULL else columns.reference
                end = self._ends[kind] = (
                    f', "verdict": "{OUTCOMES[outcome]}", "reason": "{REASONS[reason]}", '
                    f'"reference": "{reference}"'
                )
            if outcome != PASS:
                full = self.verdict(row)
                loss, certainty = json.dumps(to_plain(full.loss)), json.dumps(full.certainty)
                end += f', "triage": "{full.triage}", "loss": {loss}, "certainty": {certainty}'
                end += f', "text": {_quoted(full.text)}'
            if row in columns.waived:
                waiver = to_plain(columns.waived[row].waiver, full=True)
                end += f', "waiver": {json.dumps(waiver)}'
            if row in columns.changes:
                change = to_plain(columns.changes[row].change, full=True)
                end += f', "change": {json.dumps(change)}'
            yield (
                f'{{"node": {_quoted(node)}, "device": {_quoted(device)}, {self._fixed}, "value": {value}, '
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
