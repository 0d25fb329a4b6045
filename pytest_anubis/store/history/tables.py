"""The tables of the history: one schema for SQLite and PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

VERSION = 2
"""Schema of a new history."""

READABLE = ("1", "2")
"""Schemas that are read and written: 1 has more columns, all of which may be left out, and ``samples``."""

metadata = MetaData()


def _number() -> Column[int]:
    return Column("id", Integer, primary_key=True, autoincrement=True)


def _of(table: str) -> Column[int]:
    return Column(
        f"{table}_id", Integer, ForeignKey(f"{table}s.id", ondelete="CASCADE"), nullable=False
    )


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default="")


meta = Table(
    "anubis_meta",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    _number(),
    Column("name", Text, nullable=False, unique=True),
    _text("hardware_class"),
    Column("since", Double, nullable=False),
)

states = Table(
    "states",
    metadata,
    _number(),
    _of("node"),
    Column("at", Double, nullable=False),
    Column("state", String(32), nullable=False),
    _text("note"),
    Index("states_by_node", "node_id", "at"),
)

runs = Table(
    "runs",
    metadata,
    _number(),
    _of("node"),
    Column("run", Text, nullable=False),
    _text("hardware_class"),
    _text("profile"),
    _text("purpose"),
    Column("started", Double, nullable=False),
    Column("ended", Double),
    _text("decision"),
    _text("headline"),
    _text("baseline"),
    UniqueConstraint("node_id", "run"),
    Index("runs_by_class", "hardware_class", "started"),
)

benchmarks = Table(
    "benchmarks",
    metadata,
    _number(),
    _of("run"),
    _text("benchmark"),
    _text("component"),
    Index("benchmarks_by_run", "run_id"),
)

verdicts = Table(
    "verdicts",
    metadata,
    _number(),
    _of("run"),
    _text("benchmark"),
    _text("metric"),
    _text("unit"),
    _text("component"),
    _text("device"),
    _text("scope"),
    _text("outcome"),
    _text("reason"),
    _text("reference"),
    Column("value", Double),
    Column("expected", Double),
    Column("similarity", Double),
    Column("threshold", Double),
    Index("verdicts_by_run", "run_id"),
)

durations = Table(
    "durations",
    metadata,
    _number(),
    _of("run"),
    _text("benchmark"),
    Column("seconds", Double, nullable=False),
    Index("durations_by_run", "run_id"),
)

incidents = Table(
    "incidents",
    metadata,
    _number(),
    _of("node"),
    Column("kind", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("duration", Double),
    _text("component"),
    _text("note"),
    UniqueConstraint("node_id", "kind", "started"),
)

defects = Table(
    "defects",
    metadata,
    _number(),
    _of("node"),
    Column("run_id", Integer, ForeignKey("runs.id", ondelete="SET NULL")),
    _text("hardware_class"),
    Column("found", Double, nullable=False),
    _text("component"),
    _text("kind"),
    Column("state", String(16), nullable=False),
    Column("closed", Double),
    _text("note"),
    Index("defects_by_class", "hardware_class", "found"),
)

defect_benchmarks = Table(
    "defect_benchmarks",
    metadata,
    Column("defect_id", Integer, ForeignKey("defects.id", ondelete="CASCADE"), primary_key=True),
    Column("benchmark", Text, primary_key=True),
)
