"""Recognising what ``anubis learn`` was given: tests to be run here, or collected runs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from pytest_anubis.cli.shared.printing import say
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME

DEFAULT_STORE = ".anubis"
"""Name of the store on other machines, whose runs were copied here with it."""


def holds_runs(path: Path, store: Path) -> bool:
    """Return whether a path holds runs to learn from, not tests; print which if it holds both.

    Runs in this machine's store, below the tests, are earlier measurements and no reason not to measure
    again. Runs elsewhere were brought here to be learned from.

    Args:
        path: File or folder that was named.
        store: Folder of this machine's own runs.
    """
    if not path.is_dir():
        return path.suffix != ".py"
    from pytest_anubis.store.run_files import PARQUET
    from pytest_anubis.store.samples.columnar_files import SUFFIX, is_columns

    files = list(_files(path, store))
    runs = [one for one in files if one.name == JOURNAL_NAME or one.suffix == SUFFIX]
    inside = path.resolve().is_relative_to(store.resolve())
    if inside or not any(one.match("test_*.py") for one in files):
        exported = not any(one.suffix == ".py" for one in files) and any(
            one.suffix in PARQUET and one.parent == path for one in files
        )
        return bool(runs) or exported or any(path.rglob(JOURNAL_NAME))
    # Tests come with data of their own, so only the arrays of an import count as runs.
    runs = [one for one in runs if one.name == JOURNAL_NAME or is_columns(one)]
    if not runs:
        return False
    own = (store.resolve(), (path / store.name).resolve())
    brought = [one for one in runs if not any(one.resolve().is_relative_to(place) for place in own)]
    if brought:
        say(
            f"{path}: holds {count_text(len(brought), 'run')} and tests: it is learned from the runs; to "
            "measure here, name the tests"
        )
        return True
    places = {one.parent.parent if one.name == JOURNAL_NAME else one.parent for one in runs}
    say(
        f"{path}: holds tests, and {count_text(len(runs), 'run')} of before: it is measured anew; to learn "
        f"from the runs: anubis learn {shlex.join(map(str, sorted(places)))}"
    )
    return False


def _files(folder: Path, store: Path) -> Iterator[Path]:
    """Yield the files below a folder, without virtual environments and hidden folders other than stores.

    pytest collects nothing there either, and libraries bring their own tests and data.
    """
    kept = {store.name, DEFAULT_STORE}
    for name, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [one for one in folders if not one.startswith(".") or one in kept]
        yield from (Path(name, file) for file in files)
