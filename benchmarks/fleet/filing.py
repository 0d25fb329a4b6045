"""How many runs a second the history of a fleet takes, and what a run takes of it; nothing lost or doubled.

Every writer is a node's process: it opens the history for each run, files it with its journal, and closes.
What could not be filed at once waits and is pushed afterwards; then all is counted. Prints rows for
benchmarks/figures/scale.md.
Run: ``python benchmarks/fleet/filing.py [--runs 512] [--metrics 20] [--values 100] [--writers 1 8 64]``.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import sqlalchemy as sa

from benchmarks.reliability.chaos.uploads import write_runs
from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.database import HISTORY_NAME, History
from pytest_anubis.store.history.run_filing import file_finished
from pytest_anubis.store.history.waiting_runs import waiting
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.postgres import new_database, server


def main() -> int:
    """Print a row for each database and number of writers; return 1 if anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=512, help="of all writers together")
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--values", type=int, default=100, help="of each metric")
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 8, 64])
    options = parser.parse_args()
    print(
        "| database | writers | runs/s | waited | lost | twice | bytes/run | journal | rows/run |"
    )
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    wrong = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-")))
        url = ""
        with contextlib.suppress(FileNotFoundError):
            url = stack.enter_context(server())
        for kind in ("SQLite", "PostgreSQL") if url else ("SQLite",):
            for count in options.writers:
                own = folder / f"{kind}{count}"
                place: Any = own / "fleet"
                if kind == "PostgreSQL":
                    place = new_database(url, f"fleet{count}")
                wrong += _row(kind, count, options, own, place)
    return int(wrong > 0)


def _row(kind: str, count: int, options: argparse.Namespace, own: Path, place: Any) -> int:
    each = max(1, options.runs // count)
    stores = [own / f"n{number}" for number in range(count)]
    for store in stores:
        write_runs(store, store.name, each, options.metrics, options.values)
    with History(place):
        pass
    context = multiprocessing.get_context("fork")
    start, end = context.Barrier(count + 1), context.Barrier(count + 1)
    writers = [context.Process(target=_write, args=(s, place, start, end)) for s in stores]
    for one in writers:
        one.start()
    start.wait()
    begin = time.perf_counter()
    end.wait()
    took = time.perf_counter() - begin
    for one in writers:
        one.join()
    late = sum(len(waiting(store)) for store in stores)
    push(stores, place)
    journals = [path for store in stores for path in store.rglob("journal.jsonl")]
    with History(place) as history, history.reading() as connection:
        table, parts = schema.runs, schema.content_parts
        found = connection.execute(sa.select(table.c.run)).scalars().all()
        events = connection.execute(sa.select(sa.func.sum(parts.c.events))).scalar() or 0
        rows = sum(
            connection.execute(sa.select(sa.func.count()).select_from(one)).scalar_one()
            for one in schema.metadata.tables.values()
        )
        if kind == "PostgreSQL":
            whole = connection.execute(sa.text("select pg_database_size(current_database())"))
            taken = int(whole.scalar_one()) - _empty(place)
    if kind == "SQLite":
        taken = sum(path.stat().st_size for path in place.glob(f"{HISTORY_NAME}*"))
    lost = len({path.parent.name for path in journals} - set(found))
    twice = len(found) - len(set(found))
    lines = sum(path.read_bytes().count(b"\n") for path in journals)
    size = sum(path.stat().st_size for path in journals)
    print(
        f"| {kind} | {count} | {count * each / took:.0f} | {late} | {lost} | {twice} | "
        f"{taken / len(found):,.0f} | {size / len(journals):,.0f} | {rows / len(found):.0f} |",
        flush=True,
    )
    return lost + twice + abs(lines - events)


def _write(store: Path, place: Any, start: Any, end: Any) -> None:
    ready = [(path, read_journal(path)) for path in sorted(store.rglob("journal.jsonl"))]
    start.wait()
    for path, record in ready:
        file_finished(place, store, record, journal=path)
    end.wait()


def _empty(place: str) -> int:
    """Return the bytes of a database of the same server without any run."""
    empty = new_database(place.replace(place.split("@/")[1].split("?")[0], "postgres"), _name())
    with History(empty) as history, history.reading() as connection:
        size = connection.execute(sa.text("select pg_database_size(current_database())"))
        return int(size.scalar_one())


def _name() -> str:
    return f"empty{time.monotonic_ns()}"


if __name__ == "__main__":
    raise SystemExit(main())
