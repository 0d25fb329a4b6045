"""Compare a node's inventory with an earlier one: that of the run's start, or of the node's previous run.

`Gate` calls `since` at a run's start, which only notes errors since the previous run, and `check_again` at
its end, which finds faults during a run that otherwise passes: uncorrected memory errors, replaced rows, lost
lanes of links, lost cards. Checking a seal repeats `check_again`. `gate_plugin` and `sealed_evidence` use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from pytest_anubis.core.inventory import REDACTED, Accelerator, FindingKind, GateFinding, Inventory
from pytest_anubis.hardware.amd_errors import XGMI
from pytest_anubis.hardware.gate.card_checks import (
    POWER_CYCLE,
    REPLACE,
    RESEAT,
    RESET,
    card_place,
    with_serial,
)
from pytest_anubis.hardware.gate.inventory_gate import check_inventory, unavailable_vendors
from pytest_anubis.hardware.gate.single_checks import Severity, Value, deviation

REPLAYS_PER_MINUTE = 8
"""Maximum PCIe packets sent again per minute on a healthy link: NVIDIA's DCGM warns above it."""

JUDGED_BY_RATE = ("number of NVLink recoveries",)
"""Findings at a run's end that get no verdict of `Gate`, since `HardwareWatch` judges these errors' rate."""

# Counters that only grow while a run lasts: field, its name, severity, component, next step.
_GROWN: tuple[tuple[str, str, Severity, str, str], ...] = (
    ("remapped_uncorrected", "number of rows remapped after uncorrected errors", "FAIL",
     "accelerator.memory", RESET),
    ("retired_pages", "number of retired pages", "INCONCLUSIVE", "accelerator.memory", RESET),
    ("nvlink_errors", "number of NVLink recoveries", "INCONCLUSIVE", "accelerator.link",
     "test again; should it happen again, " + RESEAT),
    ("remapped_corrected", "number of rows remapped after corrected errors", "NOTE",
     "accelerator.memory", ""),
)  # fmt: skip

# Counters that also survive unloading the driver: field, its name.
_LIFETIME = (
    ("ecc_uncorrected_lifetime", "number of uncorrected ECC errors of its life"),
    ("remapped_uncorrected", "number of rows remapped after uncorrected errors"),
)

# Errors that a card counts for each block (AMD): kind, severity, next step.
_BLOCK_ERRORS: tuple[tuple[str, Severity, str], ...] = (
    ("uncorrected", "FAIL", RESET),
    ("deferred", "INCONCLUSIVE", RESET),
    ("corrected", "NOTE", ""),
)

# Values that must not decrease: field, its name, component, next step.
_SHRUNK = (
    ("link_width", "PCIe link width", "accelerator.pcie", RESEAT),
    ("nvlinks_active", "number of NVLinks that are up", "accelerator.link", RESEAT),
    ("nvlink_speed", "speed of the slowest NVLink (MB/s)", "accelerator.link", RESEAT),
)

# Settings that must not change during a run: the values before and after would not be comparable.
_CHANGED = (
    ("ecc", "error correction (ECC)"),
    ("mig", "partitioning (MIG)"),
    ("power_limit", "power limit (W)"),
    ("compute_mode", "compute mode"),
)


def check_again(
    before: Inventory, after: Inventory, golden: Inventory | None = None
) -> list[GateFinding]:
    """Return the gate's findings at the end of a run that are new since its start.

    Args:
        before: The node when the run began.
        after: The node now, read anew.
        golden: The golden inventory used at the start.

    Returns:
        The findings, failures first.
    """
    changes = compare(before, after)
    reported = {(finding.slot, finding.what) for finding in changes}
    known = set(check_inventory(before, golden))
    new = [
        finding
        for finding in check_inventory(after, golden)
        if finding not in known
        and (finding.slot, finding.what) not in reported
        and finding.kind is not FindingKind.LOAD_DEPENDENT
    ]
    return sorted([*changes, *new], key=lambda finding: finding.severity != "FAIL")


def compare(before: Inventory, after: Inventory) -> list[GateFinding]:
    """Return the changes of the node's accelerators between two readings.

    Cards are matched by slot, else by unique id, else by number. Memory errors are also read from the card's
    lifetime counters, because the driver's counters are lost when it is unloaded.

    Args:
        before: The earlier reading.
        after: The later reading.

    Returns:
        The findings, failures first. Uncorrected errors, failed row remappings, an exceeded limit of SRAM
        errors, and lost lanes, links and cards are FAIL; changes that need a reset are INCONCLUSIVE. Cards
        that are missing because their vendor's library failed are left to the gate, unless they have left the
        bus as well, which makes them lost.
    """
    found: list[GateFinding] = []
    now = {_key(card): card for card in after.accelerators}
    minutes = _minutes(before, after)
    silent = unavailable_vendors(after)
    for card in before.accelerators:
        later = now.get(_key(card))
        if later is not None:
            found += _changes(card, later, minutes)
        elif card.vendor not in silent or _left_the_bus(card, before, after):
            found.append(_lost(card))
    return sorted(found, key=lambda finding: finding.severity != "FAIL")


def since(earlier: Inventory, now: Inventory) -> list[GateFinding]:
    """Return notes about errors of cards between two runs; other counters decide what a card needs.

    They are read from the card's lifetime counters, which survive unloading the driver.

    Args:
        earlier: The node at its previous reading.
        now: The node now.
    """
    cards = {_key(card): card for card in earlier.accelerators}
    found = []
    for card in now.accelerators:
        before = cards.get(_key(card))
        if before is None or not _same_board(before, card):
            continue
        for field, what in _LIFETIME:
            grown = _grown(before, card, field)
            if grown > 0:
                slot, action = card_place(card), with_serial(card, "watch the card")
                more = f"{grown} more than on {earlier.taken[:10] or 'the last day'}"
                memory = "accelerator.memory"
                found.append(deviation(slot, memory, what, "no new one", more, "NOTE", action))
    return found


