"""Another benchmark with one part of the limits switched off: what does that part buy?

``PART`` is one of: drift, shape-prior, shape-error, mean-error, bound, robust, lighter, components (`PARTS`).

Usage: python benchmarks/validator/tables/without_part.py PART benchmarks/validator/clear_fleet.py [arguments]
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

from pytest_anubis.validator.learning import baseline_learning, fleet_thresholds, healthy_tails
from pytest_anubis.validator.limits import tails

_fit, _moments = tails.fit_tail, tails._mean_and_shape


def _with_tail(**known: float) -> Callable[[], None]:
    """Return what replaces some fields of each fitted tail."""

    def off() -> None:
        setattr(healthy_tails, "fit_tail", lambda *args: _fit(*args)._replace(**known))  # noqa: B010

    return off


def _set(module: Any, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(module, name, value)


PARTS: dict[str, Callable[[], None]] = {
    "drift": _set(tails, "DRIFT", 0.0),
    "shape-prior": _set(
        tails, "_mean_and_shape", lambda excess, kept, _: _moments(excess, kept, tails.SHAPE)
    ),
    "shape-error": _with_tail(error=0.0),
    "mean-error": _with_tail(doubt=0.0),
    "lighter": _with_tail(normal=0.0),
    "bound": _set(healthy_tails, "BOUNDED", 0.0),
    "robust": _set(fleet_thresholds, "robust_limit", tails.weighted_limit),
    "components": _set(baseline_learning, "_together", lambda *_: ()),
}
"""What is switched off: far tails that are heavier than they look, the shape that the null expects, what is
not known of the shape and of the mean, tails lighter than exponential, the bound on few units, the scores of
several nodes in addition to one, and the means of components."""


def main() -> None:
    """Switch a part off and run the other benchmark in this process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    PARTS[options.part]()
    sys.argv = [str(options.script), *options.arguments]
    runpy.run_path(str(options.script), run_name="__main__")


if __name__ == "__main__":
    main()
