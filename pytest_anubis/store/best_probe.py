"""The best readings of the clear-moment probe on this machine, kept from run to run.

Without them a run that meets another guest from its first second to its last would take the slow state for
the host's own. The file lies in the store; ``anubis learn`` begins a new one.
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
class Known:
    """What is known of one machine.

    Attributes:
        seconds: The best reading; 0 where none is known.
        beside: By benchmark and metric, the quickest readings of the last measurements, seconds.
    """

    seconds: float = 0.0
    beside: Mapping[str, Sequence[float]] = field(default_factory=dict)


def known_best(store: Path, hardware_class: str, node: str) -> Known:
    """Return the best readings of this machine; nothing where the file is lost, damaged or of another class.

    Args:
        store: Folder of runs.
        hardware_class: Another class is another machine or another torch.
        node: Name of the node: a store may be shared.
    """
    found = _document(store).get(node)
    if not isinstance(found, dict) or found.get("class") != hardware_class:
        return Known()
    beside = found.get("beside")
    every = beside.items() if isinstance(beside, dict) else ()
    return Known(
        seconds=found["seconds"] if _is_reading(found.get("seconds")) else 0.0,
        beside={
            name: list(readings)
            for name, readings in every
            if isinstance(readings, list) and readings and all(map(_is_reading, readings))
        },
    )


def keep_best(store: Path, hardware_class: str, node: str, known: Known) -> None:
    """Write the best readings of this machine; a store that cannot be written has none."""
    document = _document(store)
    document[node] = {
        "class": hardware_class,
        "seconds": known.seconds,
        "beside": {name: list(readings) for name, readings in known.beside.items()},
    }
    with contextlib.suppress(OSError):
        write_atomically(store / _NAME, json.dumps(document) + "\n")


def forget_best(store: Path) -> None:
    """Begin anew."""
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
