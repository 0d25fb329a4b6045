"""Runs that were measured on one machine, as populations; what others disturbed is part of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_anubis.core.gather import Gather
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population
from pytest_anubis.store.journal.journal_reading import read_journal


def read(folder: Path) -> tuple[Population, ...]:
    """Return what all runs below a folder measured, disturbed or not."""
    journals = sorted(folder.rglob("journal.jsonl"))
    return populations_of(read_journal(journal.parent) for journal in journals)


def populations_of(records: Iterable[RunRecord]) -> tuple[Population, ...]:
    """Return what runs of one machine measured, disturbed or not."""
    gather = Gather()
    for record in records:
        for one in record.measurements:
            gather.add(
                hardware_class="here",
                benchmark=one.benchmark,
                metric=one.metric,
                component=one.component,
                group=one.group,
                node="here",
                device=one.device,
                run=record.run,
                values=one.values,
            )
    return gather.populations()
