"""Read disks and network adapters for the inventory."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from pytest_anubis.codec import parse_json
from pytest_anubis.core.inventory import Disk, Nic
from pytest_anubis.hardware.inventory.host_inventory import pci_address, pci_link, pci_place
from pytest_anubis.hardware.text_files import Files

# Block devices that are not disks themselves.
_VIRTUAL = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d*")

# smartctl normally answers in milliseconds; a dying disk may let it hang.
_SMART_SECONDS = 5.0


def read_disks(files: Files) -> tuple[Disk, ...]:
    """Read all disks; their wear needs ``smartctl`` and the rights to use it."""
    names = [n for n in files.names("/sys/block") if _VIRTUAL.fullmatch(n) is None]
    return tuple(_disk(files, name) for name in names)


def read_nics(files: Files) -> tuple[Nic, ...]:
    """Read the network interfaces with a device behind them, then every port of every RDMA adapter."""
    base = "/sys/class/net"
    cards = [n for n in files.names(base) if files.exists(f"{base}/{n}/device")]
    ports = [
        (adapter, port)
        for adapter in files.names("/sys/class/infiniband")
        for port in files.names(f"/sys/class/infiniband/{adapter}/ports")
    ]
    return (
        *(_interface(files, name) for name in cards),
        *(_port(files, adapter, port) for adapter, port in ports),
    )


def _disk(files: Files, name: str) -> Disk:
    files = files.part()
    base = f"/sys/block/{name}"
    sectors = files.integer(f"{base}/size", "size")
    address = pci_address(files, f"{base}/device")
    link = pci_link(files, address if name.startswith("nvme") else None)
    health = _smart(files, name)
    return Disk(
        name=name,
        model=files.text(f"{base}/device/model", "model"),
        serial=files.text(f"{base}/device/serial", "serial") or files.text(f"{base}/serial"),
        firmware=files.text(f"{base}/device/firmware_rev") or files.text(f"{base}/device/rev"),
        size=sectors * 512 if sectors is not None else None,  # sysfs counts in 512 bytes everywhere
        rotational={"0": False, "1": True}.get(files.text(f"{base}/queue/rotational") or ""),
        transport=_transport(files, name),
        wear=health.get("percentage_used"),
        media_errors=health.get("media_errors"),
        pci=address,
        link_width=link.get("link_width"),
        link_width_max=link.get("link_width_max"),
        **pci_place(files, address),
        unreadable=tuple(files.unreadable),
    )


def _transport(files: Files, name: str) -> str | None:
    if name.startswith("nvme"):
        return files.text(f"/sys/block/{name}/device/transport") or "nvme"
    if name.startswith("vd"):
        return "virtio"
    return files.target(f"/sys/block/{name}/device/subsystem")


def _smart(files: Files, name: str) -> dict[str, Any]:
    """Return the NVMe health log through smartctl; {} without the tool or for other disks."""
    if files.root != Path("/") or not name.startswith("nvme") or not shutil.which("smartctl"):
        return {}
    command = ["smartctl", "--json", "-A", f"/dev/{name}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SMART_SECONDS, check=False)
        found = parse_json(done.stdout, strict=False)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        files.unreadable.append(f"wear: smartctl: {type(error).__name__}")
        return {}
    return smart_health(found)


def smart_health(answer: Any) -> dict[str, Any]:
    """Return ``percentage_used`` (float, %) and ``media_errors`` (int) from smartctl's JSON."""
    log = answer.get("nvme_smart_health_information_log") if isinstance(answer, dict) else None
    if not isinstance(log, dict):
        return {}
    health: dict[str, Any] = {}
    used, errors = log.get("percentage_used"), log.get("media_errors")
    if isinstance(used, int | float) and not isinstance(used, bool):
        health["percentage_used"] = float(used)
    if isinstance(errors, int) and not isinstance(errors, bool):
        health["media_errors"] = errors
    return health


def _interface(files: Files, name: str) -> Nic:
    files = files.part()
    base = f"/sys/class/net/{name}"
    address = pci_address(files, f"{base}/device")
    link = pci_link(files, address)
    mbits = files.text(f"{base}/speed", "speed")
    vendor, device = files.text(f"{base}/device/vendor"), files.text(f"{base}/device/device")
    return Nic(
        name=name,
        model=f"{vendor}:{device}" if vendor and device else None,
        driver=files.target(f"{base}/device/driver"),
        speed=int(mbits) / 1000 if mbits and mbits.isdigit() else None,  # -1: unknown
        state=files.text(f"{base}/operstate", "state"),
        address=files.text(f"{base}/address"),
        pci=address,
        link_width=link.get("link_width"),
        link_width_max=link.get("link_width_max"),
        link_generation_max=link.get("link_generation_max"),
        **pci_place(files, address),
        unreadable=tuple(files.unreadable),
    )


def _port(files: Files, adapter: str, port: str) -> Nic:
    files = files.part()
    base = f"/sys/class/infiniband/{adapter}"
    address = pci_address(files, f"{base}/device")
    link = pci_link(files, address)
    rate = re.match(
        r"(\d+(?:\.\d+)?) Gb/sec", files.text(f"{base}/ports/{port}/rate", "speed") or ""
    )
    state = files.text(f"{base}/ports/{port}/state", "state")  # such as "4: ACTIVE"
    layer = (files.text(f"{base}/ports/{port}/link_layer") or "").lower()
    up = state is not None and "active" in state.lower()
    return Nic(
        name=f"{adapter}/{port}",
        kind="roce" if layer == "ethernet" else "infiniband",
        model=files.text(f"{base}/hca_type") or files.text(f"{base}/board_id"),
        driver=files.target(f"{base}/device/driver"),
        # A port that is down shows the lowest rate of the standard instead of its speed.
        speed=float(rate[1]) if rate and up else None,
        state=state.partition(":")[2].strip().lower() if state and ":" in state else state,
        firmware=files.text(f"{base}/fw_ver", "firmware"),
        address=files.text(f"{base}/node_guid"),
        pci=address,
        link_width=link.get("link_width"),
        link_width_max=link.get("link_width_max"),
        link_generation_max=link.get("link_generation_max"),
        **pci_place(files, address),
        unreadable=tuple(files.unreadable),
    )
