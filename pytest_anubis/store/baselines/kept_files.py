"""Keep baselines that go out of use, in ``expired`` next to those in force, where no run reads them.

`anubis baseline promote` and `baseline expire` use it, and `anubis learn` (`class_learning`) puts its
baseline in force here.
"""

from __future__ import annotations

import filecmp
import shutil
from pathlib import Path

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.store.baselines.baseline_files import (
    BaselineError,
    baseline_place,
    save_baseline,
)

EXPIRED = "expired"
"""Name of the folder, next to the baselines in force."""


def free_place(path: Path) -> Path:
    """Return an unused path below `EXPIRED` for a baseline that goes out of use, and make that folder.

    Raises:
        OSError: The folder cannot be made.
    """
    folder = path.parent / EXPIRED
    folder.mkdir(exist_ok=True)
    target = folder / path.name
    number = 1
    while target.exists():
        number += 1
        target = folder / f"{path.stem}.{number}.json"
    return target


def keep_copy(path: Path) -> Path:
    """Copy a baseline that is about to be replaced to the kept ones, and return the copy.

    An equal copy is used again, so that switching between two baselines does not fill the folder.

    Raises:
        BaselineError: It cannot be read, or the disk refuses.
    """
    try:
        target = free_place(path)
        for older in sorted(target.parent.glob(f"{path.stem}*.json")):
            if filecmp.cmp(older, path, shallow=False):
                return older
        shutil.copy2(path, target)
    except OSError as error:
        raise BaselineError(f"{path}: cannot be kept ({error.strerror})") from error
    return target


def put_in_force(baseline: Baseline, folder: Path) -> tuple[Path, Path | None]:
    """Write a baseline as the one in force, and keep a copy of the one before.

    Returns:
        Its file, and the copy of the one before; None if there was none.

    Raises:
        BaselineError: As `save_baseline` and `keep_copy` do.
    """
    place = baseline_place(baseline.hardware_class, folder)
    before = keep_copy(place) if place.is_file() else None
    return save_baseline(baseline, folder), before
