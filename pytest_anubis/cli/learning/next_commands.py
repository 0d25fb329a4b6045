"""Make the command lines that ``anubis learn`` suggests next, with the options that it was given."""

from __future__ import annotations

import argparse
import math
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_anubis.cli.shared.arguments import DEFAULT_BASELINE
from pytest_anubis.cli.shared.run_sources import source_words

LONGER = 3
"""How many times as long to measure where power is lacking: limits of a few runs shrink with the root of the
time at best."""

_DEFAULTS: tuple[tuple[str, str, Any], ...] = (
    ("--profile", "profile", "smoke"),
    ("-o", "output", DEFAULT_BASELINE),
    ("--store", "store", Path(".anubis")),
    ("--detect", "detect", 0.1),
    ("--alpha", "alpha", 0.95),
    ("--method", "method", "median"),
    ("--error-rate", "error_rate", 0.01),
    ("--pytest-args", "pytest_args", ""),
)
"""Options that change what is learned, and their defaults, which a command line leaves out."""
_MEASURING = ("--profile", "--store", "--pytest-args")
"""Options among them that only concern the measuring."""
_REPEATED = (("--promise", "promise"), ("--without", "without"), ("--split", "split"))
"""Options that can be given again."""


def first_command(verb: str) -> str:
    """Return the command line that learns or certifies (`verb`) with the project's own benchmark set.

    If the set is not in this folder, it begins with the command that copies it here.
    """
    before = "" if Path("suites").is_dir() else "anubis suites && "
    return f"{before}anubis {verb} suites/"


def pytest_command(options: argparse.Namespace, root: str = "") -> list[str]:
    """Return the command line that judges this machine by what was learned.

    `root` is pytest's root folder, from this folder; empty if it is this one. pytest reads baselines below
    its root, and this command writes them below the current folder.
    """
    more = []
    if options.profile != "smoke":
        more.append(f"--anubis-profile={options.profile}")
    if root or options.output != DEFAULT_BASELINE:
        output = Path(options.output)
        seen = output if output.is_absolute() else os.path.relpath(output, root or ".")
        more.append(f"--anubis-baseline={seen}")
    more += [f"--anubis-split={','.join(options.split)}"] if options.split else []
    more += shlex.split(options.pytest_args)
    page = ["--html=report.html", "--self-contained-html"]
    return ["pytest", "--anubis", *options.sources, *more, *page]


def see_commands(options: argparse.Namespace) -> list[list[str]]:
    """Return the command lines that show the sick nodes of collected runs: all, and the worst one."""
    known = ["--baseline", str(options.output)] if options.output != DEFAULT_BASELINE else []
    split = [word for name in options.split for word in ("--split", name)]
    runs = [*options.sources, *source_words(options), *known, *split]
    page = ["--node", "NODE", "--html", "node.html"]
    return [["anubis", "judge", *runs], ["anubis", "report", *runs, *page]]


def kept_line(options: argparse.Namespace, finished: Sequence[Path], min_rounds: int) -> str:
    """Return what an interrupted learning has kept, and the command that uses it.

    It has kept the folders of the rounds that ended; of fewer than `min_rounds` nothing can be learned.
    """
    if not finished:
        return "no round was finished, so there is nothing to learn from yet"
    what = "1 finished round is" if len(finished) == 1 else f"{len(finished)} finished rounds are"
    kept = f"{what} kept in {finished[0].parent}"
    if len(finished) < min_rounds:
        return f"{kept}; it takes {min_rounds} at least to learn from, so measure again"
    command = ["anubis", "learn", *map(str, finished), *_given(options, measuring=False)]
    return f"{kept}; to learn from them: {shlex.join(command)}"


def without_command(options: argparse.Namespace, unwanted: Sequence[str]) -> list[str]:
    """Return the command line that learns the same from collected runs without some more metrics."""
    left_out = [word for name in unwanted for word in _typed("--without", name)]
    sources = [*options.sources, *source_words(options)]
    return ["anubis", "learn", *sources, *_given(options), *left_out]


def longer_command(
    options: argparse.Namespace, *, seconds: float | None, rounds: int | None
) -> list[str]:
    """Return the command line that measures longer: more time, or more rounds where no time was given."""
    if seconds is None:
        length = ["--rounds", str(LONGER * (rounds or 1))]
    else:
        length = ["--for", f"{math.ceil(LONGER * seconds / 60)}m"]
    return ["anubis", "learn", *options.sources, *_given(options), *length]


def _given(options: argparse.Namespace, *, measuring: bool = True) -> list[str]:
    """Return the options that are not at their defaults and change what is learned.

    Those that only concern the measuring are left out if it is not `measuring`.
    """
    words = []
    for flag, name, default in _DEFAULTS:
        value = getattr(options, name)
        if value != default and (measuring or flag not in _MEASURING):
            words += _typed(flag, value)
    for flag, name in _REPEATED:
        words += [word for value in getattr(options, name) for word in _typed(flag, value)]
    return words


def _typed(flag: str, value: Any) -> list[str]:
    """Return an option as it is typed; a value that begins with a dash has to follow an equals sign."""
    if flag == "--promise":
        name, loss = value
        text = f"{name}={100 * loss:g}%" if name else f"{100 * loss:g}%"
    elif flag == "--detect":
        text = f"{100 * value:g}%"
    else:
        text = "none" if value is None else str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]
