"""Find the files below a folder as pytest does, and those of stores, for `anubis learn FOLDER`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

DEFAULT_STORE = ".anubis"
"""Default name of a store: copied from another machine it has this name, so its hidden folder is searched."""


def project_files(folder: Path, store: Path) -> Iterator[Path]:
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
