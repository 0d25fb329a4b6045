"""Check before any measurement whether the cards can be tested, and find causes for which healthy cards fail.

No finding rejects a node: it is INCONCLUSIVE with a next step, or a note if the tests may still pass.
`doctor_command` and `gate_plugin` use it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from pytest_anubis.core.inventory import Accelerator, FindingKind, GateFinding, Inventory
from pytest_anubis.core.metric import percent_text
from pytest_anubis.hardware.gate.card_checks import card_place
from pytest_anubis.hardware.gate.single_checks import deviation, gib
from pytest_anubis.hardware.gate.software_environment import SoftwareEnvironment, Torch
from pytest_anubis.hardware.inventory.visible_devices import NOTHING

MIN_SHARED_MEMORY = 256 << 20
"""Minimum bytes of /dev/shm for ranks. NCCL allocates segments of up to 10 MB for each neighbour and channel,
so the 64 MiB of a Docker container may not suffice (nccl#342)."""

MIN_FREE = 0.5
"""Minimum free share of a card's memory: with less, another program works there and leaves too little to
test."""

USUALLY_FREE = 0.9
"""Free share of a card's memory below which a note says so: a context and the driver take about 1 %."""

# Vendor -> variables that hide its cards.
_VARIABLES = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}


def preflight(
    inventory: Inventory, environment: SoftwareEnvironment, visible: Collection[int] | None = None
) -> list[GateFinding]:
    """Return the findings that may prevent a test of a node's cards.

    Args:
        inventory: The node.
        environment: Its variables, torch, shared memory and processes.
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


def _hidden(
    accelerators: Sequence[Accelerator],
    cards: Sequence[Accelerator],
    visibility: Mapping[str, str],
) -> Iterator[GateFinding]:
    """Yield findings about variables that hide cards by mistake: a run would silently skip them."""
    checked: set[str] = set()
    for vendor, variables in _VARIABLES.items():
        own = [card for card in accelerators if card.vendor.lower() == vendor]
        for variable in variables:
            value = visibility.get(variable)
            if not own or value is None or value.strip().lower() in NOTHING or variable in checked:
                continue
            checked.add(variable)
            found = _hidden_by(variable, value, vendor, own, shown=bool(cards))
            if found is not None:
                yield found


def _hidden_by(
    variable: str, value: str, vendor: str, own: Sequence[Accelerator], *, shown: bool
) -> GateFinding | None:
    """Return what is wrong with one variable, if anything.

    Args:
        variable: Its name.
        value: Its value.
        vendor: The vendor whose cards it hides.
        own: All cards of that vendor.
        shown: At least one card is tested.
    """
    entries = [entry.strip() for entry in value.split(",")]
    unknown = next((entry for entry in entries if not _names(entry, vendor, own)), None)
    what = variable
    if any(entry.upper().startswith("MIG-") for entry in entries):
        expected = "whole cards"
        found = "a slice of a card (MIG)"
        action = (
            "slices are not tested: switch MIG off (nvidia-smi -mig 0) and name the card there by "
            "number or UUID, or unset it"
        )
    elif len(set(entries)) < len(entries):
        expected = "each card once"
        found = "naming a card twice, and then none is shown"
        action = "name each card once, or unset it"
    elif unknown is not None:
        what = f"entry {entries.index(unknown) + 1} of {variable}"
        expected = f"one of the node's {len(own)} cards"
        number = f" ({unknown})" if unknown.isdecimal() else ""  # no unique ids in findings
        found = f"none of them{number}: it and what follows are hidden"
        action = "correct it (nvidia-smi -L or amd-smi list shows the cards), or unset it"
    elif not shown:
        expected = "cards that are shown"
        found = "hiding all cards"
        action = "unset it, or set it to nothing where only the CPU is to be tested"
    else:
        return None
    kind = FindingKind.VISIBILITY
    return deviation("", "accelerator", what, expected, found, "INCONCLUSIVE", action, kind)


def _names(entry: str, vendor: str, own: Sequence[Accelerator]) -> bool:
    """Return whether an entry names one card; AMD's variables use other unique ids than its library."""
    if entry.isdecimal():
        return int(entry) < len(own)
    if vendor == "amd" or any(card.uuid is None for card in own):
        return bool(entry)
    return sum((card.uuid or "").startswith(entry) for card in own) == 1 if entry else False


