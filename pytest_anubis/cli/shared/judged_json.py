"""The JSON of ``anubis judge`` and ``report``: verdicts are written row by row, since a fleet has millions.

`judged_inputs` is what judging decided from, for this file and the pages.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pytest_anubis import __version__
from pytest_anubis.cli.shared.arguments import DEFAULT_BASELINE
from pytest_anubis.cli.shared.collected_judging import rows_of
from pytest_anubis.codec import to_plain
from pytest_anubis.codec.regular_files import file_sha256
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.fleet_survey import TraitShift
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import MetricVerdict, Reason, Reference
from pytest_anubis.passwords import shown_place
from pytest_anubis.store.atomic import writing_atomically
from pytest_anubis.store.run_files import files_of
from pytest_anubis.validator.deciding.fleet_judging import JudgedFleet
from pytest_anubis.validator.judging.column_judging import JudgedColumns, attained_shares
from pytest_anubis.validator.judging.verdict_table import FAIL, MARGINAL, OUTCOMES, PASS, REASONS

SCHEMA = 2
_NULL = "null"
MAX_SORTED = 100_000
"""Bad verdicts that are sorted: some seconds' work. More of them are a matter of the whole class."""


def write_judged(
    judged: JudgedFleet,
    path: Path,
    progress: Callable[[int, int], None],
    shifts: Sequence[TraitShift] = (),
    inputs: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write an object with schema, version, baselines, findings, shared, notes, nodes and verdicts.

    ``version`` is that of this program, and ``baselines`` has the digest of each class's baseline. Every
    verdict has node, device, benchmark, metric, scope, unit, component, value, similarity, limit (the
    similarity's threshold, under an older name), verdict, reason and the `Reference` that decided. Missing
    values are null.

    A verdict that is not PASS also has triage (reject, retest, investigate or empty), the expected value, the
    loss relative to it, the certainty that it is beyond the limit, and the sentence for people; one of a run
    that changed has onset, size and probability of the change; one that a waiver covers has the waiver. Bad
    verdicts and nodes come first, in the order in which to act on them; every node has what to do ``next``.
    Findings concern a class as a whole; ``shared`` has the traits that separate nodes of a class, such as
    their batch.

    Args:
        judged: The verdicts.
        path: The file, replaced when all is written.
        progress: Called with (done, all) populations.
        shifts: Traits that separate nodes of a class.
        inputs: Further keys, from `judged_inputs`.
    """
    with writing_atomically(path) as out:
        for text in judged_json(judged, progress, shifts, inputs):
            out.write(text.encode("ascii"))


def judged_json(
    judged: JudgedFleet,
    progress: Callable[[int, int], None],
    shifts: Sequence[TraitShift] = (),
    inputs: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield the file's text in pieces, in ASCII; arguments as of `write_judged`."""
    nodes = [
        {
            **to_plain(row.verdict, full=True),
            "verdict": row.verdict.decision.value,
            "is": row.word,
            "next": row.step,
        }
        for row in sorted(rows_of(judged), key=lambda row: row.verdict.severity)
    ]
    findings = json.dumps([to_plain(finding, full=True) for finding in judged.findings])
    shared = json.dumps([to_plain(shift, full=True) for shift in shifts])
    notes = json.dumps([*judged.notes, *judged.asides])
    digests = {key: baseline.digest for key, baseline in sorted(judged.baselines.items())}
    head = {"schema": SCHEMA, "version": __version__, "baselines": digests, **inputs}
    yield "{" + "".join(f'"{name}": {json.dumps(one)},\n' for name, one in head.items())
    yield f'"findings": {findings},\n"shared": {shared},\n"notes": {notes},\n'
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
    written: dict[int, set[int]] = {}
    for number, row in first:
        written.setdefault(number, set()).add(row)
    units: tuple[Sequence[str], Sequence[str]] = ((), ())
    heads: list[str] = []
    for number, table in enumerate(tables):
        if table.units != units:  # most populations have the same units
            units, heads = table.units, table.heads()
        texts = table.texts(heads)
        left_out = written.get(number)
        if left_out:
            texts = [text for row, text in enumerate(texts) if row not in left_out]
        rows = ",\n".join(texts)
        if rows:
            yield separator + rows
            separator = ",\n"
        progress(number + 1, len(tables))
    yield "\n]}\n"


def _worst_first(tables: Sequence[_Table]) -> list[tuple[int, int]]:
    """Return (table, row) of all bad verdicts in the order to act on them; empty if there are too many."""
    places = []
    for number, table in enumerate(tables):
        bad = (table.columns.outcome == FAIL) | (table.columns.outcome == MARGINAL)
        places += [(number, row) for row in np.flatnonzero(bad).tolist()]
    if len(places) > MAX_SORTED:
        return []
    return sorted(places, key=lambda place: (tables[place[0]].verdict(place[1]).severity, place))


class _Table:
    """One population's rows as text."""

    def __init__(self, columns: JudgedColumns, baseline: Baseline | None) -> None:
        self.columns = columns
        self._baseline = baseline
        population = columns.population
        scope = columns.criterion.scope if columns.criterion else "unit"
        self._fixed = (
            f'"benchmark": {_quoted(population.benchmark)}, '
            f'"metric": {_quoted(population.metric.name)}, "scope": "{scope}", '
            f'"unit": {_quoted(population.metric.unit)}, "component": {_quoted(population.component)}'
        )
        if population.group:
            self._fixed += f', "group": {_quoted(population.group)}'
        if nominal := population.metric.nominal:
            self._fixed += f', "nominal": {nominal.value!r}, "nominal_of": {_quoted(nominal.of)}'
        self._tails = _Tails(columns.reference)

    def verdict(self, row: int) -> MetricVerdict:
        """Return the full verdict on one row."""
        return self.columns.verdict(row, self._baseline)

    def row(self, row: int) -> str:
        """Return one row."""
        (text,) = self.texts(self.heads(row, row + 1), row, row + 1)
        return text

    @property
    def units(self) -> tuple[Sequence[str], Sequence[str]]:
        """The nodes and the devices of the rows."""
        return self.columns.population.nodes, self.columns.population.devices

    def heads(self, first: int = 0, end: int | None = None) -> list[str]:
        """Return the beginnings of some rows, which name the node and the device."""
        nodes, devices = self.units
        return [
            f'{{"node": {_quoted(node)}, "device": {_quoted(device)}, '
            for node, device in zip(nodes[first:end], devices[first:end], strict=True)
        ]

    def texts(self, heads: Sequence[str], first: int = 0, end: int | None = None) -> list[str]:
        """Return some rows, whose beginnings are known."""
        columns = self.columns
        part = slice(first, end)
        tails = self._tails
        similarities = _numbers(columns.similarity[part])
        # Most of a row's text is shared with other rows of its population.
        kinds = zip(
            columns.outcome[part].tolist(),
            columns.reason[part].tolist(),
            _plain(columns.threshold[part]),
            np.isfinite(columns.similarity[part]).tolist(),
            strict=True,
        )
        ends = list(map(tails.__getitem__, kinds))
        special = np.flatnonzero(columns.outcome[part] != PASS) + first
        for row in {*special.tolist(), *columns.waived, *columns.changes, *columns.answered}:
            if first <= row < first + len(ends):
                ends[row - first] = self._end(row, ends[row - first])
        fixed = f'{self._fixed}, "value": '
        values = _numbers(columns.value[part])
        if (metric := columns.population.metric).nominal:
            shares = _numbers(attained_shares(metric, columns.value[part]))
            values = map('{}, "nominal_share": {}'.format, values, shares)
        return [
            f'{head}{fixed}{value}, "similarity": {similarity}, "limit": {end}'
            for head, value, similarity, end in zip(heads, values, similarities, ends, strict=True)
        ]

    def _end(self, row: int, usual: str) -> str:
        """Return the end of a row that has more than the rows of its kind."""
        columns = self.columns
        end = usual[:-1]
        if columns.outcome[row] != PASS or row in columns.answered:
            full = self.verdict(row)
            loss = json.dumps(to_plain(full.loss))
            certainty = json.dumps(full.certainty)
            end += f', "triage": "{full.triage}", "loss": {loss}, "certainty": {certainty}'
            end += (
                f', "expected": {json.dumps(to_plain(full.expected))}, "text": {_quoted(full.text)}'
            )
        if row in columns.waived:
            waiver = to_plain(columns.waived[row].waiver, full=True)
            end += f', "waiver": {json.dumps(waiver)}'
        if row in columns.changes:
            change = to_plain(columns.changes[row].change, full=True)
            end += f', "change": {json.dumps(change)}'
        return f"{end}}}"


class _Tails(dict[tuple[int, int, float | None, bool], str]):
    """Cache of row ends, from the limit on, by outcome, reason, limit and whether there is a similarity."""

    def __init__(self, reference: Reference) -> None:
        super().__init__()
        self._reference = reference

    def __missing__(self, kind: tuple[int, int, float | None, bool]) -> str:
        outcome, reason, limit, compared = kind
        below_nominal = REASONS[reason] is Reason.BELOW_NOMINAL
        by = Reference.MODEL if below_nominal else self._reference if compared else Reference.NONE
        self[kind] = text = (
            f'{_NULL if limit is None else repr(limit)}, "verdict": "{OUTCOMES[outcome]}", '
            f'"reason": "{REASONS[reason]}", '
            f'"reference": "{by}"}}'
        )
        return text


@lru_cache(maxsize=65536)
def _quoted(text: str) -> str:
    return json.dumps(text)


def _numbers(values: FloatArray) -> Iterable[str]:
    """Return every value as JSON has it, what is not finite as null."""
    if np.isfinite(values).all():
        return map(repr, values.tolist())
    return [repr(value) if math.isfinite(value) else _NULL for value in values.tolist()]


def _plain(values: FloatArray) -> list[float | None]:
    """Return every value, None for what is not finite."""
    if np.isfinite(values).all():
        return values.tolist()  # type: ignore[no-any-return]  # so numpy says
    return [value if math.isfinite(value) else None for value in values.tolist()]


_DECIDING = (
    "nodes", "exclude", "metrics", "hardware_class", "since", "split", "require", "fail_on", "require_all",
    "other_machine", "allow_missing",
)  # fmt: skip
"""Options of `add_sources`, `add_split`, `add_require` and `add_strictness` that are plain values."""


def judged_inputs(options: argparse.Namespace, places: Sequence[Path]) -> dict[str, Any]:
    """Return ``inputs``, ``baseline_files`` and ``options``, those that decide, as plain data.

    `places` are files and folders that the runs are from; none for a history, which has no file of its own.
    """
    named = {
        "baseline": options.baseline or DEFAULT_BASELINE,
        "waivers": options.waivers,
        "nodes_file": options.nodes_file,
    }
    baseline = Path(options.baseline or DEFAULT_BASELINE)
    learned = sorted(baseline.glob("*.json")) if baseline.is_dir() else [baseline]
    return {
        "inputs": [_file(path) for path in files_of(places, exports=True)[0]],
        "baseline_files": [_file(path) for path in learned],
        "options": {
            "history": shown_place(options.history) if options.history else None,
            **{name: None if path is None else _file(path) for name, path in named.items()},
            **{name: getattr(options, name) for name in _DECIDING},
        },
    }


def _file(path: Path) -> dict[str, str | None]:
    """Return a path with its SHA-256, which a folder and a file that cannot be read lack."""
    try:
        digest = file_sha256(path)
    except OSError:
        return {"path": str(path), "sha256": None}
    return {"path": str(path), "sha256": digest}
