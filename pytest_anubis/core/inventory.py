"""Inventories (the hardware and software of a node, as far as it could be read), and the gate's findings.

A reading is None if the node has no such sensor, or the reader has no permission. A sensor that failed is
None as well, and ``unreadable`` of its part names it as ``field: reason``, since unreadable is never "fine".
Plain data omits None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Annotated, Literal

from pytest_anubis.core.field_types import Compact, Rare, compact

REDACTED = "redacted"
"""Replaces a serial number or unique id that must not be published."""


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One accelerator."""

    index: int  # in the vendor library's order
    vendor: str  # ``nvidia``, ``amd``, ``intel``, ``apple``
    name: str
    pci: str | None = None  # PCI address such as ``0000:5d:00.0``: the slot
    uuid: str | None = None  # the vendor's unique id; devices are bound by it
    hip_id: int | None = None  # number under which HIP counts it where nothing is hidden (AMD)
    hip_uuid: str | None = None  # unique id by which ROCm's variables name it (AMD)
    serial: str | None = None  # serial number of the board
    part: str | None = None  # part number of the board
    memory: int | None = None  # bytes of device memory
    vbios: str | None = None  # version of the VBIOS
    firmware: str | None = None  # further firmware on the card (InfoROM image of NVIDIA)
    link_width: int | None = None  # PCIe lanes in use
    link_width_max: int | None = None  # lanes that card and slot could use
    link_generation: int | None = None  # in use; cards lower it while idle
    link_generation_max: int | None = None  # that card and slot could use
    power_limit: float | None = None  # enforced power limit in watts
    power_limit_default: float | None = None  # factory power limit in watts
    sm_clock_max: float | None = None  # highest clock of the compute units in MHz
    memory_clock_max: float | None = None  # highest memory clock in MHz
    compute_capability: str | None = None  # e.g. ``9.0`` (NVIDIA) or ``gfx942`` (AMD)
    mig: bool | None = None  # true when the card is partitioned (MIG of NVIDIA)
    nvlinks: int | None = None  # how many NVLink (or xGMI) links the card has
    nvlinks_active: int | None = None  # how many of them are up
    performance_state: int | None = None  # P-state; 0 is full speed
    ecc: bool | None = None  # true when error correction is on
    ecc_corrected: int | None = None  # corrected memory errors since driver load
    ecc_uncorrected: int | None = None  # uncorrected memory errors since driver load
    ecc_uncorrected_lifetime: int | None = None  # the same since the card was made
    remapped_corrected: int | None = None  # memory rows replaced by spares after corrected errors
    remapped_uncorrected: int | None = None  # the same after uncorrected errors
    remap_pending: bool | None = None  # a replacement waits for a reset
    remap_failed: bool | None = None  # a row could not be replaced: the spares are used up
    retired_pages: int | None = None  # retired memory pages (older cards)
    spares_low: int | None = None  # memory banks with few spare rows left
    spares_none: int | None = None  # memory banks without any spare row left
    sram_threshold: bool | None = None  # the vendor's limit of errors in the caches is exceeded
    recovery_action: str | None = None  # what the driver asks for: `reset the card`, `none`
    memory_free: int | None = None  # unused bytes of device memory
    compute_mode: str | None = None  # ``default``, ``exclusive-process``, ``prohibited``
    persistence: bool | None = None  # the driver stays loaded while the card is unused
    clock_limited: bool | None = None  # a setting (application or locked clocks) lowers it
    fabric: str | None = (
        None  # of NVSwitch: `completed`, `in progress`, `not started`, `failed (...)`
    )
    fabric_health: str | None = None  # ``healthy``, or what is wrong with the fabric, in words
    nvlink_speed: int | None = None  # speed of the slowest NVLink that is up, in MB/s
    nvlink_errors: int | None = None  # how often NVLinks recovered since driver load
    pcie_replays: int | None = None  # PCIe packets sent again since driver load
    block_errors: Annotated[Mapping[str, int], Compact] = field(default_factory=dict)
    numa_node: Annotated[int | None, Rare] = None  # nearest NUMA node
    bridges: Annotated[tuple[str, ...], Rare] = ()  # PCI bridges above it, the root port last
    unreadable: tuple[str, ...] = ()  # sensors that failed, ``field: reason``


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """The node's CPUs."""

    model: str | None = None
    vendor: str | None = None  # e.g. ``GenuineIntel``
    family: str | None = None  # separates generations where the name does not
    model_number: str | None = None  # model number within the family
    microcode: str | None = None
    sockets: int | None = None  # physical packages
    cores: int | None = None  # physical cores of all packages
    threads: int | None = None  # hardware threads that are online
    usable: int | None = None  # threads that this process may run on (affinity, cpuset)
    quota: float | None = None  # CPU-time limit of the control group in cores; None without one
    numa_nodes: int | None = None
    mhz_max: float | None = None  # highest frequency in MHz
    governor: str | None = None
    unreadable: tuple[str, ...] = ()  # sensors that failed, ``field: reason``


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The node's main memory."""

    total: int | None = None  # bytes that the kernel manages, a little less than are installed
    limit: int | None = None  # limit of the control group in bytes; None without one
    swap: int | None = None  # bytes of swap space
    corrected: int | None = None  # corrected errors since boot (EDAC)
    uncorrected: int | None = None  # uncorrected errors since boot (EDAC)
    unreadable: tuple[str, ...] = ()  # sensors that failed, ``field: reason``


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One block device."""

    name: str  # kernel name such as ``nvme0n1``
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None  # firmware revision
    size: int | None = None  # bytes
    rotational: bool | None = None  # true for spinning disks
    transport: str | None = None  # ``nvme``, ``virtio``, ``scsi``, ...
    wear: float | None = None  # used share of the rated endurance in percent (may exceed 100)
    media_errors: int | None = None  # unrecovered data errors
    pci: str | None = None  # PCI address of its controller
    link_width: int | None = None  # PCIe lanes in use
    link_width_max: int | None = None  # PCIe lanes possible
    numa_node: Annotated[int | None, Rare] = None  # nearest NUMA node
    bridges: Annotated[tuple[str, ...], Rare] = ()  # PCI bridges above it, the root port last
    unreadable: tuple[str, ...] = ()  # sensors that failed, ``field: reason``


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """One network interface, or one port of an RDMA adapter (HCA)."""

    name: str  # ``eth0``, or ``mlx5_0/1`` for port 1 of an HCA
    kind: str = "ethernet"  # ``ethernet``, ``infiniband`` or ``roce``
    model: str | None = None  # adapter model (``hca_type``) or PCI ids
    driver: str | None = None
    speed: float | None = None  # speed of the link in Gbit/s; None while it is down
    state: str | None = None  # ``up``, ``down``, ``active``, ...
    firmware: str | None = None
    address: str | None = None  # MAC address or GUID
    pci: str | None = None
    link_width: int | None = None  # PCIe lanes in use
    link_width_max: int | None = None  # PCIe lanes that adapter and slot could use
    link_generation_max: Annotated[int | None, Rare] = None  # that adapter and slot could use
    numa_node: Annotated[int | None, Rare] = None  # nearest NUMA node
    bridges: Annotated[tuple[str, ...], Rare] = ()  # PCI bridges above it, the root port last
    unreadable: tuple[str, ...] = ()  # sensors that failed, ``field: reason``


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Chassis and board."""

    vendor: str | None = None  # maker
    product: str | None = None
    serial: str | None = None  # serial number of the chassis
    board: str | None = None  # name of the main board
    bios: str | None = None  # version of the BIOS
    bios_date: str | None = None
    virtual: bool | None = None  # a virtual machine; None in older inventories
    unreadable: tuple[str, ...] = ()  # sensors that failed, ``field: reason``


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The inventory of one node."""

    node: str  # host name
    machine: str | None = None  # digest of the OS's machine id; clones share it
    taken: str = ""  # when it was read, ISO 8601, UTC; empty for a golden inventory
    system: System = System()
    processor: Processor = Processor()
    memory: Memory = Memory()
    accelerators: tuple[Accelerator, ...] = ()  # in the order in which torch counts them per vendor
    on_bus: tuple[str, ...] | None = None  # addresses on the PCI bus; None: unreadable
    disks: tuple[Disk, ...] = ()  # block devices, loop and memory devices left out
    nics: tuple[Nic, ...] = ()  # network interfaces and HCA ports with hardware behind them
    kernel: str | None = None  # release of the running kernel
    os: str | None = None  # name of the distribution
    architecture: str | None = None  # ``x86_64``, ``aarch64``, ...
    drivers: Mapping[str, str] = field(default_factory=dict)  # `nvidia`, `cuda`, ... -> version
    software: Mapping[str, str] = field(default_factory=dict)  # name -> version
    unreadable: tuple[str, ...] = ()  # sources and cards without an answer, ``source: reason``


class FindingKind(Enum):
    """Findings on which more depends than their severity."""

    VISIBILITY = auto()  # an environment variable that chooses accelerators is wrong
    LOAD_DEPENDENT = auto()  # a recent load causes it too, so it means nothing at the end of a run
    NO_ANSWER = auto()  # a card or its library did not answer in time
    OTHER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFinding:
    """A deviation in an inventory."""

    what: str  # what was checked, e.g. ``PCIe link width``
    expected: str  # what it should be, in words
    found: str  # what it is, in words
    # The hardware is not what it should be; the check was not possible; or it blocks nothing
    severity: Literal["FAIL", "INCONCLUSIVE", "NOTE"]
    slot: str = ""  # where, e.g. ``GPU 3 (0000:5d:00.0)``; empty for the node as a whole
    component: str = ""  # the part of the node that is blamed
    action: str = ""  # next step
    kind: FindingKind = FindingKind.OTHER

    @property
    def text(self) -> str:
        """The finding in one sentence."""
        place = f"{self.slot}: " if self.slot else ""
        return f"{place}{self.what} is {self.found}, expected {self.expected}"
