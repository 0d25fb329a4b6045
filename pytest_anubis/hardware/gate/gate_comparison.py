"""The gate at the end of a run: what the hardware says now, against what it said at the start.

Errors that come and go within a run that passed are found here: memory errors that were corrected by nobody,
rows that were replaced, links that lost lanes, cards that are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pytest_anubis.core.inventory import REDACTED, Accelerator, GateFinding, Inventory
from pytest_anubis.hardware.amd_errors import XGMI
from pytest_anubis.hardware.gate.card_checks import (
    REPLACE,
    RESEAT,
    RESET,
    card_place,
    with_serial,
)
from pytest_anubis.hardware.gate.inventory_gate import (
    GateLimits,
    check_inventory,
    unavailable_vendors,
)
from pytest_anubis.hardware.gate.single_checks import Severity, Value, words

REPLAYS_PER_MINUTE = 8
"""PCIe packets sent again a minute on a link that is well: NVIDIA's DCGM warns above it."""

OF_THE_MOMENT = ("clock",)
"""What a card that was busy a moment ago says otherwise than one at rest, as which it is compared."""

# Counters that only grow while the driver is loaded: field, what grew, how bad, component, next step.
_GROWN: tuple[tuple[str, str, Severity, str, str], ...] = (
    ("remapped_uncorrected", "number of rows remapped after uncorrected errors", "FAIL",
     "accelerator.memory", RESET),
    ("retired_pages", "number of retired pages", "INCONCLUSIVE", "accelerator.memory", RESET),
    ("nvlink_errors", "number of NVLink recoveries", "INCONCLUSIVE", "accelerator.link",
     "test again; should it happen again, " + RESEAT),
    ("remapped_corrected", "number of rows remapped after corrected errors", "NOTE",
     "accelerator.memory", ""),
)  # fmt: skip

# Counters of a card's whole life.
_OF_A_LIFE = (
    ("ecc_uncorrected_lifetime", "number of uncorrected ECC errors of its life"),
    ("remapped_uncorrected", "number of rows remapped after uncorrected errors"),
)

# Errors that a card counts block by block (AMD): kind, how bad, next step.
_OF_BLOCKS: tuple[tuple[str, Severity, str], ...] = (
    ("uncorrected", "FAIL", RESET),
    ("deferred", "INCONCLUSIVE", RESET),
    ("corrected", "NOTE", ""),
)

# What must not become less: field, what shrank, component, next step.
_SHRUNK = (
    ("link_width", "PCIe link width", "accelerator.pcie", RESEAT),
    ("nvlinks_active", "number of NVLinks that are up", "accelerator.link", RESEAT),
    ("nvlink_speed", "speed of the slowest NVLink (MB/s)", "accelerator.link", RESEAT),
)

# What somebody changed while it was measured: the measurements before and after are not one run.
_CHANGED = (
    ("ecc", "error correction (ECC)"),
    ("mig", "partitioning (MIG)"),
    ("power_limit", "power limit (W)"),
    ("compute_mode", "compute mode"),
)


def check_again(
    before: Inventory,
    after: Inventory,
    golden: Inventory | None = None,
    limits: GateLimits | None = None,
) -> list[GateFinding]:
    """Return what the gate finds at the end of a run and did not find at its start.

    Args:
        before: The node when the run began.
        after: The node now, read anew.
        golden: What the class's nodes have, as at the start.
        limits: Limits of the counters, as at the start.

    Returns:
        The findings, failures first; empty when nothing happened.
    """
    happened = compare(before, after)
    told = {(finding.slot, finding.what) for finding in happened}
    known = set(check_inventory(before, golden, limits))
    now = [
        finding
        for finding in check_inventory(after, golden, limits)
        if finding not in known
        and (finding.slot, finding.what) not in told
        and finding.what not in OF_THE_MOMENT
    ]
    return sorted([*happened, *now], key=lambda finding: finding.severity != "FAIL")


def compare(before: Inventory, after: Inventory) -> list[GateFinding]:
    """Return what happened to the node's accelerators between two readings.

    Cards are matched by slot, else by unique id, else by number. Memory errors are told by the counters of
    the card's whole life as well: those since the driver was loaded vanish when it is unloaded.

    Args:
        before: The earlier reading.
        after: The later one.

    Returns:
        The findings, failures first. Uncorrected errors, failed replacements of rows, the vendor's limit
        for the caches, lost lanes, links and cards are FAIL; what waits for a reset is INCONCLUSIVE. Nothing
        is said of cards that the later reading does not have because their vendor's library failed: the
        gate tells that. But for those that have left the bus as well, they are lost.
    """
    found: list[GateFinding] = []
    now = {_key(card): card for card in after.accelerators}
    minutes, silent = _minutes(before, after), unavailable_vendors(after)
    for card in before.accelerators:
        later = now.get(_key(card))
        if later is not None:
            found += _happened(card, later, minutes)
        elif card.vendor not in silent or _left_the_bus(card, before, after):
            found.append(_lost(card))
    return sorted(found, key=lambda finding: finding.severity != "FAIL")


def since(earlier: Inventory, now: Inventory) -> list[GateFinding]:
    """Return which errors cards had between two runs: notes, since what they need is told by other counters.

    A driver that was unloaded in between has forgotten them, the card has not.

    Args:
        earlier: The node when it was looked at before.
        now: The node now.
    """
    cards = {_key(card): card for card in earlier.accelerators}
    found = []
    for card in now.accelerators:
        before = cards.get(_key(card))
        if before is None or not _same_board(before, card):
            continue
        for field, what in _OF_A_LIFE:
            grown = _grown(before, card, field)
            if grown > 0:
                finding = GateFinding(
                    what=what,
                    slot=card_place(card),
                    expected="no new one",
                    found=f"{grown} more than on {earlier.taken[:10] or 'the last day'}",
                    severity="NOTE",
                    component="accelerator.memory",
                    action=with_serial(card, "watch the card"),
                )
                found.append(finding)
    return found


