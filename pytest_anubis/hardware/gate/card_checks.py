"""Check one accelerator: memory errors, readiness, settings, and its link, against limits and a golden card.

`inventory_gate` uses it for each card; `gate_comparison` and `preflight` for words about a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from pytest_anubis.core.inventory import REDACTED, Accelerator, FindingKind, GateFinding
from pytest_anubis.hardware.gate.single_checks import (
    Severity,
    at_least,
    at_most,
    deviation,
    equal,
    gib,
    no_reading,
)
from pytest_anubis.hardware.inventory.nvidia_inventory import SILENT

_CARD = "accelerator"
RESEAT = "reseat the card, then look at its slot, riser and the BIOS's bifurcation"
RESET = "reset the card (with its vendor's tool, or by a reboot), then test again"
REPLACE = "let the vendor's field diagnostic confirm it, then replace the card"
POWER_CYCLE = (
    "look for its last words in the kernel log (XID 79: fell off the bus), power-cycle the node, then reseat "
    "or replace the card"
)
_FLASH = "bring the firmware to the version of the other nodes"
_SMALL = "test again after a cold start; should it stay so, replace the card"

BROKEN_FABRIC = ("degraded bandwidth", "unhealthy route")
"""Phrases in a fabric's health that mean lost links; all others mean that a recovery is in progress."""

UNDER_WAY = ("not started", "in progress")
"""States of a fabric in which a node's only card, as in a virtual machine, may still work. If it does not,
CUDA reports error 802, and the affected tests are INCONCLUSIVE."""

# Field, its usual name, component, next step.
_EQUAL = (
    ("name", "model", "accelerator", "check which card was built in"),
    ("vbios", "VBIOS version", "accelerator", _FLASH),
    ("firmware", "firmware version", "accelerator", _FLASH),
    ("nvlinks", "number of NVLinks", "accelerator.link", "reseat the card and its bridges"),
)
_AT_LEAST = (
    ("nvlinks_active", "number of NVLinks that are up", "accelerator.link", "reseat the card"),
    ("nvlink_speed", "speed of the slowest NVLink (MB/s)", "accelerator.link", "reseat the card"),
)

# Settings, which an administrator can change with one command and so are no fault of the card.
# Field, its usual name.
_SETTINGS = (
    ("ecc", "error correction (ECC)"),
    ("power_limit", "power limit (W)"),
    ("sm_clock_max", "highest clock (MHz)"),
    ("memory_clock_max", "highest memory clock (MHz)"),
)
_COMMANDS = {
    ("nvidia", "ecc"): "nvidia-smi -i {index} -e {value:d}, then a reset or reboot",
    ("nvidia", "power_limit"): "nvidia-smi -i {index} -pl {value:g}",
    ("nvidia", "sm_clock_max"): "nvidia-smi -i {index} -rgc",
    ("nvidia", "memory_clock_max"): "nvidia-smi -i {index} -rmc",
    ("amd", "power_limit"): "amd-smi set --gpu {index} --power-cap {value:g}",
    ("amd", "sm_clock_max"): "amd-smi reset --gpu {index} --clocks",
    ("amd", "memory_clock_max"): "amd-smi reset --gpu {index} --clocks",
}


MAX_CORRECTED = 1000
"""Corrected memory errors since the driver was loaded. They are harmless, but more get a note."""

MAX_RETIRED_PAGES = 60
"""Retired pages on older cards, which can retire 64 in all."""

MEMORY_SHARE = 0.99
"""Minimum share of the expected device memory; drivers reserve different amounts."""


Compared = tuple[str, Iterable[GateFinding]]
"""A field that was compared with the golden card's, and the findings about it."""


def card_place(card: Accelerator) -> str:
    """Return a card's number and slot, by which people find it."""
    return f"GPU {card.index}" + (f" ({card.pci})" if card.pci else "")


def with_serial(card: Accelerator, action: str) -> str:
    """Return a next step with the card's serial number, by which it is found and returned."""
    known = action and card.serial and card.serial != REDACTED
    return f"{action} (serial number {card.serial})" if known else action


