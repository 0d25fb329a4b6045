"""Check a node's inventory: the gate before a run and at its end, and ``anubis doctor``.

Some checks compare with the golden inventory of the class. Error counters, lost cards, settings of cards and
failed sensors need none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_anubis.core.inventory import Accelerator, FindingKind, GateFinding, Inventory
from pytest_anubis.hardware.gate.card_checks import (
    POWER_CYCLE,
    card_findings,
    card_place,
    with_serial,
)
from pytest_anubis.hardware.gate.single_checks import (
    Severity,
    Value,
    at_least,
    at_most,
    equal,
    gib,
    no_reading,
)
from pytest_anubis.hardware.inventory.nvidia_inventory import NO_ANSWER, NOT_ASKED, SILENT

# Not needed for measurements, so it does not matter if a normal user may not read them.
_IDENTITIES = ("serial", "uuid", "part", "address")
_NEEDS_RESET = "(NVML error 16)"
_LOST = ("(NVML error 15)", _NEEDS_RESET)
_REFUSED = "(NVML error 4)"

_CABLE = (
    "reseat or exchange cable and transceiver, look at the port of the switch, then test again "
    "(ethtool, ibstat)"
)
_RESET = "look for its XIDs in the kernel log, reset it or reboot the node, then test again"
_ASK_FOR_ALL = (
    "let this job have all cards of the node (Slurm: --exclusive, or --gres=gpu:{count}; in a container pass "
    "all of /dev/nvidia*), then test again"
)

# Vendor -> prefixes of the notes that explain why its library counted no cards, or not all of them.
_LIBRARIES = {"nvidia": ("nvml: ", "accelerators: "), "amd": ("amdsmi: ", "accelerators: ")}


MAX_CORRECTED = 1000
"""Corrected errors of main memory since boot. More errors mean a failing module."""

MAX_UNCORRECTED = 0
"""Uncorrected errors of main memory since boot."""

MEMORY_SHARE = 0.98
"""Minimum share of the expected main memory; kernels reserve different amounts."""

MAX_WEAR = 100.0
"""Used endurance of a disk in percent."""

MAX_MEDIA_ERRORS = 0
"""Errors in data that a disk read back."""


def check_inventory(inventory: Inventory, golden: Inventory | None = None) -> list[GateFinding]:
    """Check a node's inventory and compare it with the golden one of its class.

    Args:
        inventory: The node.
        golden: The golden inventory; None: only the checks that need no comparison.

    Returns:
        The findings, failures first, else in the order accelerators, host, disks, network ports, and what
            could not be read; empty if nothing is wrong.
    """
    found = [
        *_accelerator_count(inventory, golden),
        *_cards(inventory, golden),
        *_host(inventory, golden),
        *_disks(inventory, golden),
        *_nics(inventory, golden),
        *_unreadable(inventory, golden),
    ]
    return sorted(found, key=lambda finding: finding.severity != "FAIL")


def unavailable_vendors(inventory: Inventory) -> set[str]:
    """Return the vendors whose library did not count all cards: the state of missing cards is unknown."""
    return {
        vendor
        for vendor, begins in _LIBRARIES.items()
        if any(note.startswith(begins) for note in inventory.unreadable)
    }


def _accelerator_count(inventory: Inventory, golden: Inventory | None) -> Iterator[GateFinding]:
    found = len(inventory.accelerators)
    known = {card.pci for card in inventory.accelerators}
    silent = [address for address in inventory.on_bus or () if address not in known]
    if golden is not None and found < len(golden.accelerators):
        missing = [card.pci or f"number {card.index}" for card in golden.accelerators]
        missing = [slot for slot in missing if slot not in known]
        # A failed library proves nothing about cards that the bus still shows, or without a visible bus.
        gone = inventory.on_bus is not None and len(silent) < len(golden.accelerators) - found
        unknown = bool(unavailable_vendors(inventory)) and not gone
        withheld = found + len(_withheld(inventory)) >= len(golden.accelerators)
        yield GateFinding(
            what="number of accelerators",
            slot=", ".join(missing) if len(missing) == len(golden.accelerators) - found else "",
            expected=str(len(golden.accelerators)),
            found=f"{found}"
            + (" (the bus shows it, its driver does not)" if {*missing} & {*silent} else ""),
            severity="INCONCLUSIVE" if unknown or withheld else "FAIL",
            component="accelerator",
            action=_ASK_FOR_ALL.format(count=len(golden.accelerators))
            if withheld
            else "find out why the driver's library does not answer, then test again"
            if unknown
            else "look for the card's last words in the kernel log, reseat or replace it",
        )
    elif golden is not None and found > len(golden.accelerators):
        yield GateFinding(
            what="number of accelerators",
            expected=str(len(golden.accelerators)),
            found=str(found),
            severity="INCONCLUSIVE",
            component="accelerator",
            action="learn a baseline for this configuration",
        )
    elif silent:
        # A container also shows cards that belong to others: a note, if it did so during learning as well.
        usual = 0 if golden is None else len(golden.on_bus or ()) - len(golden.accelerators)
        yield GateFinding(
            what="accelerator",
            slot=", ".join(silent),
            expected="one that its driver answers for",
            found="on the PCI bus only",
            severity="NOTE" if len(silent) <= usual else "INCONCLUSIVE",
            component="accelerator",
            action="load the driver, or hide from this container what is not its own",
        )


def _cards(inventory: Inventory, golden: Inventory | None) -> Iterator[GateFinding]:
    """Yield findings about all accelerators, compared with the golden cards by slot, else by number."""
    golden_cards = () if golden is None else golden.accelerators
    slots = {card.pci for card in inventory.accelerators}
    by_slot = any(card.pci in slots for card in golden_cards if card.pci)

    def key(card: Accelerator) -> str | int:
        return card.pci if by_slot and card.pci else card.index

    expected = {key(card): card for card in golden_cards}
    alone = len(inventory.accelerators) == 1
    for card in inventory.accelerators:
        yield from card_findings(card, expected.get(key(card)), alone=alone)


def _host(inventory: Inventory, golden: Inventory | None) -> Iterator[GateFinding]:
    memory = inventory.memory
    swap = "replace the memory module that the kernel log names"
    for what, count, limit in (
        ("number of corrected errors", memory.corrected, MAX_CORRECTED),
        ("number of uncorrected errors", memory.uncorrected, MAX_UNCORRECTED),
    ):
        yield from at_most(what, "main memory", limit, count, "memory", swap)
    if golden is None:
        return
    # A virtual machine's memory may be changed by its hypervisor; its firmware and microcode are the host's.
    virtual = inventory.system.virtual
    movable: Severity = "NOTE" if virtual else "FAIL"
    yield from _main_memory(memory.total, golden.memory.total, movable)
    cpu, like = inventory.processor, golden.processor
    pairs: tuple[tuple[str, Value, Value, Severity], ...] = (
        ("number of CPU sockets", like.sockets, cpu.sockets, "FAIL"),
        ("number of CPU cores", like.cores, cpu.cores, "FAIL"),
        ("number of CPU threads", like.threads, cpu.threads, "FAIL"),
        ("number of NUMA nodes", like.numa_nodes, cpu.numa_nodes, "FAIL"),
        ("CPU microcode", like.microcode, cpu.microcode, "NOTE" if virtual else "INCONCLUSIVE"),
        ("CPU frequency governor", like.governor, cpu.governor, "INCONCLUSIVE"),
        ("BIOS version", golden.system.bios, inventory.system.bios, movable),
    )
    for what, expected, found, severity in pairs:
        yield from equal(what, "", expected, found, severity, "host")


def _main_memory(
    found: int | None, expected: int | None, severity: Severity
) -> Iterator[GateFinding]:
    if expected and found is None:
        yield no_reading("main memory", "", gib(expected), "memory")
    elif expected and found is not None and found < MEMORY_SHARE * expected:
        yield GateFinding(
            what="main memory",
            expected=gib(expected),
            found=gib(found),
            severity=severity,
            component="memory",
            action="look for a memory module that is missing or switched off"
            if severity == "FAIL"
            else "compare what the hypervisor gives to this machine",
        )


def _disks(inventory: Inventory, golden: Inventory | None) -> Iterator[GateFinding]:
    for disk in inventory.disks:
        for what, limit, count in (
            ("used endurance (percent)", MAX_WEAR, disk.wear),
            ("number of media errors", MAX_MEDIA_ERRORS, disk.media_errors),
        ):
            yield from at_most(what, f"disk {disk.name}", limit, count, "disk", "replace the disk")
    if golden is None:
        return
    present = Counter((disk.model, disk.size) for disk in inventory.disks)
    for (model, size), count in Counter((d.model, d.size) for d in golden.disks).items():
        if present[model, size] < count:
            name = f"{model or 'disk'}, {(size or 0) / 1e9:.0f} GB"
            yield GateFinding(
                what=f"number of disks of the kind {name}",
                expected=str(count),
                found=str(present[model, size]),
                # Without any disk at all they are probably invisible from here, as in a container.
                severity="FAIL" if inventory.disks else "INCONCLUSIVE",
                component="disk",
                action="look for a disk that is missing or did not start",
            )
    usual = {(disk.model, disk.size): disk for disk in golden.disks}
    for disk in inventory.disks:
        like = usual.get((disk.model, disk.size))
        if like is not None:
            place = f"disk {disk.name}"
            yield from equal("firmware", place, like.firmware, disk.firmware, "FAIL", "disk")
            yield from at_least("PCIe link width", place, like.link_width, disk.link_width, "disk")


def _nics(inventory: Inventory, golden: Inventory | None) -> Iterator[GateFinding]:
    if golden is None:
        return
    present = {nic.name: nic for nic in inventory.nics}
    for like in golden.nics:
        place = f"network port {like.name}"
        nic = present.get(like.name)
        if nic is None:
            yield GateFinding(
                what="port",
                slot=place,
                expected=like.model or "present",
                found="missing",
                severity="FAIL" if inventory.nics else "INCONCLUSIVE",
                component="network",
                action="look for the adapter on the PCI bus, reseat or replace it",
            )
            continue
        state: Severity = "FAIL" if like.state in ("up", "active") else "INCONCLUSIVE"
        yield from equal("link state", place, like.state, nic.state, state, "network", _CABLE)
        if nic.state == like.state:
            yield from at_least(
                "link speed (Gbit/s)", place, like.speed, nic.speed, "network", _CABLE
            )
        flash = f"flash the firmware of the other nodes ({like.firmware})"
        yield from equal("firmware", place, like.firmware, nic.firmware, "FAIL", "network", flash)
        yield from at_least(
            "PCIe link width",
            place,
            like.link_width,
            nic.link_width,
            "network",
            "reseat the adapter, then look at its slot, riser and the BIOS's bifurcation",
        )


def _unreadable(inventory: Inventory, golden: Inventory | None) -> Iterator[GateFinding]:
    lost = [note for note in inventory.unreadable if _is_lost_card(note)]
    yield from _lost_cards(inventory, lost)
    withheld = _withheld(inventory)
    if withheld:
        one, found = len(withheld) == 1, len(inventory.accelerators)
        whole = golden is not None and found >= len(golden.accelerators)
        yield GateFinding(
            what="card" if one else "each of these cards",
            slot=", ".join(note.partition(":")[0] for note in withheld),
            expected="one that this process may use",
            found=f"withheld from this process: no permission {_REFUSED}",
            severity="NOTE" if whole else "INCONCLUSIVE",
            component="accelerator",
            action=_ASK_FOR_ALL.format(count=found + len(withheld)),
        )
    reported = (*lost, *withheld)
    parts = [
        ("", tuple(note for note in inventory.unreadable if note not in reported)),
        ("system", inventory.system.unreadable),
        ("CPU", inventory.processor.unreadable),
        ("main memory", inventory.memory.unreadable),
        *((f"disk {disk.name}", disk.unreadable) for disk in inventory.disks),
        *((f"network port {nic.name}", nic.unreadable) for nic in inventory.nics),
    ]
    for card in inventory.accelerators:
        silent = [note for note in card.unreadable if note.startswith(f"{SILENT}: ")]
        yield from _silent_card(card, silent)
        others = [note for note in card.unreadable if note not in silent]
        for finding in _failed_sensors(card_place(card), others):
            yield replace(finding, action=with_serial(card, finding.action))
    for place, notes in parts:
        yield from _failed_sensors(place, notes)


def _is_lost_card(note: str) -> bool:
    name, _, reason = note.partition(": ")
    return name.startswith("GPU ") and any(mark in reason for mark in _LOST)


def _withheld(inventory: Inventory) -> list[str]:
    """Return the notes about cards that the driver counts and this process may not use: another job's."""
    return [n for n in inventory.unreadable if n.startswith("GPU ") and n.endswith(_REFUSED)]


