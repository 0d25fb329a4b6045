"""Define the tables of the history, for SQLite and PostgreSQL, and check every cell that is read.

SQLite stores any value in any column, so the types below refuse what does not belong there.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    select,
    type_coerce,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator

from pytest_anubis.codec import found, without_surrogates

VERSION = 2
"""Schema of a new history."""

metadata = MetaData()

_LAST = 253402300800.0  # the year 10000, which Python's dates do not reach


class Words(TypeDecorator[str]):
    """A column of text without lone surrogates and NUL, which broken names contain and databases refuse."""

    impl: type[String] = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        """Return text as it is stored."""
        if not isinstance(value, str):
            return value
        return without_surrogates(value).replace("\0", "\N{REPLACEMENT CHARACTER}")

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        """Return text as it was stored, and refuse anything else."""
        if value is not None and not isinstance(value, str):
            raise ValueError(f"a cell holds {found(value)} where text belongs")
        return value


class Label(Words):
    """A column with one of a few words."""

    impl = String
    cache_ok = True


class Number(TypeDecorator[float]):
    """A column of numbers in double precision."""

    impl = Double
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        """Return a number as it was stored, and refuse anything else."""
        if value is None:
            return None
        if not isinstance(value, float | int):
            raise ValueError(f"a cell holds {found(value)} where a number belongs")
        return float(value)


class Time(Number):
    """A column of moments in seconds since 1970, or of durations in seconds."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        """Return a time as it was stored, and refuse what is none."""
        number = super().process_result_value(value, dialect)
        if number is not None and not (isfinite(number) and abs(number) < _LAST):
            raise ValueError(f"a cell holds {found(value)} where a time belongs")
        return number


Count = BigInteger().with_variant(Integer, "sqlite")
"""Whole numbers of 64 bits, since 100,000 nodes give more than 2^32 verdicts within a year. SQLite's always
have 64, and SQLite numbers rows only in a column of the type INTEGER."""


def _number() -> Column[int]:
    return Column("id", Count, primary_key=True, autoincrement=True)


def _of(table: str, **more: Any) -> Column[int]:
    key = ForeignKey(f"{table}s.id", ondelete="CASCADE")
    return Column(f"{table}_id", Count, key, nullable=False, **more)


def _texts(*names: str) -> list[Column[str]]:
    """Return columns of text, empty by default."""
    return [Column(name, Words, nullable=False, server_default="") for name in names]


def _table(name: str, *parts: SchemaItem) -> Table:
    return Table(name, metadata, *parts)


meta = _table(
    "anubis_meta",
    Column("name", String(64), primary_key=True),
    Column("value", Words, nullable=False),
)

nodes = _table(
    "nodes",
    _number(),
    Column("name", Words, nullable=False, unique=True),
    *_texts("hardware_class"),
    Column("since", Time, nullable=False),
)

states = _table(
    "states",
    _number(),
    _of("node"),
    Column("at", Time, nullable=False),
    Column("state", Label(32), nullable=False),
    *_texts("note"),
    Index("states_by_node", "node_id", "at"),
)

node_traits = _table(
    "node_traits",
    _of("node", primary_key=True, autoincrement=False),
    Column("name", Words, primary_key=True),
    Column("value", Words, nullable=False),
)

node_machines = _table(
    "node_machines",
    _of("node", primary_key=True, autoincrement=False),
    Column("mark", Label(64), primary_key=True),
)
"""Marks that identify the machine behind a node's name (`core/machine_marks.py`)."""

namesakes = _table(
    "namesakes",
    _of("node", primary_key=True, autoincrement=False),
    Column("first_id", Count, ForeignKey("nodes.id", ondelete="CASCADE"), nullable=False),
    Index("namesakes_by_first", "first_id"),
)
"""Nodes whose name another machine uses too; ``first_id`` is the node that keeps the name."""

runs = _table(
    "runs",
    _number(),
    _of("node"),
    Column("run", Words, nullable=False),
    *_texts("hardware_class", "profile", "purpose"),
    Column("started", Time, nullable=False),
    Column("ended", Time),
    *_texts("decision", "headline", "baseline"),
    UniqueConstraint("node_id", "run"),
    Index("runs_by_class", "hardware_class", "started"),
    Index("runs_by_node", "node_id", "started"),
)

