"""Devices and pairs of devices: test parameters, values of the fixtures, and benchmark ids without them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.codec import from_plain
from pytest_anubis.core.inventory import Accelerator
from pytest_anubis.core.measurement import portable_id
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.session.context import MetricUsageError, context_key

if TYPE_CHECKING:
    import torch

    from pytest_anubis.hardware.telemetry.card_meter import CardMeter

FIXTURE = "anubis_device"
PAIR = "anubis_pair"
NODE = "node"
"""Device of a test that has none of its own, and of a test of pairs on a node without any."""

TO = ">"
"""Separates sender and receiver in a pair's name: ``cuda:0>cuda:3``."""

HOST = "cpu"
"""Name of the host as a device."""


class WrongCardError(RuntimeError):
    """The card that a process sees is not the one that it is to test."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device to run on.

    Attributes:
        name: ``cpu`` or e.g. ``cuda:3``, counted over the whole node.
        place: Number of the device among this run's devices of its kind.
        pci: PCI address of its card in the inventory; empty if unknown.
        card: Its card in the inventory, as plain data; None without one.
    """

    name: str
    place: int = 0
    pci: str = field(default="", repr=False)  # pytest shows a device where a test fails
    card: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def kind(self) -> str:
        """``cpu``, ``cuda``, ``xpu``, ``mps``, ..."""
        return self.name.partition(":")[0]

    @property
    def index(self) -> int:
        """Number of the device among those of its kind on this node; 0 for the CPU."""
        return int(self.name.partition(":")[2] or 0)

    @property
    def torch(self) -> torch.device:
        """The device for torch; imports torch.

        A process that sees one device only (``CUDA_VISIBLE_DEVICES``) numbers it 0. A process that sees all
        devices of the run numbers them in order.

        Raises:
            WrongCardError: The card that is seen there sits in another slot.
        """
        import torch

        if self.kind == "cpu":
            return torch.device("cpu")
        visible = torch.accelerator.device_count()
        index = self.place if self.place < visible else 0
        if self.kind == "cuda" and self.pci and visible:
            check_slot(self.name, self.pci, torch.cuda.get_device_properties(index))
        return torch.device(self.kind, index)

    def synchronize(self) -> None:
        """Wait until everything queued on the device is done; returns at once on a CPU."""
        if self.kind != "cpu":
            import torch

            torch.accelerator.synchronize(self.torch)

    def energy(self) -> float | None:
        """Return the joules that the device has used so far; None where it does not count them."""
        meter = self._meter()
        return None if meter is None else meter.energy()

    def load(self) -> tuple[float, float] | None:
        """Return clock (MHz) and power (W) at this moment; None where one cannot be read."""
        meter = self._meter()
        return None if meter is None else meter.load()

    def nominal(self, link: str = "pcie") -> NominalRate | None:
        """Return what the card's link carries one way at best, bytes per second; None if unknown.

        Args:
            link: ``pcie``, or ``nvlink`` for all NVLinks of a card in a fabric of switches.
        """
        from pytest_anubis.hardware.nominal_rates import nvlink_rate, pcie_rate

        rates = {"pcie": pcie_rate, "nvlink": nvlink_rate}
        if link not in rates:
            raise MetricUsageError(f"link={link!r}: say {' or '.join(map(repr, rates))}")
        return None if self.card is None else rates[link](from_plain(Accelerator, self.card))

    def _meter(self) -> CardMeter | None:
        if self.kind != "cuda":
            return None
        import torch

        from pytest_anubis.hardware.telemetry.card_meter import meter_of

        if not torch.cuda.is_available():
            return None
        # The UUID depends neither on environment variables nor on the order of numbering.
        uuid = getattr(torch.cuda.get_device_properties(self.torch), "uuid", None)
        return None if uuid is None else meter_of(str(uuid))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two devices and the link from the sender `source` to the receiver `target`."""

    source: Device
    target: Device

    @property
    def name(self) -> str:
        """Sender and receiver, such as ``cuda:0>cuda:3``."""
        return f"{self.source.name}{TO}{self.target.name}"

    @property
    def kind(self) -> str:
        """``cuda``, ``xpu``, ...: both are of one kind."""
        return self.source.kind

    @property
    def torch(self) -> torch.device:
        """The sender for torch; its clock times the transfers."""
        return self.source.torch

    def synchronize(self) -> None:
        """Wait until everything queued on either is done."""
        self.source.synchronize()
        self.target.synchronize()

    def nominal(self) -> NominalRate | None:
        """Return what the NVLinks of the slower end carry one way, bytes per second; None if unknown."""
        from pytest_anubis.hardware.nominal_rates import slowest_nvlink_rate

        source, target = self.source.card, self.target.card
        if source is None or target is None:
            return None
        return slowest_nvlink_rate(from_plain(Accelerator, card) for card in (source, target))

    def energy(self) -> None:
        """Return None, since no sensor counts the energy of a link."""

    def load(self) -> None:
        """Return None, since a link has neither clock nor power of its own."""


def check_slot(name: str, pci: str, properties: Any) -> None:
    """Make sure that torch and the inventory mean the same card.

    Args:
        name: The device.
        pci: The card's PCI address in the inventory.
        properties: torch's properties of the card; before torch 2.6 they lack its slot.

    Raises:
        WrongCardError: They mean two cards.
    """
    ids = (getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
    numbers = [one for one in ids if isinstance(one, int)]
    slot = re.match(r"([0-9a-f]+):([0-9a-f]+):([0-9a-f]+)", pci.lower())
    if slot is None or len(numbers) < 3 or numbers == [int(part, 16) for part in slot.groups()]:
        return
    domain, bus, device = numbers
    raise WrongCardError(
        f"{name} is the card at {pci}, but this process would test the one at "
        f"{domain:04x}:{bus:02x}:{device:02x}.0"
    )


def device_named(config: pytest.Config, name: str) -> Device:
    """Return one of the run's devices."""
    kind, _, number = name.partition(":")
    same = [one for one in device_names(config) if one.partition(":")[0] == kind]
    context = config.stash[context_key]
    cards = context.inventory.get("accelerators", ())
    card = cards[int(number)] if number.isdecimal() and int(number) < len(cards) else None
    # A recorded node's slots are not this machine's.
    pci = card.get("pci") or "" if card and context.settings.inventory is None else ""
    return Device(name, same.index(name) if name in same else 0, pci, card)


