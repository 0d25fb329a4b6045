"""Read what runs of a history, or collected journals, decided and spent, for the figures about validation.

`anubis fleet status` and the fleet's pages show these figures (`core/validation_figures.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import sqlalchemy as sa

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.standing.recorded_run import said_of_node
from pytest_anubis.core.validation_figures import (
    BenchmarkSpent,
    ValidationRun,
    ValidationRuns,
    spent_of,
)
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.judgements import read_spent
from pytest_anubis.store.history.database import History
from pytest_anubis.store.run_filter import RunFilter

MAX_RUNS = 50_000
"""Runs whose times are read, the latest ones: half a minute."""

_RUNS_PER_QUERY = 500


def filed_validation_runs(history: History, wanted: RunFilter) -> ValidationRuns:
    """Return the latest `MAX_RUNS` wanted runs of a history, which say what they spent.

    Runs that an older version filed do not say it. A recorded inventory accepts nothing (`said_of_node`).
    """
    runs, nodes, judgements = schema.runs, schema.nodes, schema.judgements
    query = (
        sa.select(runs.c.id, nodes.c.name, runs.c.run, runs.c.decision, schema.began)
        .join(nodes, nodes.c.id == runs.c.node_id)
        .order_by(schema.began.desc(), runs.c.id.desc())
    )
    if wanted.hardware_class:
        query = query.where(runs.c.hardware_class == wanted.hardware_class)
    if wanted.since is not None:
        query = query.where(schema.began >= wanted.since)
    marks = sa.select(schema.findings.c.run_id).where(schema.findings.c.reason == schema.REPLAYED)
    spent: dict[int, tuple[BenchmarkSpent, ...] | None] = {}
    with history.reading() as connection:
        replayed = set(connection.execute(marks).scalars())
        every = (row for row in connection.execute(query) if wanted.wants_node(row.name))
        rows = list(islice(every, MAX_RUNS))
        older = sum(1 for _ in every)
        for first in range(0, len(rows), _RUNS_PER_QUERY):
            numbers = [row.id for row in rows[first : first + _RUNS_PER_QUERY]]
            for number, packed in connection.execute(
                sa.select(judgements.c.run_id, judgements.c.packed).where(
                    judgements.c.run_id.in_(numbers)
                )
            ):
                spent[number] = read_spent(packed)
    read = tuple(
        ValidationRun(
            node=row.name,
            run=row.run,
            began=row.began,
            decision=""
            if row.id in replayed and row.decision == Decision.ACCEPTED
            else row.decision,
            spent=spent.get(row.id),
        )
        for row in rows
    )
    return ValidationRuns(runs=read, older=older)


def collected_validation_runs(records: Iterable[RunRecord]) -> tuple[ValidationRun, ...]:
    """Return collected runs with what they say of their node themselves."""
    return tuple(
        ValidationRun(
            node=one.node,
            run=one.run,
            began=moment(one.started),
            decision=said_of_node(one),
            spent=spent_of(one),
        )
        for one in records
    )
