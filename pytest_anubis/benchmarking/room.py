"""The air that a node takes in: a card in a warmer room is hotter, and as well as before."""

from __future__ import annotations

from pytest_anubis.hardware.telemetry.host_sensors import HOST, INLET, HostSource


def inlet_temperature() -> float | None:
    """Return the temperature of the air that the node takes in, in °C; None where no sensor tells it."""
    source = HostSource()
    source.open()
    return source.read(counters=False).values.get(HOST, {}).get(INLET)
