"""Finding and reading runs that a command line names."""

from __future__ import annotations

from pathlib import Path

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.run import RunRecord
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import journal_path
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME, read_journal


def read_run(name: str, store: Path) -> RunRecord:
    """Read a run by its folder, its journal, its id in the store, or ``latest``.

    Raises:
        CommandError: There is no such run, or its journal cannot be used.
    """
    path = Path(name)
    if name == "latest":
        runs = sorted((store / "runs").glob("*/journal.jsonl"), key=lambda p: p.stat().st_mtime)
        if not runs:
            raise CommandError(f"{store}: no runs yet; run 'pytest --anubis suites/' first")
        path = runs[-1]
    elif not path.exists():
        path = journal_path(store, name)
        if not path.exists():
            raise CommandError(
                f"{name}: no such run; give its folder, its journal, its id in {store}, or 'latest'"
            )
    try:
        return read_journal(path)
    except JournalError as error:
        raise CommandError(str(error)) from error


def is_collection(name: str) -> bool:
    """Say whether a name is that of an import, a table or a folder of runs, and not of one run.

    A journal may have any name: what it said is rebuilt, not judged anew.
    """
    path = Path(name)
    if path.is_dir():
        return not (path / JOURNAL_NAME).exists()
    if path.name == JOURNAL_NAME or not path.is_file():
        return False
    from pytest_anubis.store.collected_runs import TABLES, is_superbench
    from pytest_anubis.store.samples.columnar_files import SUFFIX

    return path.suffix == SUFFIX or path.suffix.lower() in TABLES or is_superbench(path)


def collected_path(name: str, store: Path) -> Path:
    """Return the file or folder that a name stands for: a path, or a run's id in the store."""
    path = Path(name)
    return path if path.exists() else journal_path(store, name)
