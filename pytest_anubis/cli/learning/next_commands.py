"""What is typed after ``anubis learn`` has measured a machine, with the options that it was given."""

from __future__ import annotations

import argparse
import math

from pytest_anubis.cli.shared.arguments import DEFAULT_BASELINE
from pytest_anubis.cli.shared.stored.stored_sources import source_words

LONGER = 3
"""How many times as long is recommended where power is lacking: limits of a few runs shrink with the root of
the time at best, and people do not come back for less."""


def judge_command(options: argparse.Namespace) -> list[str]:
    """Return the command line that judges this machine by what was learned."""
    more = []
    if options.profile != "smoke":
        more.append(f"--anubis-profile={options.profile}")
    if options.output != DEFAULT_BASELINE:
        more.append(f"--anubis-baseline={options.output}")
    page = ["--html=report.html", "--self-contained-html"]
    return ["pytest", "--anubis", *options.sources, *more, *page]


def see_commands(options: argparse.Namespace) -> list[list[str]]:
    """Return the command lines that show the sick nodes of collected runs: all, and the worst one."""
    known = ["--baseline", str(options.output)] if options.output != DEFAULT_BASELINE else []
    split = [word for name in options.split for word in ("--split", name)]
    chosen = source_words(options)
    every = ["anubis", "judge", *options.sources, *chosen, *known, *split]
    page = ["--node", "NODE", "--html", "node.html"]
    one = ["anubis", "report", *options.sources, *chosen, *known, *page]
    return [every] if split else [every, one]  # a report knows no split classes


def longer_command(options: argparse.Namespace) -> list[str]:
    """Return the command line that measures longer; rounds of a number are more of them."""
    more = []
    if options.profile != "smoke":
        more += ["--profile", options.profile]
    if options.output != DEFAULT_BASELINE:
        more += ["-o", str(options.output)]
    if options.time is None:
        length = ["--rounds", str(LONGER * options.rounds)]
    else:
        length = ["--for", f"{math.ceil(LONGER * options.time / 60)}m"]
    return ["anubis", "learn", *options.sources, *more, *length]
