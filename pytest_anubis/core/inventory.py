"""Inventories: what hardware and software a node consists of, as far as it could be read.

Every reading may be None: then the node has no such sensor or the reader is not allowed to know it.
A sensor that *should* have answered and failed is None too, and named in ``unreadable`` of the part that
it belongs to, as ``field: reason``: absent is data, unreadable is never "fine". As plain data, what is
None is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pytest_anubis.core.field_types import Compact, compact

REDACTED = "redacted"
"""Stands for a serial number or unique id that is not to be told."""


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One accelerator.

    Attributes:
        index: Number within its vendor's list, in the vendor library's order.
        vendor: ``nvidia``, ``amd``, ``intel``, ``apple``.
        name: Model name.
        pci: PCI address such as ``0000:5d:00.0``: the slot.
        uuid: The vendor's unique id; devices are bound by it.
        hip_id: Number under which HIP counts it where nothing is hidden (AMD); None where it is unknown.
        hip_uuid: Unique id by which ROCm's variables name it (AMD).
        serial: Serial number of the board.
        part: Part number of the board.
        memory: Bytes of device memory.
        vbios: Version of the VBIOS.
        firmware: Version of further firmware on the card (InfoROM image of NVIDIA).
        link_width: PCIe lanes in use.
        link_width_max: PCIe lanes that card and slot could use.
        link_generation: PCIe generation in use; cards lower it while idle.
        link_generation_max: PCIe generation that card and slot could use.
        power_limit: Enforced power limit in watts.
        power_limit_default: Factory power limit in watts.
        sm_clock_max: Highest clock of the compute units in MHz.
        memory_clock_max: Highest memory clock in MHz.
        compute_capability: E.g. ``9.0`` (NVIDIA) or ``gfx942`` (AMD).
        mig: True when the card is partitioned (MIG of NVIDIA).
        nvlinks: How many NVLink (or xGMI) links the card has.
        nvlinks_active: How many of them are up.
        performance_state: P-state; 0 is full speed.
        ecc: True when error correction is on.
        ecc_corrected: Corrected memory errors since the driver was loaded.
        ecc_uncorrected: Uncorrected memory errors since the driver was loaded.
        ecc_uncorrected_lifetime: Uncorrected memory errors since the card was made.
        remapped_corrected: Memory rows replaced by spares after corrected errors.
        remapped_uncorrected: Memory rows replaced by spares after uncorrected errors.
        remap_pending: A replacement waits for a reset.
        remap_failed: A row could not be replaced: the spares are used up.
        retired_pages: Retired memory pages (older cards).
        spares_low: Memory banks with few spare rows left.
        spares_none: Memory banks without any spare row left.
        sram_threshold: The vendor's limit of errors in the card's caches is exceeded.
        recovery_action: What the driver asks for, such as ``reset the card``; ``none`` when nothing.
        memory_free: Bytes of device memory that nobody uses.
        compute_mode: ``default``, ``exclusive-process``, ``prohibited``.
        persistence: The driver stays loaded while nobody uses the card.
        clock_limited: Somebody's setting (application clocks, locked clocks) holds the clock down.
        fabric: How far the card has joined an NVSwitch fabric: ``completed``, ``in progress``,
            ``not started``, ``failed (...)``.
        fabric_health: ``healthy``, or what is wrong with the fabric, in words.
        nvlink_speed: Speed of the slowest NVLink that is up, in MB/s.
        nvlink_errors: How often NVLinks had to recover since the driver was loaded.
        pcie_replays: PCIe packets sent again since the driver was loaded.
        block_errors: Errors of each block since the driver was loaded (AMD), such as ``deferred gfx errors``.
        unreadable: Sensors that failed, ``field: reason``.
    """

    index: int
    vendor: str
    name: str
    pci: str | None = None
    uuid: str | None = None
    hip_id: int | None = None
    hip_uuid: str | None = None
    serial: str | None = None
    part: str | None = None
    memory: int | None = None
    vbios: str | None = None
    firmware: str | None = None
    link_width: int | None = None
    link_width_max: int | None = None
    link_generation: int | None = None
    link_generation_max: int | None = None
    power_limit: float | None = None
    power_limit_default: float | None = None
    sm_clock_max: float | None = None
    memory_clock_max: float | None = None
    compute_capability: str | None = None
    mig: bool | None = None
    nvlinks: int | None = None
    nvlinks_active: int | None = None
    performance_state: int | None = None
    ecc: bool | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    ecc_uncorrected_lifetime: int | None = None
    remapped_corrected: int | None = None
    remapped_uncorrected: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages: int | None = None
    spares_low: int | None = None
    spares_none: int | None = None
    sram_threshold: bool | None = None
    recovery_action: str | None = None
    memory_free: int | None = None
    compute_mode: str | None = None
    persistence: bool | None = None
    clock_limited: bool | None = None
    fabric: str | None = None
    fabric_health: str | None = None
    nvlink_speed: int | None = None
    nvlink_errors: int | None = None
    pcie_replays: int | None = None
    block_errors: Annotated[Mapping[str, int], Compact] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """The node's CPUs.

    Attributes:
        model: Model name.
        vendor: E.g. ``GenuineIntel``.
        family: Family number, which tells generations apart where the name does not.
        model_number: Model number within the family.
        microcode: Microcode version.
        sockets: Physical packages.
        cores: Physical cores of all packages.
        threads: Hardware threads that are online.
        usable: Hardware threads that this process may run on (affinity, cpuset).
        quota: CPU-time limit of the control group in cores; None without one.
        numa_nodes: NUMA nodes.
        mhz_max: Highest frequency in MHz.
        governor: Frequency governor.
        unreadable: Sensors that failed, ``field: reason``.
    """

    model: str | None = None
    vendor: str | None = None
    family: str | None = None
    model_number: str | None = None
    microcode: str | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    usable: int | None = None
    quota: float | None = None
    numa_nodes: int | None = None
    mhz_max: float | None = None
    governor: str | None = None
    unreadable: tuple[str, ...] = ()


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The node's main memory.

    Attributes:
        total: Bytes that the kernel manages (a little less than what is installed).
        limit: Limit of the control group in bytes; None without one.
        swap: Bytes of swap space.
        corrected: Corrected errors since boot (EDAC).
        uncorrected: Uncorrected errors since boot (EDAC).
        unreadable: Sensors that failed, ``field: reason``.
    """

    total: int | None = None
    limit: int | None = None
    swap: int | None = None
    corrected: int | None = None
    uncorrected: int | None = None
    unreadable: tuple[str, ...] = ()


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """One block device.

    Attributes:
        name: Kernel name such as ``nvme0n1``.
        model: Model name.
        serial: Serial number.
        firmware: Firmware revision.
        size: Bytes.
        rotational: True for spinning disks.
        transport: ``nvme``, ``virtio``, ``scsi``, ...
        wear: Used share of the rated endurance in percent (may exceed 100).
        media_errors: Unrecovered data errors.
        pci: PCI address of its controller.
        link_width: PCIe lanes in use.
        link_width_max: PCIe lanes possible.
        unreadable: Sensors that failed, ``field: reason``.
    """

    name: str
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None
    size: int | None = None
    rotational: bool | None = None
    transport: str | None = None
    wear: float | None = None
    media_errors: int | None = None
    pci: str | None = None
    link_width: int | None = None
    link_width_max: int | None = None
    unreadable: tuple[str, ...] = ()


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """One network interface, or one port of an RDMA adapter (HCA).

    Attributes:
        name: ``eth0``, or ``mlx5_0/1`` for port 1 of an HCA.
        kind: ``ethernet``, ``infiniband`` or ``roce``.
        model: Adapter model (``hca_type``) or PCI ids.
        driver: Kernel driver.
        speed: Speed of the link in Gbit/s; None while it is down.
        state: ``up``, ``down``, ``active``, ...
        firmware: Firmware version.
        address: MAC address or GUID.
        pci: PCI address.
        link_width: PCIe lanes in use.
        link_width_max: PCIe lanes possible.
        unreadable: Sensors that failed, ``field: reason``.
    """

    name: str
    kind: str = "ethernet"
    model: str | None = None
    driver: str | None = None
    speed: float | None = None
    state: str | None = None
    firmware: str | None = None
    address: str | None = None
    pci: str | None = None
    link_width: int | None = None
    link_width_max: int | None = None
    unreadable: tuple[str, ...] = ()


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Chassis and board.

    Attributes:
        vendor: Maker.
        product: Product name.
        serial: Serial number of the chassis.
        board: Name of the main board.
        bios: Version of the BIOS.
        bios_date: Its date.
        virtual: It is a virtual machine; None in inventories of older versions.
        unreadable: Sensors that failed, ``field: reason``.
    """

    vendor: str | None = None
    product: str | None = None
    serial: str | None = None
    board: str | None = None
    bios: str | None = None
    bios_date: str | None = None
    virtual: bool | None = None
    unreadable: tuple[str, ...] = ()


