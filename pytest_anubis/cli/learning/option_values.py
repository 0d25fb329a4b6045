"""Options of ``anubis learn`` on how strict criteria are and what is learned; readers of their values."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.core.metric import wholes_of
from pytest_anubis.report.text.numbers import count_text

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Criterion
    from pytest_anubis.core.measurement import Measurement
    from pytest_anubis.core.sample import Population


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Declare the options on how strict criteria are, and which are learned."""
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.95,
        help="practical threshold: a similarity below it is a loss that matters (default: .95)",
    )
    parser.add_argument(
        "--method",
        choices=("median", "medoid"),
        default="median",
        help="centre of a population: quantile by quantile, or the most typical member (default: median)",
    )
    parser.add_argument(
        "--error-rate",
        type=rate_of,
        default=0.01,
        metavar="R|none",
        help="stated chance that a healthy node is rejected (default: .01); none: alpha alone",
    )
    parser.add_argument(
        "--promise",
        action="append",
        default=[],
        type=promise_of,
        metavar="[NAME=]LOSS",
        help="a loss that must fail whatever the spread, e.g. 10%% or network=20%% (a component or a "
        "metric); what that costs healthy nodes is printed; can be given again",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="learn no criterion for this metric, benchmark, or 'BENCHMARK METRIC'; can be given again",
    )
    parser.add_argument(
        "--accept-rate",
        action="store_true",
        help="exit with 0 although the baseline does not hold its stated error rate",
    )


def rate_of(text: str) -> float | None:
    """Return a chance, written ``5%`` or ``.05``, or None for ``none``."""
    if text.lower() == "none":
        return None
    if not 0 < (rate := _share(text)) < 1:
        raise argparse.ArgumentTypeError("must be a chance such as 5% or .05, or none")
    return rate


def loss_of(text: str) -> float:
    """Return a relative loss, written ``10%`` or ``.1``."""
    if not 0 < (loss := _share(text)) < 1:
        raise argparse.ArgumentTypeError("must be a loss between 0 and 100 %, such as 10%")
    return loss


def _share(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return 0.0


def promise_of(text: str) -> tuple[str, float]:
    """Return the name (empty for all) and the loss of ``[NAME=]LOSS``."""
    name, _, size = text.rpartition("=")
    return name, loss_of(size)


def is_named(one: Population | Measurement | Criterion, names: Collection[str]) -> bool:
    """Return whether an option names a metric: by itself, by its benchmark, or both with a blank between.

    A benchmark may be named with or without its file.
    """
    metric = one.metric.name
    whole = one.benchmark
    benchmarks = {whole, whole.rpartition("/")[2], whole.rpartition("::")[2]}
    aliases = {metric, *benchmarks, *(f"{name} {metric}" for name in benchmarks)}
    return not aliases.isdisjoint(names)


def check_names(options: argparse.Namespace, populations: Sequence[Population]) -> None:
    """Refuse names of ``--without`` and ``--promise`` that no run has, and a ``--without`` that names all."""
    for name in options.without:
        if not any(is_named(population, [name]) for population in populations):
            raise CommandError(
                f"--without {name}: no such metric or benchmark among the runs; check its name"
            )
    if populations and all(is_named(population, options.without) for population in populations):
        raise CommandError(
            f"--without: it names all {count_text(len(populations), 'metric')} of these runs; name "
            "fewer (a benchmark, or 'BENCHMARK METRIC'), so that something is left to learn"
        )
    known = {p.metric.name for p in populations} | {""}
    known |= {part for p in populations for part in wholes_of(p.component)}
    for name, _ in options.promise:
        if name not in known:
            raise CommandError(
                f"--promise {name}: no such metric or component among the runs; check its name"
            )
