"""What a benchmark may use of the plugin's fixtures, as types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")


class MetricFixture(Protocol):
    """The fixture ``anubis_metric``; its own documentation says what each argument means."""

    def measure(
        self,
        name: str,
        fn: Callable[[], object],
        *,
        unit: str,
        better: str,
        work: float | None = None,
        clock: str = "device",
    ) -> tuple[float, ...]:
        """Time a callable and record one value a round."""
        ...

    def collect(
        self,
        name: str,
        fn: Callable[[], float | Iterable[float]],
        *,
        unit: str,
        better: str,
    ) -> tuple[float, ...]:
        """Record what a callable measures by itself, called once a round."""
        ...


class DeviceFixture(Protocol):
    """The fixture ``anubis_device``: one device to run on."""

    @property
    def name(self) -> str:
        """``cpu``, ``cuda:0``, ..."""
        ...

    @property
    def kind(self) -> str:
        """``cpu``, ``cuda``, ..."""
        ...

    @property
    def torch(self) -> torch.device:
        """The same for torch."""
        ...

    def synchronize(self) -> None:
        """Wait for everything queued on the device."""
        ...


class NodeFixture(Protocol):
    """The fixture ``anubis_node``: the machine and the profile of this run."""

    @property
    def scratch(self) -> Path:
        """Folder for files that a benchmark writes; removed afterwards."""
        ...

    @property
    def cores(self) -> int:
        """How many CPUs this process may use."""
        ...

    def pick(self, *, smoke: Value, standard: Value, soak: Value) -> Value:
        """Return the value for this run's profile."""
        ...