def _builds(
    cards: Sequence[Accelerator], drivers: Mapping[str, str], torch: Torch | None
) -> Iterator[GateFinding]:
    """Yield findings about a build of torch that cannot use the cards; tests report a missing torch."""
    if torch is None:
        return
    wrong = partial(deviation, "", "software")
    vendors = {card.vendor.lower() for card in cards}
    for vendor, name, built in (("nvidia", "CUDA", torch.cuda), ("amd", "ROCm", torch.hip)):
        if vendor in vendors and built is None:
            yield wrong(
                "torch",
                f"a build for {name}",
                f"{torch.version}, a build without {name}",
                "INCONCLUSIVE",
                f"install torch's build for {name}",
            )
    # A driver also runs programs that were built for a newer minor version of the same major one.
    able, needed = _major(drivers.get("cuda")), _major(torch.cuda)
    if "nvidia" in vendors and able is not None and needed is not None and needed > able:
        yield wrong(
            "driver",
            f"one for CUDA {needed}, for which torch {torch.version} was built",
            f"{drivers.get('nvidia', 'one')} for CUDA {drivers['cuda']}",
            "INCONCLUSIVE",
            f"update the driver, or install torch's build for CUDA {able}",
        )


def _major(version: str | None) -> int | None:
    head = (version or "").partition(".")[0]
    return int(head) if head.isdecimal() else None


def _shared_memory(cards: Sequence[Accelerator], size: int | None) -> Iterator[GateFinding]:
    if size is None or size >= MIN_SHARED_MEMORY or len(cards) < 2:
        return
    # Over NVLink NCCL seldom needs it (nccl#525), so a test may pass; a failure would name the cause.
    linked = all(card.nvlinks_active for card in cards)
    yield deviation(
        "",
        "host",
        "shared memory (/dev/shm)",
        f"at least {MIN_SHARED_MEMORY >> 20} MiB for {len(cards)} ranks",
        f"{size >> 20} MiB",
        "NOTE" if linked else "INCONCLUSIVE",
        "make it larger: docker run --shm-size=1g or --ipc=host; in Kubernetes a Memory emptyDir there",
    )


def _occupied(
    card: Accelerator, count: int, environment: SoftwareEnvironment
) -> Iterator[GateFinding]:
    """Yield findings about other programs on a card and about its exclusive compute mode."""
    place = card_place(card)
    free = card.memory_free / card.memory if card.memory and card.memory_free is not None else 1.0
    if free < USUALLY_FREE:
        yield deviation(
            place,
            "accelerator.memory",
            "free memory",
            f"at least {percent_text(USUALLY_FREE)} of {gib(card.memory or 0)}",
            gib(card.memory_free or 0),
            "INCONCLUSIVE" if free < MIN_FREE else "NOTE",
            "end the programs that hold it (nvidia-smi or amd-smi process shows them)",
        )
    if card.compute_mode is not None and card.compute_mode.startswith("exclusive"):
        # With -n, a card's worker frees it before the ranks of a whole-node test start. Without -n the only
        # process still uses all cards then.
        shared = environment.processes < 2 <= count
        use = "and one process tests all cards" if shared else "one process at a time"
        yield deviation(
            place,
            "accelerator",
            "compute mode",
            "default",
            f"{card.compute_mode}, {use}",
            "INCONCLUSIVE" if shared else "NOTE",
            f"run with -n auto, or allow several (nvidia-smi -i {card.index} -c DEFAULT)",
        )