def card_findings(
    card: Accelerator, golden: Accelerator | None, *, alone: bool = False
) -> Iterator[GateFinding]:
    """Yield the findings about one accelerator.

    Args:
        card: The card.
        golden: The card of its class in that slot; None if unknown.
        alone: The card is the node's only one, so it works without links.
    """
    noted = {note.partition(":")[0] for note in card.unreadable}
    if SILENT in noted:  # nothing else is known about it, and the gate reports that once
        return
    for field, findings in (
        ("", _memory_errors(card)),
        ("", _readiness(card, golden, alone)),
        *_compared(card, golden),
        *_link(card, golden),
    ):
        # The gate itself reports a failed sensor once, with the reason.
        if field not in noted:
            for finding in findings:
                yield replace(finding, action=with_serial(card, finding.action))


def _memory_errors(card: Accelerator) -> Iterator[GateFinding]:
    wrong = partial(deviation, card_place(card), "accelerator.memory")
    if card.remap_failed:
        found = "failed: the spare rows are used up"
        yield wrong("row remapping", "working", found, "FAIL", REPLACE)
    if card.sram_threshold:
        yield wrong("the vendor's limit of SRAM errors", "kept", "exceeded", "FAIL", REPLACE)
    if card.spares_none and not card.remap_failed:
        # The next uncorrected error there may not be remapped. Stricter than NVIDIA's policy (GPU Memory
        # Error Management, "RMA Policy"): a card is replaced for a failed remapping or too many SRAM errors.
        what = "number of memory banks without spare rows"
        yield wrong(what, "0", card.spares_none, "FAIL", REPLACE)
    elif card.spares_low:
        what = "number of memory banks with few spare rows"
        yield wrong(what, "0", card.spares_low, "NOTE", "watch it")
    if card.remap_pending:
        yield wrong("row remapping", "complete", "waiting for a reset", "INCONCLUSIVE", RESET)
    elif card.ecc_uncorrected:
        found = f"{card.ecc_uncorrected} since the driver was loaded"
        yield wrong("number of uncorrected ECC errors", "0", found, "INCONCLUSIVE", RESET)
    if (card.ecc_corrected or 0) > MAX_CORRECTED:
        what, expected = "number of corrected ECC errors", f"at most {MAX_CORRECTED}"
        yield wrong(what, expected, card.ecc_corrected, "NOTE", "watch it")
    yield from at_most(
        "number of retired pages",
        card_place(card),
        MAX_RETIRED_PAGES,
        card.retired_pages if card.vendor == "nvidia" else None,  # AMD's cards can retire more
        "accelerator.memory",
        REPLACE,
    )


def _readiness(card: Accelerator, golden: Accelerator | None, alone: bool) -> Iterator[GateFinding]:
    """Yield settings, services and pending actions that prevent a test of the card."""
    place = card_place(card)
    wrong = partial(deviation, place, "accelerator")
    gpu = f"nvidia-smi -i {card.index}"
    unlinked = (
        alone and not card.nvlinks_active
    )  # as a single card that a hypervisor passes through
    split = golden is not None and golden.mig
    if card.mig and card.vendor == "nvidia":
        action = (
            f"switch it off ({gpu} -mig 0): whole cards are tested, and CUDA shows one slice only"
        )
        yield wrong("partitioning (MIG)", "off", "on", "INCONCLUSIVE", action)
    elif card.mig is not None and golden is not None and card.mig != bool(split):
        action = "switch partitioning as on the other nodes"
        yield wrong("partitioning", bool(split), card.mig, "INCONCLUSIVE", action)
    if card.compute_mode == "prohibited":
        action = f"allow programs on it ({gpu} -c DEFAULT)"
        found = "prohibited: no program may use the card"
        yield wrong("compute mode", "default", found, "INCONCLUSIVE", action)
    if card.recovery_action not in (None, "none"):
        found = f"waiting: {card.recovery_action}"
        action = f"{card.recovery_action}, then test again; the kernel log says why (XIDs)"
        yield wrong("recovery that the driver asks for", "none", found, "INCONCLUSIVE", action)
    usual = golden.clock_limited if golden is not None else None
    if card.clock_limited and not usual:
        # Older cards may report this with their factory clocks. Without a golden card, which was read at rest
        # like this one, it is therefore only a note.
        found = "held down by a setting (locked or application clocks)"
        action = f"give it free ({gpu} -rgc and {gpu} -rac)"
        limited: Severity = "NOTE" if usual is None else "INCONCLUSIVE"
        yield wrong("clock", "free", found, limited, action, FindingKind.LOAD_DEPENDENT)
    if card.fabric not in (None, "completed"):
        action = (
            "start the fabric manager of the driver's own version (systemctl start "
            "nvidia-fabricmanager) and wait until 'nvidia-smi -q' shows the fabric completed; else its log "
            "says why"
        )
        waits = unlinked or (alone and card.fabric in UNDER_WAY)
        blocks: Severity = "NOTE" if waits else "INCONCLUSIVE"
        link = "accelerator.link"
        yield deviation(place, link, "NVSwitch fabric", "completed", card.fabric, blocks, action)
    elif card.fabric_health not in (None, "healthy"):
        broken = any(fault in str(card.fabric_health) for fault in BROKEN_FABRIC)
        how: Severity = "NOTE" if unlinked else "FAIL" if broken else "INCONCLUSIVE"
        action = "look at the fabric manager's log and the SXids of the kernel log"
        what, link = "NVSwitch fabric's health", "accelerator.link"
        yield deviation(place, link, what, "healthy", card.fabric_health, how, action)
    if card.persistence is False:
        action = "switch it on (nvidia-persistenced, or nvidia-smi -pm 1)"
        found = "off: error counts vanish with the last program, and every first call is slow"
        yield wrong("driver persistence", "on", found, "NOTE", action)


