"""Read the runs of a history, or of collected records, as the figures about validation need them."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from pytest_anubis.codec.moments import moment
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.validation_figures import ValidationRun, spent_of
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.judgements import read_spent
from pytest_anubis.store.history.database import History
from pytest_anubis.store.run_filter import RunFilter


def filed_validation_runs(history: History, wanted: RunFilter) -> tuple[ValidationRun, ...]:
    """Return the wanted runs of a history; runs that an older version filed do not say what they spent."""
    runs, nodes, judgements = schema.runs, schema.nodes, schema.judgements
    query = (
        sa.select(nodes.c.name, runs.c.run, runs.c.decision, schema.began, judgements.c.packed)
        .join(nodes, nodes.c.id == runs.c.node_id)
        .outerjoin(judgements, judgements.c.run_id == runs.c.id)
    )
    if wanted.hardware_class:
        query = query.where(runs.c.hardware_class == wanted.hardware_class)
    if wanted.since is not None:
        query = query.where(schema.began >= wanted.since)
    with history.reading() as connection:
        return tuple(
            ValidationRun(
                node=row.name,
                run=row.run,
                began=row.began,
                decision=row.decision,
                spent=read_spent(row.packed),
            )
            for row in connection.execute(query)
            if wanted.wants_node(row.name)
        )


def collected_validation_runs(records: Iterable[RunRecord]) -> tuple[ValidationRun, ...]:
    """Return collected runs with what they decided themselves."""
    return tuple(
        ValidationRun(
            node=one.node,
            run=one.run,
            began=moment(one.started),
            decision=one.node_verdict.decision.value if one.node_verdict is not None else "",
            spent=spent_of(one),
        )
        for one in records
    )
