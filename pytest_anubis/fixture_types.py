"""Protocols of the fixtures, by which benchmarks annotate their arguments; public through the package.

The implementations are in ``session/collecting`` and ``session/measuring``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from pytest_anubis.core.metric import Direction
from pytest_anubis.core.nominal_rate import NominalRate

if TYPE_CHECKING:
    from pathlib import Path

    import torch

Value = TypeVar("Value")


class MetricFixture(Protocol):
    """The fixture ``anubis_metric``: records the metrics of one test.

    The arguments that all three ways of recording share: `unit` is the unit of the values; `better` is
    ``higher``, ``lower`` or ``equal``; `goal`, `question` and `action` override the mark's for this
    metric; `group` is a label of comparable units; `part_of` names a time, recorded before in the same
    unit, that this one is a part of; `nominal` is what the hardware could deliver at best, as the method
    ``nominal`` of a device, a pair or the node returns it, or a value in `unit` with `nominal_of` in words.
    `rounds` is the number of values, by default that of the profile.
    Each returns the values in time order.
    """

    def measure(
        self,
        name: str,
        fn: Callable[[], object],
        *,
        unit: str,
        better: Direction,
        work: float | None = None,
        goal: str = "",
        question: str = "",
        action: str = "",
        group: str = "",
        part_of: str = "",
        nominal: float | NominalRate | None = None,
        nominal_of: str = "",
        rounds: int | None = None,
        calls: int | None = None,
        clock: str = "device",
        load: str = "sustained",
    ) -> tuple[float, ...]:
        """Time a callable on the device and record one value a round.

        `work` is what one call does in base units (FLOP, bytes, samples): with it the unit is a rate, without
        it a time. `calls` is the number of calls a round, by default as many as fill a round. `clock` is
        ``device``, or ``host`` for a time that includes what a launch costs. `load` is
        ``sustained``, or ``short`` for the rate of a rested device.
        """
        ...

    def collect(
        self,
        name: str,
        fn: Callable[[], float | Iterable[float]],
        *,
        unit: str,
        better: Direction,
        goal: str = "",
        question: str = "",
        action: str = "",
        group: str = "",
        part_of: str = "",
        nominal: float | NominalRate | None = None,
        nominal_of: str = "",
        rounds: int | None = None,
        clock: str = "host",
    ) -> tuple[float, ...]:
        """Record what a callable measures by itself, called once a round.

        `clock` is ``device`` where it reads the device's own clock, which the host's load does not touch.
        """
        ...

    def record(
        self,
        name: str,
        value: float | Iterable[float],
        *,
        unit: str,
        better: Direction,
        goal: str = "",
        question: str = "",
        action: str = "",
        group: str = "",
        part_of: str = "",
        nominal: float | NominalRate | None = None,
        nominal_of: str = "",
        rounds_of: str = "",
        expect: float | None = None,
        evidence: Iterable[str] = (),
    ) -> tuple[float, ...]:
        """Record one value or several that the test measured itself.

        `rounds_of` names a metric that `measure` or `collect` took in the same rounds, with one value for
        each that it returned: what disturbed these, disturbed both. `expect` is the one right
        value of ``better="equal"``, by default 0 for a metric that counts faults. `evidence` is what else the
        test found, one phrase each: it is shown with the metric's verdict.
        """
        ...


class DeviceFixture(Protocol):
    """The fixtures ``anubis_device`` and ``anubis_host``: one device to run on."""

    @property
    def name(self) -> str:
        """``cpu``, ``cuda:0``, ... counted over the whole node."""
        ...

    @property
    def kind(self) -> str:
        """``cpu``, ``cuda``, ``xpu``, ``mps``."""
        ...

    @property
    def index(self) -> int:
        """Number of the device among those of its kind on this node; 0 for the CPU."""
        ...

    @property
    def pci(self) -> str:
        """PCI address of its card, e.g. ``0000:1b:00.0``; empty where it is not known."""
        ...

    @property
    def torch(self) -> torch.device:
        """The device for torch; imports torch."""
        ...

    def synchronize(self) -> None:
        """Wait for everything queued on the device."""
        ...

    def energy(self) -> float | None:
        """Return the joules that the device has used so far; None where it does not count them."""
        ...

    def load(self) -> tuple[float, float] | None:
        """Return clock (MHz) and power (W) at this moment; None where one cannot be read."""
        ...

    def nominal(self, link: str = "pcie") -> NominalRate | None:
        """Return what the card's link (``pcie``, ``nvlink``) carries one way at best; None if unknown."""
        ...


class PairFixture(Protocol):
    """The fixture ``anubis_pair``: two accelerators and the way from the one to the other."""

    @property
    def name(self) -> str:
        """Sender and receiver, such as ``cuda:0>cuda:3``."""
        ...

    @property
    def source(self) -> DeviceFixture:
        """The sender."""
        ...

    @property
    def target(self) -> DeviceFixture:
        """The receiver."""
        ...

    @property
    def kind(self) -> str:
        """``cuda``, ``xpu``: both are of one kind."""
        ...

    def nominal(self) -> NominalRate | None:
        """Return what the NVLinks of the slower end carry one way at best; None if unknown."""
        ...

    def synchronize(self) -> None:
        """Wait for everything queued on either."""
        ...


class PairsFixture(Protocol):
    """The fixture ``anubis_pairs``: hosts, pair by pair or each with all others."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hosts, by number."""
        ...

    def __len__(self) -> int:
        """Return how many hosts there are."""
        ...

    def measure(
        self,
        name: str = "pair_rate",
        *,
        rounds: Sequence[tuple[tuple[int, int], ...]] | None = None,
        hops: Sequence[Sequence[int]] | None = None,
        good: Sequence[int] = (),
        seconds: float = 0.1,
        repeats: int = 3,
    ) -> tuple[str, ...]:
        """Measure the pairs of a plan and record the rate of every way; return who is to blame for slow ones.

        `rounds` are sets of pairs, by default every pair once, or with `good` (hosts known to be good) the
        quick scan; `hops` are the hosts' distances in links. A transfer takes about `seconds`, the plan is
        run `repeats` times. Returns one line for each part that is to blame, the same on every host.
        Receiving ports to which TCP sent segments again are evidence, and property ``resending_ports``.
        """
        ...

    def fan_in(self, *, size: int = 6_422_528, repeats: int = 3) -> tuple[str, ...]:
        """Measure each host with all others at once; return who is to blame for slow ones.

        All others send it up to `size` bytes at once, then it sends as many to each of them; this is run
        `repeats` times for every host. Records ``fan_in_rate`` and ``fan_out_rate`` of each host, with all
        its blocks, and property ``fan_in_fairness``: Jain's index of its senders, 1 if they were served
        alike. Returns one line for each host, or direction of its port, that is to blame.
        """
        ...


class NodeFixture(Protocol):
    """The fixture ``anubis_node``: the machine and the profile of this run."""

    @property
    def name(self) -> str:
        """Name of the node."""
        ...

    @property
    def profile(self) -> str:
        """``smoke``, ``standard`` or ``soak``."""
        ...

    @property
    def scratch(self) -> Path:
        """Folder for files that a benchmark writes; removed afterwards."""
        ...

    @property
    def cores(self) -> int:
        """How many CPUs this process may use, those of its control group's quota at most."""
        ...

    def nominal(self, link: str = "port", name: str = "") -> NominalRate | None:
        """Return what a network ``port``, the slowest ``nvlink`` or a card's ``adapters`` carry, or None."""
        ...

    def pick(self, *, smoke: Value, standard: Value, soak: Value) -> Value:
        """Return the value for this run's profile."""
        ...
