"""Devices: parametrisation over the inventory, the fixture's value, and ids without the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.session.context import context_key

if TYPE_CHECKING:
    import torch

FIXTURE = "anubis_device"


@dataclass(frozen=True, slots=True)
class Device:
    """One device to run on.

    Attributes:
        name: ``cpu`` or e.g. ``cuda:3``, counted over the whole node.
    """

    name: str

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

        A process that is bound to one device (``CUDA_VISIBLE_DEVICES``) sees it as number 0 whatever
        its number on the node is.
        """
        import torch

        if self.kind == "cpu":
            return torch.device("cpu")
        visible = torch.accelerator.device_count()
        index = self.index if self.index < visible else 0
        return torch.device(self.kind, index)

    def synchronize(self) -> None:
        """Wait until everything queued on the device is done; nothing to wait for on a CPU."""
        if self.kind != "cpu":
            import torch

            torch.accelerator.synchronize(self.torch)


class DeviceParametrizer:
    """Parametrises tests that use ``anubis_device`` over the devices of the inventory."""

    # First of all implementations: the device's id is then the first in the brackets, whatever other
    # parameters a test has, and `benchmark_id` can take it out again.
    @pytest.hookimpl(tryfirst=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give the test one run per device."""
        if FIXTURE in metafunc.fixturenames:
            names = device_names(metafunc.config)
            metafunc.parametrize(FIXTURE, names, ids=list(names), indirect=True)


def device_names(config: pytest.Config) -> tuple[str, ...]:
    """Return the devices of this run; without ``--anubis`` those of this machine's inventory."""
    context = config.stash[context_key]
    if context.devices:
        return context.devices
    cached = config.stash.get(_names_key, None)
    if cached is None:
        from pytest_anubis.hardware.inventory import read_inventory

        cached = config.stash[_names_key] = names_from_inventory(read_inventory())
    return cached


_names_key = pytest.StashKey[tuple[str, ...]]()


def names_from_inventory(inventory: Any) -> tuple[str, ...]:
    """Return torch's names of the accelerators of an inventory, or ``("cpu",)`` without any."""
    names: list[str] = []
    for accelerator in inventory.accelerators:
        kind = {"nvidia": "cuda", "amd": "cuda", "intel": "xpu", "apple": "mps"}.get(
            accelerator.vendor.lower(), "cuda"
        )
        names.append(f"{kind}:{len(names)}")
    return tuple(names) or ("cpu",)


def device_of(item: pytest.Item) -> str:
    """Return the device that the test runs on, ``node`` when it has none of its own."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params[FIXTURE]) if callspec and FIXTURE in callspec.params else "node"


def benchmark_id(item: pytest.Item) -> str:
    """Return the node id without the device parameter, so that all devices are one population."""
    device = device_of(item)
    head, bracket, parameters = item.nodeid.partition("[")
    if device == "node" or not bracket:
        return item.nodeid
    if parameters == f"{device}]":
        return head
    return f"{head}[{parameters.removeprefix(f'{device}-')}"
