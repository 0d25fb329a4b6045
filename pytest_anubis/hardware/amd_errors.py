"""Errors that AMD's driver counts for every block of a card (RAS): ``ras/<block>_err_count`` in sysfs.

Not tried on a card yet: names and lines are those that the kernel documents for amdgpu (amdgpu_ras.c).
"""

from __future__ import annotations

import re

from pytest_anubis.hardware.text_files import Files

XGMI = "xGMI"
"""The links between AMD's cards, all of a card together."""

_BLOCKS = {"umc": "ECC errors", "xgmi_wafl": f"{XGMI} errors"}
"""What has a name of its own: the memory's controllers, and the links between cards. The others (``gfx``,
``sdma``, ``mmhub``, ``pcie_bif``, ...) are told by the driver's names."""

_KINDS = {"ue": "uncorrected", "ce": "corrected", "de": "deferred"}
"""Keys of the lines. A deferred error is one that could not be corrected in data that nobody has used yet: it
is marked, and becomes an uncorrected one for whoever uses it. Only cards since MI300 count them."""


def block_errors(files: Files, device: str) -> dict[str, int]:
    """Return how many errors of each kind each block of a card has had since the driver was loaded.

    Args:
        files: Where /sys lies; notes what exists and cannot be read.
        device: Folder of the card's device, such as ``/sys/class/drm/card0/device``.

    Returns:
        Counts by name: ``uncorrected ECC errors`` (the memory's), ``corrected gfx errors``,
        ``xGMI deferred errors``; empty where the driver counts none.
    """
    found: dict[str, int] = {}
    for file in files.names(f"{device}/ras"):
        block, counted, rest = file.partition("_err_count")
        if not counted or rest:
            continue
        what = _BLOCKS.get(block, f"{block} errors")
        text = files.text(f"{device}/ras/{file}", what) or ""
        for key, kind in _KINDS.items():
            match = re.search(rf"^{key}:\s*(\d+)", text, re.MULTILINE)
            if match:
                link = what.startswith(XGMI)
                name = f"{XGMI} {kind} errors" if link else f"{kind} {what}"
                found[name] = int(match[1])
    return found
