"""The JSON file of ``anubis judge``: written row by row, since a fleet has millions of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.verdict import Outcome, Reference
from pytest_anubis.validator.columns import OUTCOMES, REASONS, JudgedColumns
from pytest_anubis.validator.fleet import JudgedFleet
from pytest_anubis.wire import to_plain

SCHEMA = 1


def write_judged(judged: JudgedFleet, path: Path, progress: Callable[[int, int], None]) -> None:
    """Write ``{"schema", "findings": [...], "nodes": [...], "verdicts": [...]}``.

    Every verdict has node, device, benchmark, metric, scope, value, similarity, limit, verdict, reason and
    the reference that decided (fleet, peers, self, none); one that is not PASS also has the sentence for
    people, and one of a run that changed has onset, size and probability of the change. What does not
    exist is null. Findings concern a class as a whole.

    Args:
        judged: What was judged.
        path: The file, replaced when all is written.
        progress: Called with (done, all) populations.

    Raises:
        OSError: The disk refuses.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as out:
            nodes = [
                {**to_plain(verdict), "verdict": verdict.decision.value} for verdict in judged.nodes
            ]
            findings = json.dumps([to_plain(finding) for finding in judged.findings])
            out.write(f'{{"schema": {SCHEMA},\n"findings": {findings},\n')
            out.write(f'"nodes": {json.dumps(nodes)},\n"verdicts": [\n')
            separator = ""
            for done, columns in enumerate(judged.columns, start=1):
                baseline = judged.baselines.get(columns.population.hardware_class)
                rows = ",\n".join(_rows(columns, baseline))
                if rows:
                    out.write(separator + rows)
                    separator = ",\n"
                progress(done, len(judged.columns))
            out.write("\n]}\n")
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _rows(columns: JudgedColumns, baseline: Baseline | None) -> Iterator[str]:
    population = columns.population
    scope = columns.criterion.scope if columns.criterion else "unit"
    fixed = (
        f'"benchmark": {_quoted(population.benchmark)}, '
        f'"metric": {_quoted(population.metric.name)}, "scope": "{scope}"'
    )
    if population.group:
        fixed += f', "group": {_quoted(population.group)}'
    for row, (node, device, value, similarity, limit, outcome, reason) in enumerate(
        zip(
            population.nodes,
            population.devices,
            columns.value.tolist(),
            columns.similarity.tolist(),
            columns.threshold.tolist(),
            columns.outcome.tolist(),
            columns.reason.tolist(),
            strict=True,
        )
    ):
        text = f', "reference": "{Reference.NONE if math.isnan(similarity) else columns.reference}"'
        if OUTCOMES[outcome] is not Outcome.PASS:
            text += f', "text": {_quoted(columns.verdict(row, baseline).text)}'
        if row in columns.changes:
            text += f', "change": {json.dumps(to_plain(columns.changes[row].change))}'
        yield (
            f'{{"node": {_quoted(node)}, "device": {_quoted(device)}, {fixed}, '
            f'"value": {_number(value)}, "similarity": {_number(similarity)}, '
            f'"limit": {_number(limit)}, "verdict": "{OUTCOMES[outcome]}", '
            f'"reason": "{REASONS[reason]}"{text}}}'
        )


@lru_cache(maxsize=65536)
def _quoted(text: str) -> str:
    return json.dumps(text)


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else "null"
