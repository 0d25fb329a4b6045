"""Write the SQL for the roles of a history on PostgreSQL, which its administrator reads and runs.

Nodes append runs, dashboards read, and a few people correct. An attacker who controls a node must not be able
to change the results of other nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_anubis.store.history import tables as schema

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")

APPENDED = (
    schema.nodes, schema.node_machines, schema.namesakes, schema.runs, schema.run_clocks,
    schema.run_orders, schema.benchmarks, schema.verdicts, schema.findings, schema.durations,
    schema.judgements, schema.defects, schema.defect_benchmarks, schema.contents, schema.content_parts,
)  # fmt: skip
"""Tables to which filing a run adds rows."""

_COMPARED = (
    schema.meta, schema.nodes, schema.node_machines, schema.namesakes, schema.runs, schema.contents,
)  # fmt: skip
"""Tables that filing a run reads, to find the run itself and the machine of its node's name."""


def roles_sql(*, prefix: str = "anubis", place: str = "public") -> str:
    """Return SQL that makes the roles and grants their rights; running it again does no harm.

    Raises:
        ValueError: A name would need quotes; one line.
    """
    for name in (prefix, place):
        if _NAME.fullmatch(name) is None:
            raise ValueError(f"{name[:40]!r}: use small letters, digits and _, at most 41")
    append, read, maintain = (f"{prefix}_{word}" for word in ("append", "read", "maintain"))
    made = "\n".join(
        f"DO $$ BEGIN CREATE ROLE {name} NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
        for name in (append, read, maintain)
    )

    def listed(names: Iterable[str]) -> str:
        return ", ".join(f"{place}.{name}" for name in names)

    every = listed(schema.metadata.tables)
    appended = listed(table.name for table in APPENDED)
    compared = listed(table.name for table in _COMPARED)
    numbers = listed(f"{table.name}_id_seq" for table in APPENDED if "id" in table.c)
    return f"""\
-- Roles of the history of pytest-anubis. Run it once, and again after an update, as the owner of the tables
-- (the user who filed the first run, or first ran 'anubis history --history URL') and with CREATEROLE.
-- Give users of your own what they need: GRANT {append} TO node; GRANT {read} TO dashboard;
{made}
REVOKE ALL ON ALL TABLES IN SCHEMA {place} FROM PUBLIC, {append}, {read};
REVOKE CREATE ON SCHEMA {place} FROM PUBLIC;
GRANT USAGE ON SCHEMA {place} TO {append}, {read}, {maintain};

-- {append}: for nodes. Files new runs, sees which are there, and reads, changes and removes nothing else.
-- The class of a node is that of its latest run, so that one column may be updated.
GRANT INSERT ON {appended} TO {append};
GRANT SELECT ON {compared} TO {append};
GRANT SELECT (id) ON {place}.defects TO {append};
GRANT UPDATE (hardware_class) ON {place}.nodes TO {append};
GRANT USAGE ON SEQUENCE {numbers} TO {append};

-- {read}: for dashboards, 'anubis learn|judge|report --history', and nodes that choose benchmarks by risk.
GRANT SELECT ON {every} TO {read};

-- {maintain}: for people who enter incidents, close defects, retain and compact, and for 'anubis push' of
-- runs that were resumed after they had been filed.
GRANT SELECT, INSERT, UPDATE, DELETE ON {every} TO {maintain};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA {place} TO {maintain};
GRANT CREATE ON SCHEMA {place} TO {maintain};
"""
