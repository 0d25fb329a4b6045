"""Read a node's inlet temperature, which the burn test subtracts: cards are hotter in a warmer room."""

from __future__ import annotations

from pytest_anubis.hardware.telemetry.host_sensors import HOST, INLET, HostSource


def inlet_temperature() -> float | None:
    """Return the temperature of the node's inlet air in °C; None without a sensor."""
    source = HostSource()
    source.open()
    return source.read(counters=False).values.get(HOST, {}).get(INLET)
