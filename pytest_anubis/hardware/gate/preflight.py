"""Can the cards be tested as things are? What a healthy card fails for is found before anything is measured.

Nothing here rejects a node: it is INCONCLUSIVE, with what to mend, or a note where it may go well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from pytest_anubis.core.inventory import Accelerator, FindingKind, GateFinding, Inventory
from pytest_anubis.core.metric import percent_text
from pytest_anubis.hardware.gate.card_checks import card_place
from pytest_anubis.hardware.gate.single_checks import Severity, gib
from pytest_anubis.hardware.gate.software_environment import SoftwareEnvironment, Torch
from pytest_anubis.hardware.inventory.visible_devices import NOTHING

LEAST_SHARED_MEMORY = 256 << 20
"""Bytes of /dev/shm that ranks need: NCCL makes segments of up to 10 MB for a neighbour and a channel, so
that the 64 MiB of a Docker container do not suffice for some (nccl#342)."""

LEAST_FREE, USUALLY_FREE = 0.5, 0.9
"""Shares of a card's memory. Who holds more than half of it is at work there, and leaves too little to test;
what holds more than a tenth is named, since it may get in the way. A context and the driver take some 1 %."""

# Vendor -> variables that hide its cards, and which of torch's builds can use them.
_VARIABLES = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}


def preflight(
    inventory: Inventory, environment: SoftwareEnvironment, visible: Collection[int] | None = None
) -> list[GateFinding]:
    """Return what stands in the way of testing a node's cards.

    Args:
        inventory: The node.
        environment: What lies around it.
        visible: Positions of the accelerators that are tested; None: all.
    """
    cards = [
        card
        for position, card in enumerate(inventory.accelerators)
        if visible is None or position in visible
    ]
    return [
        *_hidden(inventory.accelerators, cards, environment.visibility),
        *_builds(cards, inventory.drivers, environment.torch),
        *_shared_memory(cards, environment.shared_memory),
        *(finding for card in cards for finding in _occupied(card, len(cards), environment)),
    ]


def _finding(
    what: str,
    expected: str,
    found: str,
    action: str,
    *,
    slot: str = "",
    component: str = "host",
    severity: Severity = "INCONCLUSIVE",
    kind: FindingKind = FindingKind.OTHER,
) -> GateFinding:
    return GateFinding(
        what=what,
        slot=slot,
        expected=expected,
        found=found,
        severity=severity,
        component=component,
        action=action,
        kind=kind,
    )


def _hidden(
    accelerators: Sequence[Accelerator],
    cards: Sequence[Accelerator],
    visibility: Mapping[str, str],
) -> Iterator[GateFinding]:
    """Yield variables that name no card: a run would quietly leave cards out, or become one of the CPU."""
    counts = {
        vendor: sum(card.vendor.lower() == vendor for card in accelerators) for vendor in _VARIABLES
    }
    finding = partial(_finding, component="accelerator", kind=FindingKind.VISIBILITY)
    told: set[str] = set()
    for vendor, variables in _VARIABLES.items():
        for variable in variables:
            value = visibility.get(variable)
            if (
                not counts[vendor]
                or value is None
                or value.strip().lower() in NOTHING
                or variable in told
            ):
                continue
            told.add(variable)
            entries = [entry.strip() for entry in value.split(",")]
            if any(entry.upper().startswith("MIG-") for entry in entries):
                yield finding(
                    variable,
                    "whole cards",
                    "a slice of a card (MIG)",
                    "slices are not tested: switch MIG off (nvidia-smi -mig 0) and name the card there by "
                    "number or UUID, or unset it",
                )
                continue
            if len(set(entries)) < len(entries):
                yield finding(
                    variable,
                    "each card once",
                    "naming a card twice, and then none is shown",
                    "name each card once, or unset it",
                )
                continue
            unknown = next((e for e in entries if not _names(e, vendor, accelerators)), None)
            if unknown is not None:
                number = entries.index(unknown) + 1
                shown = f" ({unknown})" if unknown.isdecimal() else ""  # no unique ids in findings
                yield finding(
                    f"entry {number} of {variable}",
                    f"one of the node's {counts[vendor]} cards",
                    f"none of them{shown}: it and what follows are hidden",
                    "correct it (nvidia-smi -L or amd-smi list shows the cards), or unset it",
                )
            elif not cards:
                yield finding(
                    variable,
                    "cards that are shown",
                    "hiding all cards",
                    "unset it, or set it to nothing where only the CPU is to be tested",
                )


