"""Evidence against the hardware for a test that crashed or hung: the kernel's log and the PCI bus.

It never asks the driver, because the driver of a failed card may not answer. `controller`, `hang_reports` and
`start` use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_anubis.hardware.telemetry.kernel_log import KernelEvent, KernelLog, kernel_events
from pytest_anubis.session.context import RunContext

_BUS = Path("/sys/bus/pci/devices")


class HardwareEvidence:
    """The evidence in the kernel's log and on the PCI bus since the start of the run.

    Args:
        devices: Device name -> PCI address of its card, None if unknown.
        log: The kernel's log; default this machine's.
        bus: Folder of the PCI devices.
    """

    def __init__(
        self,
        devices: Mapping[str, str | None],
        *,
        log: KernelLog | None = None,
        bus: Path = _BUS,
    ) -> None:
        self._devices = devices
        self._log = log or KernelLog()
        self._bus = bus
        # In a container the bus may lack the cards from the start.
        self._there = {one for one in devices.values() if one and (bus / one.lower()).exists()}
        self._open: list[KernelEvent] = []

    @property
    def blind(self) -> str:
        """Why evidence may be missed; empty when everything can be read."""
        return self._log.unreadable

    def against(self, device: str) -> tuple[str, ...]:
        """Return the log's new events about a device, and whether its card is missing, one phrase each.

        Events about other cards are kept for their tests, since several cards may fail together.
        """
        address = self._devices.get(device)
        events = [*self._open, *(e for e in kernel_events(self._log.new_lines()) if e.hardware)]
        mine = [event for event in events if not event.place or _same(event.place, address)]
        places = [one for one in self._devices.values() if one and one != address]
        self._open = [
            event
            for event in events
            if event.place and any(_same(event.place, one) for one in places)
        ]
        found = [event.text for event in mine]
        if address in self._there and not (self._bus / str(address).lower()).exists():
            found.append(f"{device} at {address} is gone from the PCI bus")
        return tuple(found)

    def close(self) -> None:
        """Stop reading."""
        self._log.close()


def card_addresses(context: RunContext) -> dict[str, str | None]:
    """Return device name -> PCI address of the run's cards; empty for a recorded inventory."""
    if context.settings.inventory is not None:
        return {}
    accelerators = context.inventory.get("accelerators", ())
    found: dict[str, str | None] = {}
    for name in context.devices:
        number = name.partition(":")[2]  # counted over the whole node
        if number.isdecimal() and int(number) < len(accelerators):
            found[name] = accelerators[int(number)].get("pci")
    return found


def _same(place: str, address: str | None) -> bool:
    """Compare addresses; the driver logs them without the function (``0000:5d:00``)."""
    return address is None or address.lower().startswith(place.lower())
