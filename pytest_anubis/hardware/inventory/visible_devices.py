"""Which accelerators a run may use: what the user left visible, and how a process is bound to one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.core.inventory import Accelerator

KINDS = {"nvidia": "cuda", "amd": "cuda", "intel": "xpu", "apple": "mps"}
"""Vendor -> torch's name of its devices."""

# Vendor -> variable that hides all other accelerators, and what names one in it: NVIDIA's numbers depend
# on the order of enumeration, its UUIDs do not; the others take numbers only.
_VARIABLES: dict[str, tuple[str, str]] = {
    "nvidia": ("CUDA_VISIBLE_DEVICES", "uuid"),
    "amd": ("HIP_VISIBLE_DEVICES", "index"),
    "intel": ("ZE_AFFINITY_MASK", "index"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """The devices of a run.

    Attributes:
        devices: Torch's names, numbered over the whole node, in the order in which processes see them;
            ``("cpu",)`` without any.
        bindings: For each accelerator the variable and the value that leave only it visible to a process;
            ``("", "")`` where that is not known.
        notes: What the user's environment hides, one sentence each.
    """

    devices: tuple[str, ...]
    bindings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def visible(accelerators: Sequence[Accelerator], environ: Mapping[str, str]) -> Visible:
    """Return the accelerators that the environment leaves visible.

    Numbers count a vendor's cards in the order of its management library, as CUDA does under
    ``CUDA_DEVICE_ORDER=PCI_BUS_ID``; UUIDs may be shortened. As in CUDA, what follows an entry that names no
    card is not visible either.

    Args:
        accelerators: The node's, with their UUIDs.
        environ: The environment.
    """
    positions: list[int] = []
    notes: list[str] = []
    for vendor in dict.fromkeys(card.vendor.lower() for card in accelerators):
        own = [i for i, card in enumerate(accelerators) if card.vendor.lower() == vendor]
        variable = _VARIABLES.get(vendor, ("", ""))[0]
        text = environ.get(variable) if variable else None
        if text is None:
            positions += own
            continue
        chosen = list(_chosen(text, own, accelerators))
        hidden = [i for i in own if i not in chosen]
        if hidden:
            names = ", ".join(_name(i, accelerators[i]) for i in hidden)
            verb = "is" if len(hidden) == 1 else "are"
            shown = (
                "" if any(map(str.isalpha, text)) else f"={text or '(empty)'}"
            )  # no UUIDs in notes
            notes.append(f"{names} {verb} hidden by {variable}{shown}")
        positions += chosen
    return Visible(
        devices=tuple(_name(i, accelerators[i]) for i in positions) or ("cpu",),
        bindings=tuple(_binding(accelerators[i]) for i in positions),
        notes=tuple(notes),
    )


def _chosen(text: str, own: Sequence[int], accelerators: Sequence[Accelerator]) -> Iterator[int]:
    """Yield the positions of the cards that a variable's value names, up to the first that is none."""
    seen: set[int] = set()
    for entry in text.split(","):
        name = entry.strip()
        if name.isdecimal():
            found = [own[int(name)]] if int(name) < len(own) else []
        else:
            found = [i for i in own if name and (accelerators[i].uuid or "").startswith(name)]
        if len(found) != 1 or found[0] in seen:
            return
        seen.add(found[0])
        yield found[0]


def _name(position: int, card: Accelerator) -> str:
    return f"{KINDS.get(card.vendor.lower(), 'cuda')}:{position}"


def _binding(card: Accelerator) -> tuple[str, str]:
    variable, key = _VARIABLES.get(card.vendor.lower(), ("", ""))
    value = getattr(card, key) if key else None
    return (variable, str(value)) if value is not None else ("", "")
