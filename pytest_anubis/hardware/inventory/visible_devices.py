"""Find the accelerators that a run may use, and the variables that bind a process to one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis.core.inventory import Accelerator

KINDS = {"nvidia": "cuda", "amd": "cuda", "intel": "xpu", "apple": "mps"}
"""Vendor -> torch's name of its devices."""

CUDA, HIP, ROCR, ZE = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)

NOTHING = ("", "-1", "none", "void", "nodevfiles")
"""Values with which users and batch systems hide all cards on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """The devices of a run."""

    # Torch's names, numbered over the whole node, in the order in which processes see them;
    # ``("cpu",)`` without accelerators
    devices: tuple[str, ...]
    # For each accelerator the variable and the value that leave only it visible to a process;
    # ``("", "")`` if unknown
    bindings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()  # accelerators that the user's environment hides, one sentence each
    # Settings in the environment that prevent any test, with the next step, one sentence each
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The cards that a variable's value names."""

    cards: tuple[int, ...]  # their positions
    stopped: str = ""  # the entry that names no card and hides all after it; empty if there is none
    wrong: str = ""  # why the value is refused; empty if it is accepted


def visible(accelerators: Sequence[Accelerator], environ: Mapping[str, str]) -> Visible:
    """Return the accelerators that the environment leaves visible.

    NVIDIA's cards are numbered as in NVML, and in CUDA with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``; UUIDs may be
    shortened. As in CUDA, entries after one that names no card are ignored. AMD's run-time libraries apply
    ``ROCR_VISIBLE_DEVICES`` to all cards, and then ``HIP_VISIBLE_DEVICES``, or ``CUDA_VISIBLE_DEVICES`` in
    its place, to the remaining ones.

    A value that names a MIG slice, one card twice or no card at all is refused: only a part of a card, or the
    CPU, would be tested, and the report would look like that of the node.
    """
    positions: list[int] = []
    bindings: list[tuple[str, str]] = []
    notes: list[str] = []
    refused: list[str] = []
    vendors = list(dict.fromkeys(card.vendor.lower() for card in accelerators))
    for vendor in vendors:
        own = [i for i, card in enumerate(accelerators) if card.vendor.lower() == vendor]
        left = own = _as_counted(own, accelerators)
        base: Sequence[int] = own
        for variable in _variables(vendor, environ, vendors):
            text = environ[variable]
            chosen = _chosen(text, left, accelerators)
            if chosen.wrong:
                refused.append(f"{_setting(variable, text)} {chosen.wrong}")
            elif hidden := [i for i in left if i not in chosen.cards]:
                notes.append(_hidden(hidden, accelerators, variable, text, chosen.stopped))
            left = list(chosen.cards)
            base = left if variable == ROCR else base
        positions += left
        bindings += [_binding(accelerators[i], base.index(i)) for i in left]
    if refused:
        positions, bindings = [], []
    return Visible(
        devices=tuple(_name(i, accelerators[i]) for i in positions) or ("cpu",),
        bindings=tuple(bindings),
        notes=tuple(notes),
        refused=tuple(refused),
    )


def _variables(vendor: str, environ: Mapping[str, str], vendors: Sequence[str]) -> list[str]:
    """Return the variables that apply to a vendor's cards, in the order in which they are applied."""
    if vendor == "amd":
        # HIP reads CUDA's variable if its own is missing; on a node with NVIDIA cards it applies to those.
        second = HIP if HIP in environ or "nvidia" in vendors else CUDA
        names: tuple[str, ...] = (ROCR, second)
    else:
        names = {"nvidia": (CUDA,), "intel": (ZE,)}.get(vendor, ())
    return [name for name in names if name in environ]


def _as_counted(own: Sequence[int], accelerators: Sequence[Accelerator]) -> list[int]:
    """Return a vendor's cards in the order in which its run-time library numbers them."""
    numbers = [accelerators[i].hip_id for i in own]
    if None in numbers or len(set(numbers)) < len(numbers):
        return list(own)
    return sorted(own, key=lambda i: accelerators[i].hip_id or 0)


def _chosen(text: str, cards: Sequence[int], accelerators: Sequence[Accelerator]) -> _Chosen:
    """Return the cards that a variable's value names."""
    if text.strip().lower() in NOTHING:
        return _Chosen(())
    found: list[int] = []
    stopped = ""
    for entry in text.split(","):
        name = entry.strip()
        if name.upper().startswith("MIG-"):
            return _Chosen(
                (),
                wrong="names a MIG slice, and only whole cards can be tested: leave it out, and switch MIG "
                "off (nvidia-smi -mig 0)",
            )
        fitting = _fitting(name, cards, accelerators)
        if len(fitting) != 1:
            stopped = name or "an empty entry"
            break
        if fitting[0] in found:
            return _Chosen(
                (), wrong="names a card twice, and then CUDA shows none: name each card once"
            )
        found += fitting
    if not found:
        several = len(_fitting(stopped, cards, accelerators)) > 1
        count = len(cards)
        return _Chosen(
            (),
            wrong="fits several cards: give more of the UUID"
            if several
            else f"names no card that is there ({count} to choose from"
            f"{f', 0 to {count - 1}' if count else ''}): correct it, or leave it out",
        )
    return _Chosen(tuple(found), stopped)


def _fitting(name: str, cards: Sequence[int], accelerators: Sequence[Accelerator]) -> list[int]:
    """Return the cards that match one entry, which is a number or the beginning of a UUID."""
    number = re.match(r"\d+", name)  # the libraries parse numbers like strtoul: `1gpu` is 1
    if number:
        place = int(number[0]) if len(number[0]) < len(str(1 << 32)) else len(cards)
        return [cards[place]] if place < len(cards) else []
    if not name.upper().startswith("GPU-"):
        return []
    return [
        i
        for i in cards
        if any(
            (uuid or "").lower().startswith(name.lower())
            for uuid in (accelerators[i].uuid, accelerators[i].hip_uuid)
        )
    ]


def _hidden(
    hidden: Sequence[int],
    accelerators: Sequence[Accelerator],
    variable: str,
    text: str,
    stopped: str,
) -> str:
    names = ", ".join(_name(i, accelerators[i]) for i in sorted(hidden))
    verb = "is" if len(hidden) == 1 else "are"
    why = ""
    if stopped:
        what = "one of its entries" if any(map(str.isalpha, stopped)) else f"'{stopped}'"
        why = f" ({what} names no card, and nothing behind it counts)"
    return f"{names} {verb} hidden by {_setting(variable, text)}{why}"


def _setting(variable: str, text: str) -> str:
    """Return a variable with its value, but without UUIDs, which may be confidential."""
    return variable if any(map(str.isalpha, text)) else f"{variable}={text or '(empty)'}"


def _name(position: int, card: Accelerator) -> str:
    return f"{KINDS.get(card.vendor.lower(), 'cuda')}:{position}"


def _binding(card: Accelerator, number: int) -> tuple[str, str]:
    """Return the variable and the value that leave only one card visible.

    Args:
        card: The card.
        number: Its number among the cards that the user's variables leave to its run-time library.
    """
    vendor = card.vendor.lower()
    if vendor == "nvidia":  # by UUID: numbers depend on the order of enumeration
        return (CUDA, card.uuid) if card.uuid is not None else ("", "")
    if vendor == "amd":
        return HIP, str(number)
    return (ZE, str(card.index)) if vendor == "intel" else ("", "")