def gone_since(earlier: Inventory, now: Inventory) -> list[GateFinding]:
    """Return the cards that a machine had and that have left its bus: it is no sound smaller node.

    Args:
        earlier: The node at an earlier reading.
        now: The node now.
    """
    if len(now.accelerators) >= len(earlier.accelerators):
        return []
    here = {card.uuid for card in now.accelerators} - {None, REDACTED}
    return [
        replace(_lost(card), expected=f"as on {earlier.taken[:10] or 'an earlier day'}")
        for card in earlier.accelerators
        if card.uuid not in here and _left_the_bus(card, earlier, now)
    ]


def _same_board(one: Accelerator, other: Accelerator) -> bool:
    """Return whether a slot still has the same card; missing or redacted numbers count as equal."""
    pairs = ((one.uuid, other.uuid), (one.serial, other.serial))
    return all(a == b or a is None or b is None or REDACTED in (a, b) for a, b in pairs)


def _key(card: Accelerator) -> tuple[str, str]:
    return card.vendor, card.pci or card.uuid or str(card.index)


def _minutes(before: Inventory, after: Inventory) -> float | None:
    """Return the minutes between two readings, None if unknown."""
    try:
        between = datetime.fromisoformat(after.taken) - datetime.fromisoformat(before.taken)
    except (ValueError, TypeError):  # a made-up inventory has no time, or none with a time zone
        return None
    return between.total_seconds() / 60


def _left_the_bus(card: Accelerator, before: Inventory, after: Inventory) -> bool:
    if before.on_bus is None or after.on_bus is None:
        return False
    return card.pci in before.on_bus and card.pci not in after.on_bus


def _lost(card: Accelerator) -> GateFinding:
    expected, said = "as at the start of the run", with_serial(card, POWER_CYCLE)
    return deviation(card_place(card), "accelerator", "card", expected, "lost", "FAIL", said)


def _changes(
    before: Accelerator, after: Accelerator, minutes: float | None
) -> Iterator[GateFinding]:
    """Yield findings about one card that both readings have."""

    def wrong(
        what: str, expected: Value, found: Value, how: Severity, component: str, action: str
    ) -> GateFinding:
        said = with_serial(after, action)
        return deviation(card_place(after), component, what, expected, found, how, said)

    errors = [
        grown
        for field in ("ecc_uncorrected", "ecc_uncorrected_lifetime")
        if (grown := _grown(before, after, field)) > 0
    ]
    memory = "accelerator.memory"
    blocks = list(_grown_blocks(before, after))
    for name, grown, how, component, action in blocks:
        found = f"{grown} more than at the start"
        yield wrong(f"number of {name}", "no new one", found, how, component, action)
    # Skipped if a block names the errors: the sum over all blocks would attribute them to the memory.
    if errors and not any(how == "FAIL" for _, _, how, _, _ in blocks):
        found = f"{max(errors)} more than at the start"
        yield wrong("number of uncorrected ECC errors", "no new one", found, "FAIL", memory, RESET)
    if after.remap_failed and not before.remap_failed:
        found = "failed during the run: the spare rows are used up"
        yield wrong("row remapping", "working", found, "FAIL", memory, REPLACE)
    if after.sram_threshold and not before.sram_threshold:
        found = "exceeded during the run"
        yield wrong("the vendor's limit of SRAM errors", "kept", found, "FAIL", memory, REPLACE)
    if after.remap_pending and not before.remap_pending:
        found = "waiting for a reset since this run"
        yield wrong("row remapping", "complete", found, "INCONCLUSIVE", memory, RESET)
    for field, what, how, component, action in _GROWN:
        grown = _grown(before, after, field)
        if grown > 0:
            found = f"{grown} more than at the start"
            yield wrong(what, "no new one", found, how, component, action)
    replays = _grown(before, after, "pcie_replays")
    if minutes and minutes > 0 and replays > REPLAYS_PER_MINUTE * max(minutes, 1):
        limit = f"at most {REPLAYS_PER_MINUTE} a minute"
        found = f"{replays / minutes:.0f} a minute"
        yield wrong("PCIe replays", limit, found, "INCONCLUSIVE", "accelerator.pcie", RESEAT)
    for field, what, component, action in _SHRUNK:
        was, now = getattr(before, field), getattr(after, field)
        if was is not None and now is not None and now < was:
            yield wrong(what, was, now, "FAIL", component, action)
    for field, what in _CHANGED:
        was, now = getattr(before, field), getattr(after, field)
        if was is not None and now is not None and was != now:
            action = "find out who changed it during the run, and test again"
            yield wrong(what, was, now, "INCONCLUSIVE", "accelerator", action)


def _grown_blocks(
    before: Accelerator, after: Accelerator
) -> Iterator[tuple[str, int, Severity, str, str]]:
    """Yield new errors of a card's blocks: name, number, severity, component, next step."""
    for name, now in after.block_errors.items():
        # A driver that was reloaded in between counts from zero.
        was = before.block_errors.get(name)
        if was is None or now <= was:
            continue
        component = "accelerator.memory" if "ECC" in name else "accelerator"
        component = "accelerator.link" if name.startswith(XGMI) else component
        for kind, how, action in _BLOCK_ERRORS:
            if kind in name.split():
                yield name, now - was, how, component, action


def _grown(before: Accelerator, after: Accelerator, field: str) -> int:
    """Return the increase of a counter, negative if the driver was reloaded; 0 if it is unknown."""
    was, now = getattr(before, field), getattr(after, field)
    if was is None or now is None:
        return 0
    return int(now - was)
