"""What is typed after ``anubis learn`` has measured a machine, with the options that it was given."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_anubis.cli.shared.arguments import DEFAULT_BASELINE
from pytest_anubis.cli.shared.run_sources import source_words

LONGER = 3
"""How many times as long is recommended where power is lacking: limits of a few runs shrink with the root of
the time at best, and people do not come back for less."""

_USUAL: tuple[tuple[str, str, Any], ...] = (
    ("--profile", "profile", "smoke"),
    ("-o", "output", DEFAULT_BASELINE),
    ("--store", "store", Path(".anubis")),
    ("--detect", "detect", 0.1),
    ("--alpha", "alpha", 0.95),
    ("--method", "method", "median"),
    ("--error-rate", "error_rate", 0.01),
    ("--pytest-args", "pytest_args", ""),
)
"""Options that change what is learned, and their defaults, which need not be typed again."""
_MEASURING = ("--profile", "--store", "--pytest-args")
"""Those of them that runs which are there already have behind them."""
_LISTS = (("--promise", "promise"), ("--without", "without"), ("--split", "split"))
"""Those that can be given again."""


def first_command(verb: str) -> str:
    """Return the command line that learns or certifies with the set that comes with this project.

    Args:
        verb: ``learn`` or ``certify``.

    Returns:
        The line; where the folder of the set is not here, with the command that puts it here before it.
    """
    before = "" if Path("suites").is_dir() else "anubis suites && "
    return f"{before}anubis {verb} suites/"


def judge_command(options: argparse.Namespace) -> list[str]:
    """Return the command line that judges this machine by what was learned."""
    more = []
    if options.profile != "smoke":
        more.append(f"--anubis-profile={options.profile}")
    if options.output != DEFAULT_BASELINE:
        more.append(f"--anubis-baseline={options.output}")
    more += [f"--anubis-split={','.join(options.split)}"] if options.split else []
    more += shlex.split(options.pytest_args)
    page = ["--html=report.html", "--self-contained-html"]
    return ["pytest", "--anubis", *options.sources, *more, *page]


def see_commands(options: argparse.Namespace) -> list[list[str]]:
    """Return the command lines that show the sick nodes of collected runs: all, and the worst one."""
    known = ["--baseline", str(options.output)] if options.output != DEFAULT_BASELINE else []
    split = [word for name in options.split for word in ("--split", name)]
    chosen = source_words(options)
    every = ["anubis", "judge", *options.sources, *chosen, *known, *split]
    page = ["--node", "NODE", "--html", "node.html"]
    return [every, ["anubis", "report", *options.sources, *chosen, *known, *split, *page]]


def kept_lines(
    options: argparse.Namespace, finished: Sequence[Path], least: int
) -> tuple[str, ...]:
    """Say what an interrupted learning has left, and how to use it.

    Args:
        options: Those of the command.
        finished: The folders of the rounds that came to their end.
        least: Fewest rounds of which anything can be learned.
    """
    if not finished:
        return ("no round was finished, so there is nothing to learn from yet",)
    command = ["anubis", "learn", *map(str, finished), *_given(options, measuring=False)]
    what = "1 finished round is" if len(finished) == 1 else f"{len(finished)} finished rounds are"
    kept = f"{what} kept in {finished[0].parent}"
    if len(finished) < least:
        return (f"{kept}; it takes {least} at least to learn from, so measure again",)
    return (f"{kept}; to learn from them: {shlex.join(command)}",)


def without_command(options: argparse.Namespace, unwanted: Sequence[str]) -> list[str]:
    """Return the command line that learns the same from collected runs, without some metrics more."""
    left_out = [word for name in unwanted for word in _typed("--without", name)]
    return [
        "anubis",
        "learn",
        *options.sources,
        *source_words(options),
        *_given(options),
        *left_out,
    ]


def longer_command(options: argparse.Namespace) -> list[str]:
    """Return the command line that measures longer, all else as before; of rounds of a number it has more."""
    if options.time is None:
        length = ["--rounds", str(LONGER * options.rounds)]
    else:
        length = ["--for", f"{math.ceil(LONGER * options.time / 60)}m"]
    return ["anubis", "learn", *options.sources, *_given(options), *length]


def _given(options: argparse.Namespace, *, measuring: bool = True) -> list[str]:
    """Return the options that change what is learned, as far as they differ from their defaults.

    Args:
        options: Those of the command.
        measuring: With those that only concern the measuring itself.
    """
    wanted = [one for one in _USUAL if measuring or one[0] not in _MEASURING]
    given = [(flag, getattr(options, name), usual) for flag, name, usual in wanted]
    words = [word for flag, value, usual in given if value != usual for word in _typed(flag, value)]
    for flag, name in _LISTS:
        words += [word for value in getattr(options, name) for word in _typed(flag, value)]
    return words


def _typed(flag: str, value: Any) -> list[str]:
    """Return an option as it would be typed; a value that begins with a dash has to hang on its flag."""
    if flag == "--promise":
        name, loss = value
        text = f"{name}={100 * loss:g}%" if name else f"{100 * loss:g}%"
    elif flag == "--detect":
        text = f"{100 * value:g}%"
    else:
        text = "none" if value is None else str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]
