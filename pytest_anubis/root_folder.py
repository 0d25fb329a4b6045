"""Detects that the value of one of our options has moved pytest's root folder; used by the settings.

pytest determines the root before it knows any plugin's options. It takes every existing path on the command
line for a folder of tests, also the value of ``--anubis-store /data/runs``. Without an ini file near the
tests, the root is then a folder above both, at worst ``/``, which moves test ids, baselines and the store.

pytest's search is private, so this module repeats the part that matters. It does not see words in a file
that is named with ``@``, nor ``-c`` with something that is no file.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_anubis.options import OPTIONS

_PATH_FLAGS = frozenset(
    option.flag
    for option in OPTIONS
    if {"PATH", "DIR", "FILE"} & set((option.metavar or "").split("|"))
)

_PYTEST_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
"""Files that configure pytest whatever they contain."""

_SHARED_FILES = ("pyproject.toml", "tox.ini", "setup.cfg")
"""Files that configure pytest if they have a section for it."""

_SECTION = re.compile(r"^\[(tool[.:])?pytest", re.MULTILINE)


def moved_root(config: pytest.Config) -> str:
    """Return what is wrong with the root folder and how to mend it; empty if nothing is."""
    if config.getoption("rootdir", None) or config.getoption("inifilename", None):
        return ""  # the user named it
    here = config.invocation_params.dir
    named = [here / word.split("::")[0] for word in config.args]
    tests = [_folder(place) for place in named if _exists(place)]  # others name packages
    for flag, value in _separate_values(config.invocation_params.args):
        place = here / value
        if _exists(place) and _moves(_folder(place), config, here, tests):
            return (
                f"pytest takes {value}, the value of {flag}, for a folder of tests, and its root folder "
                f"would be {config.rootpath}: write {flag}={shlex.quote(value)}"
            )
    return ""


def _separate_values(words: Sequence[str | os.PathLike[str]]) -> list[tuple[str, str]]:
    """Return flag and value of options that name a path and are written without ``=``."""
    typed = [*map(str, words)]
    with contextlib.suppress(ValueError):  # pytest reports it
        typed = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *typed]
    return [
        (flag, value)
        for flag, value in itertools.pairwise(typed)
        if flag in _PATH_FLAGS and not value.startswith("-")
    ]


def _exists(place: Path) -> bool:
    return os.path.exists(place)  # noqa: PTH110 (Path.exists raises where it may not look)


def _folder(place: Path) -> Path:
    place = Path(os.path.abspath(place))  # noqa: PTH100 (pytest follows no links)
    return place if place.is_dir() else place.parent


def _moves(place: Path, config: pytest.Config, here: Path, tests: Sequence[Path]) -> bool:
    """Return whether the root would be elsewhere if `place` were not taken for a folder of tests."""
    root = config.rootpath
    if not place.is_relative_to(root):
        return False
    of_tests = Path(os.path.commonpath(tests or [here]))
    if of_tests.is_relative_to(root):  # a nearer folder would have been the root
        nearer = itertools.takewhile(lambda folder: folder != root, (of_tests, *of_tests.parents))
        first = next((one for one in nearer if _is_root(one, config.inipath is None)), None)
        if first is not None:
            return not place.is_relative_to(first)
    if config.inipath is not None or (root / "setup.py").is_file():
        return not any(path.is_relative_to(root) for path in (here, *tests))
    both = Path(os.path.commonpath([here, of_tests]))
    right = of_tests if both == Path(both.anchor) else both  # never the whole file system
    whole = right == Path(right.anchor)
    return root != right and (whole or not place.is_relative_to(right))


def _is_root(folder: Path, setup: bool) -> bool:
    """Return whether pytest takes a folder for its root; ``setup.py`` counts where no ini file was found."""
    if setup and (folder / "setup.py").is_file():
        return True
    if any((folder / name).is_file() for name in _PYTEST_FILES):
        return True
    return any(_has_section(folder / name) for name in _SHARED_FILES)


def _has_section(file: Path) -> bool:
    try:
        return _SECTION.search(file.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False
