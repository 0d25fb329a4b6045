"""Options that several commands share, each declared once."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_store(parser: argparse.ArgumentParser) -> None:
    """Declare ``--store``."""
    parser.add_argument(
        "--store",
        type=Path,
        default=Path(".anubis"),
        metavar="DIR",
        help="folder that keeps runs and history (default: .anubis)",
    )


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Declare ``--profile``."""
    parser.add_argument(
        "--profile",
        choices=("smoke", "standard", "soak"),
        default="smoke",
        help="sizes and durations of the benchmarks: seconds, minutes or hours (default: smoke)",
    )


def add_output(parser: argparse.ArgumentParser, *, more: str = "") -> None:
    """Declare ``-o``, the folder of baselines that is written to; `more` ends its help."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("baselines"),
        metavar="DIR",
        help=f"folder of the baselines (default: baselines){more}",
    )


def add_baselines(parser: argparse.ArgumentParser) -> None:
    """Declare ``--baselines``, the folder of baselines that is read."""
    parser.add_argument(
        "--baselines",
        type=Path,
        default=Path("baselines"),
        metavar="DIR",
        help="folder of the baselines (default: baselines)",
    )


def add_pytest_args(parser: argparse.ArgumentParser) -> None:
    """Declare ``--pytest-args``."""
    parser.add_argument(
        "--pytest-args",
        default="",
        metavar="ARGS",
        help="further arguments of pytest, e.g. --pytest-args='-k gemm'",
    )