def _same_board(one: Accelerator, other: Accelerator) -> bool:
    """Return whether two cards of a slot are one; without or with hidden numbers they are taken for one."""
    pairs = ((one.uuid, other.uuid), (one.serial, other.serial))
    return all(a == b or a is None or b is None or REDACTED in (a, b) for a, b in pairs)


def _key(card: Accelerator) -> tuple[str, str]:
    return card.vendor, card.pci or card.uuid or str(card.index)


def _minutes(before: Inventory, after: Inventory) -> float | None:
    """Return the time between two readings, None where it is not known."""
    try:
        between = datetime.fromisoformat(after.taken) - datetime.fromisoformat(before.taken)
    except (ValueError, TypeError):  # a made-up inventory has no time, or one without a zone
        return None
    return between.total_seconds() / 60


def _left_the_bus(card: Accelerator, before: Inventory, after: Inventory) -> bool:
    was, now = before.on_bus, after.on_bus
    return was is not None and now is not None and card.pci in was and card.pci not in now


def _lost(card: Accelerator) -> GateFinding:
    return GateFinding(
        what="card",
        slot=card_place(card),
        expected="as at the start of the run",
        found="lost",
        severity="FAIL",
        component="accelerator",
        action=with_serial(
            card,
            "look for its last words in the kernel log (XID 79: fell off the bus), power-cycle the node, "
            "then reseat or replace the card",
        ),
    )


def _happened(
    before: Accelerator, after: Accelerator, minutes: float | None
) -> Iterator[GateFinding]:
    def finding(
        what: str, expected: Value, found: Value, how: Severity, component: str, action: str
    ) -> GateFinding:
        return GateFinding(
            what=what,
            slot=card_place(after),
            expected=words(expected),
            found=words(found),
            severity=how,
            component=component,
            action=with_serial(after, action),
        )

    errors = [
        grown
        for field in ("ecc_uncorrected", "ecc_uncorrected_lifetime")
        if (grown := _grown(before, after, field)) > 0
    ]
    memory = "accelerator.memory"
    blocks = list(_grown_blocks(before, after))
    for name, grown, how, component, action in blocks:
        found = f"{grown} more than at the start"
        yield finding(f"number of {name}", "no new one", found, how, component, action)
    # The sum over all blocks says no more than they do, and blames the memory.
    if errors and not any(how == "FAIL" for _, _, how, _, _ in blocks):
        what, found = "number of uncorrected ECC errors", f"{max(errors)} more than at the start"
        yield finding(what, "no new one", found, "FAIL", memory, RESET)
    if after.remap_failed and not before.remap_failed:
        found = "failed during the run: the spare rows are used up"
        yield finding("row remapping", "working", found, "FAIL", memory, REPLACE)
    if after.sram_threshold and not before.sram_threshold:
        found = "exceeded during the run"
        yield finding("the vendor's limit of SRAM errors", "kept", found, "FAIL", memory, REPLACE)
    if after.remap_pending and not before.remap_pending:
        found = "waiting for a reset since this run"
        yield finding("row remapping", "complete", found, "INCONCLUSIVE", memory, RESET)
    for field, what, how, component, action in _GROWN:
        grown = _grown(before, after, field)
        if grown > 0:
            found = f"{grown} more than at the start"
            yield finding(what, "no new one", found, how, component, action)
    replays = _grown(before, after, "pcie_replays")
    if minutes and minutes > 0 and replays > REPLAYS_PER_MINUTE * max(minutes, 1):
        limit, found = f"at most {REPLAYS_PER_MINUTE} a minute", f"{replays / minutes:.0f} a minute"
        yield finding("PCIe replays", limit, found, "INCONCLUSIVE", "accelerator.pcie", RESEAT)
    for field, what, component, action in _SHRUNK:
        was, now = getattr(before, field), getattr(after, field)
        if was is not None and now is not None and now < was:
            yield finding(what, was, now, "FAIL", component, action)
    for field, what in _CHANGED:
        was, now = getattr(before, field), getattr(after, field)
        if was is not None and now is not None and was != now:
            action = "find out who changed it during the run, and test again"
            yield finding(what, was, now, "INCONCLUSIVE", "accelerator", action)


def _grown_blocks(
    before: Accelerator, after: Accelerator
) -> Iterator[tuple[str, int, Severity, str, str]]:
    """Yield which errors a card's blocks had in between: name, how many, how bad, component, next step."""
    for name, now in after.block_errors.items():
        # A driver that was loaded anew in between begins at zero.
        was = before.block_errors.get(name)
        if was is None or now <= was:
            continue
        component = "accelerator.memory" if "ECC" in name else "accelerator"
        component = "accelerator.link" if name.startswith(XGMI) else component
        for kind, how, action in _OF_BLOCKS:
            if kind in name.split():
                yield name, now - was, how, component, action


def _grown(before: Accelerator, after: Accelerator, field: str) -> int:
    """Return by how much a counter grew; a driver that was loaded anew in between begins at zero."""
    was, now = getattr(before, field), getattr(after, field)
    if was is None or now is None:
        return 0
    return int(now - was)