def _names(entry: str, vendor: str, accelerators: Sequence[Accelerator]) -> bool:
    """Return whether an entry names one card; AMD's own unique ids are not those of its library."""
    own = [card for card in accelerators if card.vendor.lower() == vendor]
    if entry.isdecimal():
        return int(entry) < len(own)
    if vendor == "amd" or any(card.uuid is None for card in own):
        return bool(entry)
    return sum((card.uuid or "").startswith(entry) for card in own) == 1 if entry else False


def _builds(
    cards: Sequence[Accelerator], drivers: Mapping[str, str], torch: Torch | None
) -> Iterator[GateFinding]:
    """Yield a build of torch that cannot use the cards. Without torch its tests say so themselves."""
    if torch is None:
        return
    vendors = {card.vendor.lower() for card in cards}
    for vendor, name, built in (("nvidia", "CUDA", torch.cuda), ("amd", "ROCm", torch.hip)):
        if vendor in vendors and built is None:
            yield _finding(
                "torch",
                f"a build for {name}",
                f"{torch.version}, a build without {name}",
                f"install torch's build for {name}",
                component="software",
            )
    # Within one major version, a driver runs what was built for a newer minor one as well.
    able, needed = _major(drivers.get("cuda")), _major(torch.cuda)
    if "nvidia" in vendors and able is not None and needed is not None and needed > able:
        yield _finding(
            "driver",
            f"one for CUDA {needed}, for which torch {torch.version} was built",
            f"{drivers.get('nvidia', 'one')} for CUDA {drivers['cuda']}",
            f"update the driver, or install torch's build for CUDA {able}",
            component="software",
        )


def _major(version: str | None) -> int | None:
    head = (version or "").partition(".")[0]
    return int(head) if head.isdecimal() else None


def _shared_memory(cards: Sequence[Accelerator], size: int | None) -> Iterator[GateFinding]:
    if size is None or size >= LEAST_SHARED_MEMORY or len(cards) < 2:
        return
    # Over NVLink NCCL seldom needs it (nccl#525): there a test may well pass, and says so if it does not.
    linked = all(card.nvlinks_active for card in cards)
    yield _finding(
        "shared memory (/dev/shm)",
        f"at least {LEAST_SHARED_MEMORY >> 20} MiB for {len(cards)} ranks",
        f"{size >> 20} MiB",
        "make it larger: docker run --shm-size=1g or --ipc=host; in Kubernetes a Memory emptyDir there",
        severity="NOTE" if linked else "INCONCLUSIVE",
    )


def _occupied(
    card: Accelerator, count: int, environment: SoftwareEnvironment
) -> Iterator[GateFinding]:
    """Yield who or what keeps our processes from a card."""
    place = card_place(card)
    free = card.memory_free / card.memory if card.memory and card.memory_free is not None else 1.0
    if free < USUALLY_FREE:
        yield _finding(
            "free memory",
            f"at least {percent_text(USUALLY_FREE)} of {gib(card.memory or 0)}",
            gib(card.memory_free or 0),
            "end the programs that hold it (nvidia-smi or amd-smi process shows them)",
            slot=place,
            component="accelerator.memory",
            severity="INCONCLUSIVE" if free < LEAST_FREE else "NOTE",
        )
    if card.compute_mode is not None and card.compute_mode.startswith("exclusive"):
        # A worker of its own leaves each card before the ranks of a whole-node test come; the one worker
        # of a run without -n still holds them.
        shared = environment.processes < 2 <= count
        yield _finding(
            "compute mode",
            "default",
            f"{card.compute_mode}, "
            + ("and one process tests all cards" if shared else "one process at a time"),
            f"run with -n auto, or allow several (nvidia-smi -i {card.index} -c DEFAULT)",
            slot=place,
            component="accelerator",
            severity="INCONCLUSIVE" if shared else "NOTE",
        )