def unit_named(config: pytest.Config, name: str) -> Device | Pair | None:
    """Return one of the run's devices or pairs; None for the node as a whole."""
    if name == NODE:
        return None
    return pair_named(config, name) if TO in name else device_named(config, name)


def pair_named(config: pytest.Config, name: str) -> Pair:
    """Return one of the run's pairs."""
    source, _, target = name.partition(TO)
    return Pair(device_named(config, source), device_named(config, target))


def pair_names(devices: Sequence[str]) -> tuple[str, ...]:
    """Return all ordered pairs of accelerators of one kind; on a node without any, the node.

    So a test of pairs is collected on every node, and skipped where it does not apply (`lacks_pair`).
    """
    found = [
        f"{source}{TO}{target}"
        for source in devices
        for target in devices
        if source != target and source.partition(":")[0] == target.partition(":")[0] != HOST
    ]
    return tuple(found) or (NODE,)


class DeviceParametrizer:
    """Parametrises tests that use ``anubis_device`` or ``anubis_pair`` over the devices of the inventory."""

    # First, so that the device's id comes first in the brackets, where `benchmark_id` removes it.
    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrise a test over all devices (with the host if its mark says so) or over all pairs.

        Raises:
            pytest.Collector.CollectError: The test requests both fixtures.
        """
        if PAIR in metafunc.fixturenames:
            if FIXTURE in metafunc.fixturenames:
                raise pytest.Collector.CollectError(
                    f"{metafunc.definition.nodeid} takes {FIXTURE} and {PAIR}: what is measured belongs to a "
                    f"device or to a pair of them; take the ends from {PAIR}.source and {PAIR}.target"
                )
            pairs = pair_names(device_names(metafunc.config))
            metafunc.parametrize(PAIR, pairs, ids=list(pairs), indirect=True)
        if FIXTURE in metafunc.fixturenames:
            names = device_names(metafunc.config)
            if names != (HOST,) and _also_on_host(metafunc):
                names = (*names, HOST)
            metafunc.parametrize(FIXTURE, names, ids=list(names), indirect=True)


def device_names(config: pytest.Config) -> tuple[str, ...]:
    """Return the devices of this run; without ``--anubis`` those of this machine's inventory."""
    context = config.stash[context_key]
    if context.devices:
        return context.devices
    cached = config.stash.get(_names_key, None)
    if cached is None:
        from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
        from pytest_anubis.hardware.inventory.visible_devices import visible

        cached = visible(read_inventory().accelerators, os.environ).devices
        config.stash[_names_key] = cached
    return cached


_names_key = pytest.StashKey[tuple[str, ...]]()


def _also_on_host(metafunc: pytest.Metafunc) -> bool:
    """Return the mark's key ``host``; the mark nearest to the test wins."""
    for mark in metafunc.definition.iter_markers("anubis"):
        wanted = mark.kwargs.get("host")
        if wanted is not None:
            profile = metafunc.config.stash[context_key].settings.profile
            return wanted is True or (isinstance(wanted, str | list | tuple) and profile in wanted)
    return False


def device_of(item: pytest.Item) -> str:
    """Return the device or pair that the test runs on, ``node`` if it has none of its own."""
    return _parameter(item) or NODE


def lacks_pair(item: pytest.Item) -> bool:
    """Return whether the test needs a pair of accelerators and the node has none."""
    return _parameter(item) == NODE


def _parameter(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    given = callspec.params if callspec else {}
    return next((str(given[name]) for name in (FIXTURE, PAIR) if name in given), "")


def benchmark_id(item: pytest.Item) -> str:
    """Return the node id without the device or pair, so that all devices form one population.

    On a node with accelerators the host is a population of its own, whose id keeps the ``cpu``. Tests of the
    shipped benchmark set have the same id wherever pytest is started.
    """
    device = _parameter(item)
    whole = portable_id(item.nodeid, getattr(getattr(item, "module", None), "__name__", ""))
    head, bracket, parameters = whole.partition("[")
    if not device or not bracket:
        return whole
    if device == HOST and device_names(item.config) != (HOST,):
        return whole
    if parameters == f"{device}]":
        return head
    return f"{head}[{parameters.removeprefix(f'{device}-')}"
