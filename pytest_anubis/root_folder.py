"""pytest's root folder, which the value of one of our own options may move.

pytest looks for it before any plugin's options are known, and takes every word of the command line that names
something that exists for a place of tests: also the value of ``--anubis-store /data/runs``. Without an ini
file near the tests the root then is a folder above both, at worst ``/``, and with it the names of the tests,
the baselines and the store.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_anubis.options import OPTIONS

_OF_PATHS = frozenset(
    option.flag
    for option in OPTIONS
    if {"PATH", "DIR", "FILE"} & set((option.metavar or "").split("|"))
)


def moved_root(config: pytest.Config) -> str:
    """Return what is wrong with the root folder, and how to mend it; empty if nothing is."""
    if config.getoption("rootdir", None) or config.getoption("inifilename", None):
        return ""  # then it was named
    here = config.invocation_params.dir
    tests = [_folder(here / word.split("::")[0]) for word in config.args]
    for flag, value in _separate_values(config.invocation_params.args):
        place = here / value
        if place.exists() and _is_moved(config, _folder(place), here, tests):
            return (
                f"pytest takes {value}, the value of {flag}, for a folder of tests, and its root folder "
                f"would be {config.rootpath}: write {flag}={shlex.quote(value)}"
            )
    return ""


def _separate_values(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the options that name a place and stand apart from their value."""
    try:
        words = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *words]
    except ValueError:  # pytest says so itself
        words = [*words]
    return [
        (flag, value)
        for flag, value in itertools.pairwise(words)
        if flag in _OF_PATHS and not value.startswith("-")
    ]


def _folder(path: Path) -> Path:
    path = Path(os.path.abspath(path))  # noqa: PTH100 (pytest follows no links)
    return path if path.is_dir() else path.parent


def _is_moved(config: pytest.Config, place: Path, here: Path, tests: Sequence[Path]) -> bool:
    """Return whether the root lies where it does because of this place."""
    root = config.rootpath
    if not place.is_relative_to(root):
        return False
    if config.inipath is not None or (root / "setup.py").is_file():
        return not any(path.is_relative_to(root) for path in (here, *tests))
    of_tests = Path(os.path.commonpath(tests or [here]))
    both = Path(os.path.commonpath([here, of_tests]))
    return root not in (both, of_tests)
