"""Read the whole fleet from the history at once, for the Selector and the risk models (`read_fleet`).

Also each node's standing, number of runs, and defects, for lists and pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import sqlalchemy as sa

from pytest_anubis.core.history import Defect, FleetHistory, Incident, NodeRecord, RunSummary
from pytest_anubis.core.standing.standing_of import Standing
from pytest_anubis.core.standing.standing_verdict import node_doubt
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.judged_runs import standings_of
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.defect_records import defects
from pytest_anubis.store.history.incident_records import incidents
from pytest_anubis.store.history.node_rows import node_names


def read_fleet(history: History, *, hardware_class: str = "", profile: str = "") -> FleetHistory:
    """Return everything that the history knows about the fleet; arguments as of `of_class`."""
    happened = incidents(history)
    nodes = _nodes(history, happened)
    standings = _standings(history)
    whole = FleetHistory(
        nodes=nodes,
        incidents=happened,
        defects=_marked(defects(history), standings),
        runs=_runs(history),
        components=_components(history),
        measured=_measured(history),
        gone={one.name: one.changed or 0.0 for one in nodes if one.state == "removed"},
        doubts={
            node: doubt for node, one in standings.items() if (doubt := node_doubt(one)) is not None
        },
    )
    return of_class(history, whole, hardware_class, profile=profile)


def of_class(
    history: History, fleet: FleetHistory, hardware_class: str, *, profile: str = ""
) -> FleetHistory:
    """Return a fleet that was read whole, with durations, experience and defects of one class; empty: of all.

    Defects of an unknown class stay too; if the class has no defect that counts, all defects stay. With a
    profile, durations are of that one only.
    """
    found = fleet.defects
    if hardware_class and any(
        item.hardware_class == hardware_class and item.state != "false alarm" and item.benchmarks
        for item in found
    ):
        found = tuple(item for item in found if item.hardware_class in (hardware_class, ""))
    return replace(
        fleet,
        defects=found,
        durations=history.durations(hardware_class, profile=profile),
        experience=_experience(history, hardware_class),
    )


def last_verdicts(history: History) -> dict[str, tuple[str, float]]:
    """Return node -> its standing, and when the run began that decides it; nodes without one are left out."""
    return {
        node: (one.decision.value, one.by.began)
        for node, one in _standings(history).items()
        if one.by and one.decision
    }


def run_counts(history: History) -> dict[str, int]:
    """Return node -> how many runs of any purpose it has in the history; nodes without one are left out."""
    runs, nodes = schema.runs, schema.nodes
    query = (
        sa.select(nodes.c.name, sa.func.count())
        .join(runs, runs.c.node_id == nodes.c.id)
        .group_by(nodes.c.name)
    )
    with history.reading() as connection:
        return {name: int(count) for name, count in connection.execute(query)}


def nodes_without_run(history: History) -> tuple[NodeRecord, ...]:
    """Return the nodes that have no run and were not removed, sorted by name."""
    counts = run_counts(history)
    return tuple(
        node for node in history.nodes() if node.name not in counts and node.state != "removed"
    )


def _nodes(history: History, happened: tuple[Incident, ...]) -> tuple[NodeRecord, ...]:
    """Return all nodes, in service at the latest since their first incident."""
    first: dict[str, float] = {}
    for incident in happened:
        first[incident.node] = min(incident.started, first.get(incident.node, incident.started))
    return tuple(
        replace(node, since=min(node.since, first.get(node.name, node.since)))
        for node in history.nodes()
    )


def standing_defects(history: History, *, node: str = "") -> tuple[Defect, ...]:
    """Return the defects of a node or all, marked as passed where later runs passed what had failed.

    Raises:
        HistoryError: The node is unknown.
    """
    found = defects(history, node=node)
    if not any(one.state == "open" and one.runs for one in found):
        return found
    return _marked(found, _standings(history))


def _standings(history: History) -> dict[str, Standing]:
    """Return node -> its standing."""
    with history.reading() as connection:
        names = node_names(connection)
        return {names[node]: one for node, one in standings_of(connection).items()}


def _marked(found: Iterable[Defect], standings: Mapping[str, Standing]) -> tuple[Defect, ...]:
    """Return defects, marked as passed where no run that found them counts any more."""
    failing = {
        (node, by.run)
        for node, one in standings.items()
        for several in one.failures.values()
        for by in several
    }
    return tuple(
        replace(one, passed=True)
        if one.state == "open" and one.runs and failing.isdisjoint((one.node, r) for r in one.runs)
        else one
        for one in found
    )


def _runs(history: History) -> dict[str, tuple[RunSummary, ...]]:
    """Return node -> its runs in time order, each with its lowest similarity, by a single query."""
    runs, verdicts, nodes = schema.runs, schema.verdicts, schema.nodes
    lowest = (
        sa.select(verdicts.c.run_id, sa.func.min(verdicts.c.similarity).label("lowest"))
        .group_by(verdicts.c.run_id)
        .subquery()
    )
    query = (
        sa.select(nodes.c.name.label("node"), runs.c.run, runs.c.hardware_class, runs.c.decision)
        .add_columns(schema.began.label("started"), lowest.c.lowest)
        .join(nodes, nodes.c.id == runs.c.node_id)
        .outerjoin(lowest, lowest.c.run_id == runs.c.id)
        .order_by(schema.began, runs.c.id)
    )
    found: dict[str, list[RunSummary]] = {}
    with history.reading() as connection:
        for row in connection.execute(query):
            fields = row._asdict()
            value = fields.pop("lowest")
            known = {} if value is None else {("", "", ""): value}
            found.setdefault(row.node, []).append(RunSummary(**fields, similarities=known))
    return {node: tuple(runs) for node, runs in found.items()}


def _measured(history: History) -> dict[str, frozenset[str]]:
    table, runs = schema.benchmarks, schema.runs
    query = (
        sa.select(runs.c.hardware_class, table.c.benchmark)
        .join(runs, runs.c.id == table.c.run_id)
        .distinct()
    )
    found: dict[str, set[str]] = {}
    with history.reading() as connection:
        for key, benchmark in connection.execute(query):
            found.setdefault(key, set()).add(benchmark)
    return {key: frozenset(names) for key, names in found.items()}


def _experience(history: History, hardware_class: str) -> dict[str, int]:
    """Return benchmark -> number of runs in which it could have exposed a defect: it was timed, or judged.

    Imports are judged and have no times; rounds of learning have neither.
    """
    runs = schema.runs
    timed = sa.select(schema.durations.c.benchmark, schema.durations.c.run_id)
    judged = (
        sa.select(schema.benchmarks.c.benchmark, schema.benchmarks.c.run_id)
        .join(runs, runs.c.id == schema.benchmarks.c.run_id)
        .where(runs.c.decision != "")
    )
    each = sa.union(timed, judged).subquery()  # a run counts once
    query = (
        sa.select(each.c.benchmark, sa.func.count())
        .join(runs, runs.c.id == each.c.run_id)
        .group_by(each.c.benchmark)
    )
    if hardware_class:
        query = query.where(runs.c.hardware_class == hardware_class)
    with history.reading() as connection:
        return {benchmark: int(count) for benchmark, count in connection.execute(query)}


def _components(history: History) -> dict[str, str]:
    table = schema.benchmarks
    query = (
        sa.select(table.c.benchmark, sa.func.max(table.c.component))
        .where(table.c.component != "")
        .group_by(table.c.benchmark)
    )
    with history.reading() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}