def _compared(card: Accelerator, golden: Accelerator | None) -> Iterator[Compared]:
    if golden is None:
        return
    place = card_place(card)
    for field, what, component, action in _EQUAL:
        pair = getattr(golden, field), getattr(card, field)
        yield field, equal(what, place, *pair, "FAIL", component, action)
    for field, what, component, action in _AT_LEAST:
        values = getattr(golden, field), getattr(card, field)
        yield field, at_least(what, place, *values, component, action)
    for field, what in _SETTINGS:
        wanted, found = getattr(golden, field), getattr(card, field)
        command = _COMMANDS.get((card.vendor.lower(), field), "")
        hint = (
            f" ({command.format(index=card.index, value=wanted)})"
            if command and wanted is not None
            else ""
        )
        action = f"set it as on the other nodes{hint}, then test again"
        if field == "ecc":
            memory = f"{_CARD}.memory"
            yield field, equal(what, place, wanted, found, "INCONCLUSIVE", memory, action)
        else:
            lower = partial(at_least, severity="INCONCLUSIVE")
            yield field, lower(what, place, wanted, found, _CARD, action)
    yield "memory", _memory(card, golden)


def _memory(card: Accelerator, golden: Accelerator) -> Iterator[GateFinding]:
    if golden.memory is None:
        return
    place = card_place(card)
    if card.memory is None:
        yield no_reading("memory", place, gib(golden.memory), "accelerator.memory")
    elif card.memory < MEMORY_SHARE * golden.memory:
        sizes = gib(golden.memory), gib(card.memory)
        yield deviation(place, "accelerator.memory", "memory", *sizes, "FAIL", _SMALL)


def _link(card: Accelerator, golden: Accelerator | None) -> Iterator[Compared]:
    """Yield findings about the PCIe link, without the lower speed to which an idle card switches."""
    place, component = card_place(card), "accelerator.pcie"
    width, what = card.link_width, "PCIe link width"
    if golden is not None and golden.link_width is not None:
        yield "link_width", at_least(what, place, golden.link_width, width, component, RESEAT)
    elif width and card.link_width_max and width < card.link_width_max:
        # The slot may be narrow by design, which only a golden inventory could show.
        wrong = partial(deviation, place, component, what)
        expected = f"{card.link_width_max}, which card and slot can do"
        yield "link_width", [wrong(expected, width, "INCONCLUSIVE", RESEAT)]
    if golden is None:
        return
    possible = golden.link_generation_max, card.link_generation_max
    highest = at_least("highest PCIe generation", place, *possible, component, RESEAT)
    yield "link_generation_max", highest
    if card.performance_state == 0:  # the card runs at full speed, so the link should as well
        # In a virtual machine the library does not see a slot that is slower than the card.
        limits = golden.link_generation, *possible
        now = min((g for g in limits if g is not None), default=None), card.link_generation
        yield "link_generation", at_least("PCIe generation", place, *now, component, RESEAT)