run_clocks = _table(
    "run_clocks",
    _of("run", primary_key=True, autoincrement=False),
    Column("ahead", Time, nullable=False),
    Column("known", Label(16), nullable=False),
)
"""Runs on a machine whose clock differed from the history's: the seconds it was ahead, and whether that is
known ``exactly``, as ``at least`` so much, or not at all (``behind its baseline``)."""

run_orders = _table(
    "run_orders",
    _of("run", primary_key=True, autoincrement=False),
    Column("after", Words, nullable=False),
)
"""Run -> id of the run of its node that came before it, independent of clocks."""

_off = func.coalesce(
    select(run_clocks.c.ahead)
    .where(run_clocks.c.run_id == runs.c.id)
    .correlate(runs)
    .scalar_subquery(),
    0.0,
)
began = type_coerce(runs.c.started - _off, Time).label("began")
"""When a run began by the history's own clock, which orders runs."""
ended = type_coerce(runs.c.ended - _off, Time).label("closed")
"""When it ended, as `began`."""

benchmarks = _table(
    "benchmarks",
    _number(),
    _of("run"),
    *_texts("benchmark", "component"),
    Index("benchmarks_by_run", "run_id"),
)

verdicts = _table(
    "verdicts",
    _number(),
    _of("run"),
    *_texts("benchmark", "metric", "unit", "component", "device", "scope"),
    *_texts("outcome", "reason", "reference"),
    *(Column(name, Number) for name in ("value", "expected", "similarity", "threshold")),
    Index("verdicts_by_run", "run_id"),
)

findings = _table(
    "findings",
    _number(),
    _of("run"),
    *_texts("benchmark", "metric", "device", "units", "outcome", "reason", "reference"),
    *_texts("owner", "why", "expires"),
    Index("findings_by_run", "run_id"),
)
"""All verdicts of a run on a metric and device if one of them has a group (``units``) or is waived. Then
read them here and not in ``verdicts``, which has no column for either. Rows with the reasons below mark the
run."""

REPLAYED = "replayed"
"""Reason of a row in `findings`: the run's inventory may be another machine's, so it clears nothing
(`RunRecord.replayed`)."""

CAMPAIGN = "campaign"
"""Reason of a row in `findings`: the run is a cycle of the soak that ``why`` names."""

NOISY = "noisy"
"""Reason of a row in `findings`: the run was allowed on a machine that was noisier than usual."""

AGAIN = "again"
"""Reason of a row in `findings`: what rejected the node is to be measured again first."""

KILLED = "killed"
"""Reason of a row in `findings`: the run was killed, ``why`` has the seconds until its latest event."""

MARKS = (REPLAYED, CAMPAIGN, NOISY, AGAIN, KILLED)
"""Reasons of the rows in `findings` that mark their run."""

durations = _table(
    "durations",
    _number(),
    _of("run"),
    *_texts("benchmark"),
    Column("seconds", Time, nullable=False),
    Index("durations_by_run", "run_id"),
)

judgements = _table(
    "judgements",
    _of("run", primary_key=True, autoincrement=False),
    Column("packed", LargeBinary, nullable=False),
)
"""What each run decided of its node, with its metric verdicts (`contents/judgements.py`)."""

incidents = _table(
    "incidents",
    _number(),
    _of("node"),
    Column("kind", Words, nullable=False),
    Column("started", Time, nullable=False),
    Column("duration", Time),
    *_texts("component", "note"),
    UniqueConstraint("node_id", "kind", "started"),
)

defects = _table(
    "defects",
    _number(),
    _of("node"),
    Column("run_id", Count, ForeignKey("runs.id", ondelete="SET NULL")),
    *_texts("hardware_class"),
    Column("found", Time, nullable=False),
    *_texts("component", "kind"),
    Column("state", Label(16), nullable=False),
    Column("closed", Time),
    *_texts("note"),
    Index("defects_by_class", "hardware_class", "found"),
)

defect_benchmarks = _table(
    "defect_benchmarks",
    _of("defect", primary_key=True),
    Column("benchmark", Words, primary_key=True),
)

contents = _table(
    "contents",
    _of("run", primary_key=True, autoincrement=False),
    Column("kind", Label(16), nullable=False),
    Column("events", Count, nullable=False),
    Column("bytes", Count, nullable=False),
    Column("digest", Label(64), nullable=False),
    Index("contents_by_digest", "digest"),
)

content_parts = _table(
    "content_parts",
    _of("run", primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("events", Count, nullable=False),
    Column("packed", LargeBinary, nullable=False),
)
