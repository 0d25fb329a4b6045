"""Read and change defects in the history: components that validation found bad, and the benchmarks.

Filing only appends, since a node may not read the rows of others, so every rejected run leaves a row, a
sighting. Sightings of one component that the operator has not closed are read as one defect here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import sqlalchemy as sa

from pytest_anubis.core.history import DEFECT_STATES, Defect
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import History, HistoryError, check_state, past
from pytest_anubis.store.history.node_rows import known_node

_FAILED = ("outcome", "benchmark", "metric")
"""Columns of a verdict that say what failed."""


def add_defect(
    history: History,
    *,
    node: str,
    benchmarks: Iterable[str],
    component: str = "",
    kind: str = "",
    found: float | None = None,
    state: str = "confirmed",
    note: str = "",
    known_benchmarks: bool = False,
    now: float | None = None,
) -> int:
    """Record a defect by hand, e.g. from an older system, and return its number.

    It may be a sighting of a known one, whose number is returned then.

    With `known_benchmarks` each must have run on some node, since a misspelt one would never be chosen.

    Raises:
        HistoryError: The node or the state is unknown, no benchmark is named, or the time lies ahead.
    """
    exposed = sorted(set(benchmarks))
    if not exposed or not all(name.strip() for name in exposed):
        raise HistoryError("a defect needs the benchmarks that exposed it; name at least one")
    check_state(state, DEFECT_STATES)
    moment = past(found, now)
    with history.writing() as connection:
        number = known_node(connection, node)
        if known_benchmarks:
            _check_benchmarks(connection, exposed)
        nodes = schema.nodes
        key = connection.execute(
            schema.defects.insert().values(
                node_id=number,
                hardware_class=connection.execute(
                    sa.select(nodes.c.hardware_class).where(nodes.c.id == number)
                ).scalar_one(),
                found=moment,
                component=component,
                kind=kind or component,
                state=state,
                closed=None if state == "open" else moment,
                note=note,
            )
        ).inserted_primary_key
        defect = int(key[0]) if key else 0
        connection.execute(
            schema.defect_benchmarks.insert(),
            [{"defect_id": defect, "benchmark": name} for name in exposed],
        )
        return next(one.number for one, rows in _sighted(connection, number) if defect in rows)


def close_defect(
    history: History, number: int, state: str, *, note: str = "", now: float | None = None
) -> Defect:
    """Set the state of a defect and all its sightings: ``confirmed``, ``false alarm``, or ``open`` again.

    A sighting that was closed before keeps that date: anything found after it is another defect.

    Returns:
        The defect after the change; its number differs from `number` if that was a later sighting.

    Raises:
        HistoryError: There is no such defect, or the state is none of the three.
    """
    check_state(state, DEFECT_STATES)
    table = schema.defects
    closed = sa.func.coalesce(table.c.closed, past(None, now))
    changes: dict[str, Any] = {"state": state, "closed": None if state == "open" else closed}
    if note:
        changes["note"] = note
    with history.writing() as connection:
        node = connection.execute(sa.select(table.c.node_id).where(table.c.id == number)).scalar()
        numbers = next((rows for _, rows in _sighted(connection, node) if number in rows), ())
        if not numbers:
            raise HistoryError(
                f"there is no defect {number}; 'anubis history defect list' lists them"
            )
        connection.execute(table.update().where(table.c.id.in_(numbers)).values(changes))
        return next(one for one, rows in _sighted(connection, node) if number in rows)


def defects(history: History, *, node: str = "", state: str = "") -> tuple[Defect, ...]:
    """Return defects in time order, each with all its sightings, of one node or state if it is given.

    Raises:
        HistoryError: The node or the state is unknown.
    """
    if state:
        check_state(state, DEFECT_STATES)
    with history.reading() as connection:
        number = known_node(connection, node) if node else None
        found = [defect for defect, _ in _sighted(connection, number)]
    return tuple(one for one in found if state in ("", one.state))


def closed_with_metrics(history: History) -> tuple[Defect, ...]:
    """Return the closed defects in time order with what failed in their runs, as far as these are kept.

    Only in a run without a FAIL, which rejected for MARGINAL verdicts, these count.
    """
    closed = [one for one in defects(history) if one.closed is not None]
    nodes, runs, verdicts = schema.nodes, schema.runs, schema.verdicts
    blamed = sa.select(schema.defects.c.run_id).where(schema.defects.c.closed.is_not(None))
    bad = [Outcome.FAIL.value, Outcome.MARGINAL.value]
    query = (
        sa.select(nodes.c.name, runs.c.run, *(verdicts.c[name] for name in _FAILED))
        .join(runs, runs.c.id == verdicts.c.run_id)
        .join(nodes, nodes.c.id == runs.c.node_id)
        .where(runs.c.id.in_(blamed), verdicts.c.outcome.in_(bad))
        .distinct()
    )
    found: dict[tuple[str, str], dict[str, set[tuple[str, str]]]] = {}
    with history.reading() as connection:
        for node, run, outcome, benchmark, metric in connection.execute(query):
            of_run = found.setdefault((node, run), {})
            of_run.setdefault(outcome, set()).add((benchmark, metric))

    def failed(one: Defect) -> set[tuple[str, str]]:
        those = [found[one.node, run] for run in one.runs if (one.node, run) in found]
        return {pair for own in those for pair in own.get(bad[0]) or own[bad[1]]}

    return tuple(replace(one, metrics=tuple(sorted(failed(one)))) for one in closed)


def _sighted(connection: sa.Connection, node: int | None) -> list[tuple[Defect, tuple[int, ...]]]:
    """Return the defects of one node or all in time order, each with the numbers of its rows."""
    table, nodes, runs = schema.defects, schema.nodes, schema.runs
    query = (
        sa.select(table, nodes.c.name, runs.c.run, runs.c.headline)
        .join(nodes, nodes.c.id == table.c.node_id)
        .outerjoin(runs, runs.c.id == table.c.run_id)
        .order_by(table.c.found, table.c.id)
    )
    if node is not None:
        query = query.where(table.c.node_id == node)
    rows = connection.execute(query).all()
    exposed: dict[int, dict[str, str]] = {}  # row -> benchmark -> component, if it is known
    pairs, parts = schema.defect_benchmarks, schema.benchmarks
    run = (parts.c.run_id == table.c.run_id) & (parts.c.benchmark == pairs.c.benchmark)
    for number, benchmark, component in connection.execute(
        sa.select(pairs.c.defect_id, pairs.c.benchmark, parts.c.component)
        .join(table, table.c.id == pairs.c.defect_id)
        .outerjoin(parts, run)
        .order_by(pairs.c.benchmark)
    ):
        exposed.setdefault(number, {})[benchmark] = component or ""
    whole: list[tuple[Defect, tuple[int, ...]]] = []
    of_part: dict[tuple[str, str], list[int]] = {}  # node and component -> places among the whole
    for row in rows:
        one = _defect(row, exposed.get(row.id, {}))
        places = of_part.setdefault((one.node, one.component), [])
        place = next((p for p in reversed(places) if _same(whole[p][0], one)), None)
        if place is None:
            places.append(len(whole))
            whole.append((one, (one.number,)))
        else:
            first, numbers = whole[place]
            whole[place] = (_with_sighting(first, one), (*numbers, one.number))
    return whole


def _same(first: Defect, later: Defect) -> bool:
    """Return whether a later row of the same node and component is a sighting of a defect.

    It is not if the operator gave the two different states: an open row stays open until somebody closes it.
    """
    while_open = first.closed is None or later.found < first.closed
    alike = first.benchmarks == later.benchmarks or not set(first.benchmarks).isdisjoint(
        later.benchmarks
    )
    return while_open and first.state == later.state and alike


def _with_sighting(first: Defect, later: Defect) -> Defect:
    return replace(
        first,
        runs=(*first.runs, *later.runs),
        seen=later.found,
        benchmarks=tuple(sorted({*first.benchmarks, *later.benchmarks})),
        components=tuple(dict.fromkeys((*first.components, *later.components))),
    )


def _defect(row: Any, exposed: Mapping[str, str]) -> Defect:
    return Defect(
        number=row.id,
        node=row.name,
        hardware_class=row.hardware_class,
        run=row.run or "",
        runs=(row.run,) if row.run else (),
        found=row.found,
        seen=row.found,
        component=row.component,
        components=tuple(dict.fromkeys(filter(None, (row.component, *exposed.values())))),
        kind=row.kind,
        benchmarks=tuple(exposed),
        state=row.state,
        closed=row.closed,
        note=row.note,
        note_of_run=bool(row.note) and row.note == row.headline,
    )


def _check_benchmarks(connection: sa.Connection, names: Iterable[str]) -> None:
    """Refuse a benchmark that occurs in no run and no defect of the history."""
    known: set[str] = set()
    for table in (schema.durations, schema.benchmarks, schema.defect_benchmarks):
        known.update(connection.execute(sa.select(table.c.benchmark).distinct()).scalars())
    for name in names:
        if name not in known:
            alike = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
            hint = f"; did you mean {alike[0]!r}?" if alike else ""
            raise HistoryError(
                f"no run of this history knows the benchmark {name[:120]!r}{hint} (--new-benchmark: it has "
                "not run here yet)"
            )
