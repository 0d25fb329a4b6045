"""Split an import into runs with their own samples, for filing in a history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population
from pytest_anubis.store.collected_runs import RunSet
from pytest_anubis.store.history.contents.content_rows import Content, columns_content
from pytest_anubis.store.samples.columnar_files import Columns, columns_bytes


def import_contents(runs: RunSet) -> Iterator[tuple[RunRecord, Content]]:
    """Yield the runs of an import, one for each node and class, with their content.

    The record lists what was measured, without values.
    """
    parts: dict[tuple[str, str, str], list[tuple[Population, list[int]]]] = {}
    for population in runs.populations:
        rows: dict[tuple[str, str], list[int]] = {}
        for row, unit in enumerate(zip(population.runs, population.nodes, strict=True)):
            rows.setdefault(unit, []).append(row)
        for (run, node), numbers in rows.items():
            key = (run, node, population.hardware_class)
            parts.setdefault(key, []).append((population, numbers))
    for record in runs.runs:
        mine = parts.get((record.run, record.node, record.hardware_class), [])
        own = tuple(population.only(numbers) for population, numbers in mine)
        # Without its beginning, which may be the file's date: copies must have the same content.
        head = replace(record, measurements=(), started="")
        columns = Columns(populations=own, runs=(head,))
        content = columns_content(columns_bytes(columns, compress=False), sum(map(len, own)))
        yield replace(record, measurements=tuple(map(_named, own))), content


def _named(population: Population) -> Measurement:
    """Return a measurement of the population's metric without values."""
    return Measurement(
        test=population.benchmark,
        benchmark=population.benchmark,
        component=population.component,
        metric=population.metric,
        device=population.devices[0],
        group=population.group,
        values=(),
    )
