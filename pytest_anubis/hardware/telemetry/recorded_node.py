"""Read and write recorded nodes: files with an inventory and telemetry, to replay without the node.

`anubis doctor` writes them; a run reads one with ``--anubis-inventory``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pytest_anubis.codec import CodecError, from_plain, read_json, shown, to_plain
from pytest_anubis.core.field_types import Range
from pytest_anubis.core.inventory import Inventory
from pytest_anubis.hardware.inventory.inventory_reading import (
    InventoryError,
    inventory_fields,
    inventory_to_plain,
)
from pytest_anubis.hardware.telemetry.host_sensors import Asked, Reading

SCHEMA = 1
KIND = "anubis recorded node"

# Maximum bytes of a file: 64 MiB are some hundred thousand readings of eight cards, or hours.
_LARGEST = 64 << 20


class RecordingError(ValueError):
    """A file is not a recorded node; the one-line message names the file, the place and the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded node."""

    origin: str = ""  # description of where the recording comes from
    inventory: Inventory
    interval: Annotated[float, Range(above=0)] = 0.2  # seconds between two readings
    readings: tuple[Reading, ...] = ()  # the telemetry in time order; may be empty

    def source(self) -> RecordedSource:
        """Return a telemetry source that plays the readings again."""
        return RecordedSource(self.readings)


class RecordedSource:
    """A telemetry source (`Source`) that replays recorded readings in order, again and again.

    Args:
        readings: Readings to replay; without any, every reading is empty.
    """

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings
        self._next = 0

    def open(self) -> None:
        """Start at the first reading."""
        self._next = 0

    def read(self, counters: Asked) -> Reading:
        """Return the next reading, without its counters unless some are requested."""
        if not self._readings:
            return Reading()
        found = self._readings[self._next % len(self._readings)]
        self._next += 1
        return found if counters else Reading(values=found.values, lost=found.lost)

    def close(self) -> None:
        """Do nothing: no resources are held."""


def recording_text(recorded: Recorded) -> str:
    """Return the text of a recorded node's file.

    Raises:
        CodecError: The recording holds NaN or an infinity.
    """
    data = {"kind": KIND, "schema": SCHEMA, **to_plain(recorded)}
    data["inventory"] = inventory_to_plain(recorded.inventory)
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def replay(path: Path) -> Recorded:
    """Read a recorded node.

    Raises:
        RecordingError: The file is not a recorded node; one line with the reason.
        OSError: The file cannot be read.
    """
    try:
        return _checked(path, read_json(path, largest=_LARGEST))
    except InventoryError as error:
        raise RecordingError(f"{path}: {error}") from error
    except CodecError as error:
        raise RecordingError(f"{path}: {error}; fix that or record the node again") from error


def _checked(path: Path, data: Any) -> Recorded:
    if not isinstance(data, Mapping) or data.get("kind") != KIND:
        raise RecordingError(f'{path}: not a recorded node: "kind" is not "{KIND}"')
    schema = data.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        raise RecordingError(
            f"{path}: schema {shown(schema)}, this version reads {SCHEMA}; record again"
        )
    rest = {k: v for k, v in data.items() if k not in ("kind", "schema")}
    return from_plain(Recorded, rest | {"inventory": inventory_fields(data.get("inventory"))})
