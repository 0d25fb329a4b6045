"""A PostgreSQL server for the tests of the history, where one is installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa


def _programs() -> Path | None:
    found = shutil.which("pg_ctl")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((f for f in reversed(folders) if (f / "initdb").exists()), None)


def _run(*arguments: str | Path) -> None:
    # The server refuses to run as root.
    words = [str(argument) for argument in arguments]
    if os.geteuid() == 0:
        words = ["runuser", "-u", "postgres", "--", *words]
    subprocess.run(words, check=True, capture_output=True, timeout=60)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Run a fresh server and give its URL.

    Raises:
        FileNotFoundError: PostgreSQL is not installed.
    """
    programs = _programs()
    if programs is None:
        raise FileNotFoundError("PostgreSQL not found: install it, e.g. apt install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="anubis-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    try:
        _run(programs / "initdb", "-D", data, "-U", "anubis", "-A", "trust", "--no-sync")
        _start(programs, folder)
        try:
            yield f"postgresql+psycopg://anubis@/postgres?host={folder}"
        finally:
            _run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(programs: Path, folder: Path) -> None:
    options = f"-c listen_addresses='' -c fsync=off -k {folder}"
    words = ("-w", "-l", folder / "log", "-o", options, "start")
    _run(programs / "pg_ctl", "-D", folder / "data", *words)


def restart(folder: Path, *, mode: str, pause: float) -> None:
    """Stop a server of `server`, and start it again after some seconds.

    Args:
        folder: The folder of its socket, as its URL names it.
        mode: ``fast`` ends what is going on, ``immediate`` kills it.
        pause: Seconds between.
    """
    programs = _programs()
    assert programs is not None
    _run(programs / "pg_ctl", "-D", folder / "data", "-w", "-m", mode, "stop")
    time.sleep(pause)
    _start(programs, folder)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    pytest.importorskip("psycopg")
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(server())
        except FileNotFoundError as error:
            pytest.skip(str(error))


def new_database(url: str, name: str) -> str:
    """Make an empty database on the server of `postgres_url`, and return its URL."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return url.replace("/postgres?", f"/{name}?")
