"""Recorded nodes: an inventory with telemetry in a file, to be replayed where the node is not at hand."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_anubis.core.inventory import Inventory
from pytest_anubis.hardware.inventory.inventory_codec import build, plain, shown
from pytest_anubis.hardware.inventory.inventory_reading import (
    InventoryError,
    inventory_from_plain,
    inventory_to_plain,
)
from pytest_anubis.hardware.telemetry.host_sensors import Reading

SCHEMA = 1
KIND = "anubis recorded node"
_KEYS = ("kind", "schema", "origin", "inventory", "interval", "readings")

# A recording of hours would be a mistake; 64 MiB are some hundred thousand readings of eight cards.
_LARGEST = 64 << 20


class RecordingError(ValueError):
    """A file is not a recorded node; the one-line message names the file, the place and the mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded node.

    Attributes:
        inventory: Its inventory.
        origin: Where the recording comes from, in words.
        interval: Seconds between two readings.
        readings: The telemetry in time order; may be empty.
    """

    inventory: Inventory
    origin: str = ""
    interval: float = 0.2
    readings: tuple[Reading, ...] = ()

    def source(self) -> RecordedSource:
        """Return a telemetry source that plays the readings again."""
        return RecordedSource(self.readings)


class RecordedSource:
    """Plays recorded readings in order, again and again; an instance of `sensors.Source`.

    Args:
        readings: What to play; none: nothing is ever read.
    """

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings
        self._next = 0

    def open(self) -> None:
        """Start at the first reading."""
        self._next = 0

    def read(self, counters: bool) -> Reading:
        """Return the next reading, without its counters when they are not asked for."""
        if not self._readings:
            return Reading()
        found = self._readings[self._next % len(self._readings)]
        self._next += 1
        return found if counters else Reading(values=found.values, lost=found.lost)

    def close(self) -> None:
        """Nothing is held."""


def record(path: Path, recorded: Recorded) -> None:
    """Write a recorded node, atomically.

    Raises:
        OSError: The file cannot be written; an older one stays whole.
    """
    data = {
        "kind": KIND,
        "schema": SCHEMA,
        "origin": recorded.origin,
        "inventory": inventory_to_plain(recorded.inventory),
        "interval": recorded.interval,
        "readings": [plain(reading) for reading in recorded.readings],
    }
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def replay(path: Path) -> Recorded:
    """Read a recorded node.

    Raises:
        RecordingError: The file is no recorded node; one line that says what is wrong with it.
        OSError: The file cannot be read.
    """
    size = path.stat().st_size
    if size > _LARGEST:
        raise RecordingError(f"{path}: {size >> 20} MiB is too large for a recorded node")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path}: not a text file (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise RecordingError(
            f"{path}: not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except RecursionError as error:
        raise RecordingError(f"{path}: nested too deeply for a recorded node") from error
    return _checked(path, data)


def _checked(path: Path, data: Any) -> Recorded:
    if not isinstance(data, Mapping) or data.get("kind") != KIND:
        raise RecordingError(f'{path}: not a recorded node: "kind" is not "{KIND}"')
    if data.get("schema") != SCHEMA or isinstance(data.get("schema"), bool):
        raise RecordingError(
            f"{path}: schema {shown(data.get('schema'))}, this version reads {SCHEMA}; record again"
        )
    for key in data:
        if key not in _KEYS:
            raise RecordingError(f"{path}: {shown(key)}: unknown field; remove it")
    try:
        inventory = inventory_from_plain(data.get("inventory"))
        rest = {k: v for k, v in data.items() if k in ("origin", "interval", "readings")}
        shell = build(_Rest, rest, "recording")
    except (InventoryError, ValueError) as error:
        raise RecordingError(f"{path}: {error}") from error
    if shell.interval <= 0:
        raise RecordingError(f"{path}: recording.interval: must be more than 0 seconds")
    return Recorded(
        inventory=inventory, origin=shell.origin, interval=shell.interval, readings=shell.readings
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """The parts of the file beside its inventory."""

    origin: str = ""
    interval: float = 0.2
    readings: tuple[Reading, ...] = ()