def _lost_cards(inventory: Inventory, lost: Sequence[str]) -> Iterator[GateFinding]:
    """Yield findings about cards that the driver counts and that are lost or need a reset."""
    known = {card.pci for card in inventory.accelerators}
    silent = sorted(address for address in inventory.on_bus or () if address not in known)
    places = silent if len(silent) == len(lost) else [""] * len(lost)
    for note, address in zip(lost, places, strict=True):
        name, _, reason = note.partition(": ")
        needs_reset = _NEEDS_RESET in reason
        yield GateFinding(
            what="card",
            slot=name + (f" ({address})" if address else ""),
            expected="one that answers",
            found=f"{'needs a reset' if needs_reset else 'lost'}: {reason}",
            severity="FAIL",
            component="accelerator",
            action=_RESET if needs_reset else POWER_CYCLE,
        )


def _silent_card(card: Accelerator, notes: Sequence[str]) -> Iterator[GateFinding]:
    """Yield a finding about a card that hangs its driver, but none about the cards not read because of it."""
    for note in notes:
        reason = note.partition(": ")[2]
        if reason.startswith(NOT_ASKED):
            continue
        action = f"{_RESET}; should it hang again, replace the card"
        yield GateFinding(
            what="card",
            slot=card_place(card),
            expected="one that answers",
            found=f"silent: it {reason}",
            severity="INCONCLUSIVE",
            kind=FindingKind.NO_ANSWER,
            component="accelerator",
            action=with_serial(card, action),
        )


def _failed_sensors(place: str, notes: Sequence[str]) -> Iterator[GateFinding]:
    """Yield one finding for each reason, with all sensors of a part that failed for it."""
    sensors: dict[str, list[str]] = {}
    for note in notes:
        sensor, _, reason = note.partition(": ")
        if sensor not in _IDENTITIES:
            sensors.setdefault(reason, []).append(sensor)
    for reason, names in sensors.items():
        lost = any(mark in reason for mark in _LOST)
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        yield GateFinding(
            what=f"sensor {shown}" if len(names) == 1 else f"each of the sensors {shown}",
            slot=place,
            expected="readable",
            found=f"unreadable: {reason}",
            severity="FAIL" if lost else "INCONCLUSIVE",
            component="accelerator" if lost or place.startswith("GPU") else "host",
            action="reset or replace the card" if lost else "find out why the sensor fails",
            kind=FindingKind.NO_ANSWER if reason.startswith(NO_ANSWER) else FindingKind.OTHER,
        )
