"""Read the errors that AMD's driver counts per block of a card (RAS): ``ras/<block>_err_count`` in sysfs.

Not tried on a card yet: the names and formats are from the kernel's documentation of amdgpu (amdgpu_ras.c).
"""

from __future__ import annotations

import re

from pytest_anubis.hardware.text_files import Files

XGMI = "xGMI"
"""Name of the links between AMD's cards; the driver counts all links of a card together."""

_BLOCKS = {"umc": "ECC errors", "xgmi_wafl": f"{XGMI} errors"}
"""Our names for the memory controllers and the links between cards. All other blocks (``gfx``, ``sdma``,
``mmhub``, ``pcie_bif``, ...) keep the driver's names."""

_KINDS = {"ue": "uncorrected", "ce": "corrected", "de": "deferred"}
"""Keys in the files. A deferred error is uncorrectable, but in data that has not been read yet; it becomes an
uncorrected error when a program reads the data. Only MI300 and newer cards count deferred errors."""


def block_errors(files: Files, device: str) -> dict[str, int]:
    """Return how many errors of each kind each block of a card has had since the driver was loaded.

    Args:
        files: Reads /sys, and notes files that exist and cannot be read.
        device: Folder of the card's device, such as ``/sys/class/drm/card0/device``.

    Returns:
        Counts by name: ``uncorrected ECC errors`` (of the memory), ``corrected gfx errors``,
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
