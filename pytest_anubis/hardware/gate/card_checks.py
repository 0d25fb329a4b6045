"""The gate's checks of one accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_anubis.core.inventory import Accelerator, GateFinding
from pytest_anubis.hardware.gate.single_checks import at_least, at_most, equal, gib, no_reading

_RESEAT = "reseat the card, then look at its slot, riser and the BIOS's bifurcation"
_FLASH = "bring the firmware to the version of the other nodes"
_REPLACE = "replace the card"
_LOCKED = "look for a locked clock"

# Field, what people call it, component, next step.
_EQUAL = (
    ("name", "model", "accelerator", "check which card was built in"),
    ("vbios", "VBIOS version", "accelerator", _FLASH),
    ("firmware", "firmware version", "accelerator", _FLASH),
    ("mig", "partitioning (MIG)", "accelerator", "switch partitioning as on the other nodes"),
    ("ecc", "error correction (ECC)", "accelerator.memory", "switch it as on the other nodes"),
    ("nvlinks", "number of NVLinks", "accelerator.link", "reseat the card and its bridges"),
)
_AT_LEAST = (
    ("nvlinks_active", "number of NVLinks that are up", "accelerator.link", "reseat the card"),
    ("power_limit", "power limit (W)", "accelerator", "restore the class's power limit"),
    ("sm_clock_max", "highest clock (MHz)", "accelerator", _LOCKED),
    ("memory_clock_max", "highest memory clock (MHz)", "accelerator", _LOCKED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLimits:
    """Limits of one accelerator's counters; all are inclusive.

    Attributes:
        ecc_uncorrected: Uncorrected memory errors since the driver was loaded. One is data lost.
        ecc_corrected: Corrected memory errors since the driver was loaded: harmless one by one, a flood
            of them announces a failing part.
        remapped: Rows replaced by spares. A healthy card has none or a few; the spares run out.
        retired_pages: Retired pages of older cards; they can retire 64 in all.
        memory_share: Smallest share of the expected device memory; drivers reserve different amounts.
    """

    ecc_uncorrected: int = 0
    ecc_corrected: int = 1000
    remapped: int = 10
    retired_pages: int = 60
    memory_share: float = 0.99


def card_place(card: Accelerator) -> str:
    """Return how people find a card: its number and its slot."""
    return f"GPU {card.index}" + (f" ({card.pci})" if card.pci else "")


def card_findings(
    card: Accelerator, golden: Accelerator | None, limits: CardLimits
) -> Iterator[GateFinding]:
    """Yield what is wrong with one accelerator.

    Args:
        card: The card.
        golden: What its class has in that slot; None when nothing is known.
        limits: Limits of its counters.
    """
    yield from _counters(card, limits)
    noted = {note.partition(":")[0] for note in card.unreadable}
    for field, finding in (
        *_compared(card, golden, limits),
        *_link(card, golden),
    ):
        # A sensor that failed is reported once, with its reason, by the gate itself.
        if field not in noted:
            yield finding


def _limited_pages(card: Accelerator) -> int | None:
    """Return the retired pages of a card that can retire 64 at most: NVIDIA's older ones."""
    return card.retired_pages if card.vendor == "nvidia" else None


def _counters(card: Accelerator, limits: CardLimits) -> Iterator[GateFinding]:
    place = card_place(card)
    rows = [n for n in (card.remapped_corrected, card.remapped_uncorrected) if n is not None]
    for what, limit, found in (
        ("number of uncorrected ECC errors", limits.ecc_uncorrected, card.ecc_uncorrected),
        ("number of corrected ECC errors", limits.ecc_corrected, card.ecc_corrected),
        ("number of remapped rows", limits.remapped, sum(rows) if rows else None),
        ("number of retired pages", limits.retired_pages, _limited_pages(card)),
    ):
        yield from at_most(what, place, limit, found, "accelerator.memory", _REPLACE)
    if card.remap_failed:
        yield GateFinding(
            what="row remapping",
            slot=place,
            expected="working",
            found="failed: the spare rows are used up",
            severity="FAIL",
            component="accelerator.memory",
            action=_REPLACE,
        )
    if card.remap_pending:
        yield GateFinding(
            what="row remapping",
            slot=place,
            expected="complete",
            found="waiting for a reset",
            severity="INCONCLUSIVE",
            component="accelerator.memory",
            action="reset the card and validate again",
        )


def _compared(
    card: Accelerator, golden: Accelerator | None, limits: CardLimits
) -> Iterator[tuple[str, GateFinding]]:
    if golden is None:
        return
    place = card_place(card)
    for field, what, component, action in _EQUAL:
        pair = getattr(golden, field), getattr(card, field)
        for finding in equal(what, place, *pair, "FAIL", component, action):
            yield field, finding
    for field, what, component, action in _AT_LEAST:
        values = getattr(golden, field), getattr(card, field)
        for finding in at_least(what, place, *values, component, action):
            yield field, finding
    yield from (("memory", finding) for finding in _memory(card, golden, limits.memory_share))


def _memory(card: Accelerator, golden: Accelerator, share: float) -> Iterator[GateFinding]:
    if golden.memory is None:
        return
    place = card_place(card)
    if card.memory is None:
        yield no_reading("memory", place, gib(golden.memory), "accelerator.memory")
    elif card.memory < share * golden.memory:
        yield GateFinding(
            what="memory",
            slot=place,
            expected=gib(golden.memory),
            found=gib(card.memory),
            severity="FAIL",
            component="accelerator.memory",
            action=_REPLACE,
        )


def _link(card: Accelerator, golden: Accelerator | None) -> Iterator[tuple[str, GateFinding]]:
    """Compare the PCIe link; what the card lowers while it idles is not held against it."""
    place = card_place(card)
    component = "accelerator.pcie"
    if golden is not None and golden.link_width is not None:
        width = golden.link_width
        for finding in at_least(
            "PCIe link width", place, width, card.link_width, component, _RESEAT
        ):
            yield "link_width", finding
    elif card.link_width and card.link_width_max and card.link_width < card.link_width_max:
        # Without a class to compare with, the slot may have been built narrow on purpose.
        yield (
            "link_width",
            GateFinding(
                what="PCIe link width",
                slot=place,
                expected=f"{card.link_width_max}, which card and slot can do",
                found=str(card.link_width),
                severity="INCONCLUSIVE",
                component=component,
                action=_RESEAT,
            ),
        )
    if golden is None:
        return
    what = "highest PCIe generation"
    possible = golden.link_generation_max, card.link_generation_max
    for finding in at_least(what, place, *possible, component, _RESEAT):
        yield "link_generation_max", finding
    if card.performance_state == 0:  # at full speed, so the link should be as well
        reachable = [
            g for g in (golden.link_generation_max, card.link_generation_max) if g is not None
        ]
        now = min(reachable, default=None), card.link_generation
        for finding in at_least("PCIe generation", place, *now, component, _RESEAT):
            yield "link_generation", finding
