"""Keep the quickest readings of the clear-moment probe on each machine in the store, from run to run.

The probe is a short calculation that takes longer while something the kernel does not show, such as another
guest of the host, slows this one. Without the best of earlier runs, a run that is slowed throughout would
take that for normal. ``anubis learn`` deletes the file.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_anubis.codec import read_json
from pytest_anubis.store.atomic import write_atomically

_NAME = "best-probe.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestReadings:
    """The best readings of the probe on one machine."""

    seconds: float = 0.0  # the best reading; 0 if none is known
    # Benchmark and metric -> the quickest readings during the last measurements, seconds
    during: Mapping[str, Sequence[float]] = field(default_factory=dict)


def known_best(store: Path, hardware_class: str, node: str) -> BestReadings:
    """Return the best readings of this machine; none if they are lost, damaged or of another class."""
    found = _document(store).get(node)
    if not isinstance(found, dict) or found.get("class") != hardware_class:
        return BestReadings()
    during = found.get("beside")
    every = during.items() if isinstance(during, dict) else ()
    return BestReadings(
        seconds=found["seconds"] if _is_reading(found.get("seconds")) else 0.0,
        during={
            name: list(readings)
            for name, readings in every
            if isinstance(readings, list) and readings and all(map(_is_reading, readings))
        },
    )


def keep_best(store: Path, hardware_class: str, node: str, best: BestReadings) -> None:
    """Write the best readings of this machine, if the store can be written."""
    document = _document(store)
    document[node] = {
        "class": hardware_class,
        "seconds": best.seconds,
        "beside": {name: list(readings) for name, readings in best.during.items()},
    }
    with contextlib.suppress(OSError):
        write_atomically(store / _NAME, json.dumps(document) + "\n")


def forget_best(store: Path) -> None:
    """Delete the readings of all machines."""
    with contextlib.suppress(OSError):
        (store / _NAME).unlink()


def _document(store: Path) -> dict[str, Any]:
    try:
        document = read_json(store / _NAME)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _is_reading(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < 1
