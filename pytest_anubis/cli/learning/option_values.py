"""Values of options as people write them: a rate, a loss, a promise; else argparse's error."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_anubis.core.measurement import Measurement
    from pytest_anubis.core.sample import Population


def rate_of(text: str) -> float | None:
    """Return a chance, or None for ``none``."""
    if text.lower() == "none":
        return None
    rate = float(text)
    if not 0 < rate < 1:
        raise argparse.ArgumentTypeError("must lie between 0 and 1, or be none")
    return rate


def loss_of(text: str) -> float:
    """Return a relative loss, written ``10%`` or ``.1``."""
    try:
        loss = float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        loss = 0.0
    if not 0 < loss < 1:
        raise argparse.ArgumentTypeError("must be a loss between 0 and 100 %, such as 10%")
    return loss


def promise_of(text: str) -> tuple[str, float]:
    """Return the name (empty for all) and the loss of ``[NAME=]LOSS``."""
    name, _, size = text.rpartition("=")
    return name, loss_of(size)


def left_out(population: Population | Measurement, names: Collection[str]) -> bool:
    """Return whether a metric is named by ``--without``: itself, its benchmark, or both with a blank between.

    A benchmark may be named with or without the file that it stands in.
    """
    metric, whole = population.metric.name, population.benchmark
    benchmarks = {whole, whole.rpartition("/")[2], whole.rpartition("::")[2]}
    told = {metric, *benchmarks, *(f"{one} {metric}" for one in benchmarks)}
    return not told.isdisjoint(names)
