"""What is installed, read once in a process: each run inside a test asks for the files of all distributions.

Reading and parsing them anew is a third of what such a run costs.
PYTEST_DONT_REWRITE: it holds no assertion.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.metadata import Distribution
from typing import Any

KEPT = ("metadata", "entry_points", "files")
"""What pytest, its plugins and a node's inventory ask a distribution for."""


def keep() -> None:
    """From now on have this process and its forks read each distribution's files once.

    Only of those that are installed beside this Python: what a test puts into a folder of its own may change.
    """
    for name in KEPT:
        read = vars(Distribution)[name].fget
        if not hasattr(read, "__wrapped__"):
            setattr(Distribution, name, property(_once(read)))


def _once(read: Callable[[Distribution], Any]) -> Callable[[Distribution], Any]:
    known: dict[str, Any] = {}

    @functools.wraps(read)
    def reading(distribution: Distribution) -> Any:
        place = str(getattr(distribution, "_path", ""))
        if not place.startswith(sys.prefix):
            return read(distribution)
        if place not in known:
            known[place] = read(distribution)
        return known[place]

    return reading
