"""Baselines that go out of use: they are kept beside those in force, in a folder that no run reads."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_anubis.store.baselines.baseline_files import BaselineError

EXPIRED = "expired"
"""Name of the folder, beside the baselines in force."""


def free_place(path: Path) -> Path:
    """Return where a baseline that goes out of use is kept, under a name that no file there has yet.

    Args:
        path: Its file. The folder is made.

    Raises:
        OSError: The folder cannot be made.
    """
    folder = path.parent / EXPIRED
    folder.mkdir(exist_ok=True)
    target, number = folder / path.name, 1
    while target.exists():
        number += 1
        target = folder / f"{path.stem}.{number}.json"
    return target


def keep_copy(path: Path) -> Path:
    """Copy a baseline that is about to be replaced to where such are kept, and return the copy.

    Args:
        path: Its file, whatever it holds.

    Raises:
        BaselineError: It cannot be read, or the disk refuses.
    """
    try:
        target = free_place(path)
        shutil.copy2(path, target)
    except OSError as error:
        raise BaselineError(f"{path}: cannot be kept ({error.strerror})") from error
    return target