@compact("none")
@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything that is known about one node.

    Attributes:
        node: Host name.
        machine: Digest of the operating system's machine id, of which an image has one for many machines.
        taken: When it was read, ISO 8601, UTC; empty for a golden inventory.
        system: Chassis and board.
        processor: CPUs.
        memory: Main memory.
        accelerators: In the order in which torch counts them per vendor.
        on_bus: Accelerators that the PCI bus shows, whatever their drivers say: their addresses; None
            where the bus cannot be read.
        disks: Block devices, loop and memory devices left out.
        nics: Network interfaces and HCA ports with hardware behind them.
        kernel: Release of the running kernel.
        os: Name of the distribution.
        architecture: ``x86_64``, ``aarch64``, ...
        drivers: Name -> version of accelerator drivers and their run-time (``nvidia``, ``cuda``, ...).
        software: Name -> version of Python and the frameworks.
        unreadable: Sources that failed as a whole, ``source: reason``.
    """

    node: str
    machine: str | None = None
    taken: str = ""
    system: System = System()
    processor: Processor = Processor()
    memory: Memory = Memory()
    accelerators: tuple[Accelerator, ...] = ()
    on_bus: tuple[str, ...] | None = None
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()
    kernel: str | None = None
    os: str | None = None
    architecture: str | None = None
    drivers: Mapping[str, str] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFinding:
    """One thing in an inventory that stands against accepting the node.

    Attributes:
        what: What was looked at, e.g. ``PCIe link width``.
        slot: Where, e.g. ``GPU 3 (0000:5d:00.0)``; empty for the node as a whole.
        expected: What it should be, in words.
        found: What it is, in words.
        severity: ``FAIL``: the hardware is not what it should be; ``INCONCLUSIVE``: it cannot be known, since
            something else stands in the way; ``NOTE``: worth knowing, and it blocks nothing.
        component: The part of the node that is blamed.
        action: Next step.
    """

    what: str
    expected: str
    found: str
    severity: Literal["FAIL", "INCONCLUSIVE", "NOTE"]
    slot: str = ""
    component: str = ""
    action: str = ""

    @property
    def text(self) -> str:
        """The finding in one sentence."""
        place = f"{self.slot}: " if self.slot else ""
        return f"{place}{self.what} is {self.found}, expected {self.expected}"
