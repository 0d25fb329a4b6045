"""Catalogue of the error numbers of NVIDIA's driver (XIDs): their meaning in our words, and their grade.

The source is NVIDIA's "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/xid-errors), whose
column "immediate action" is in the comment after each number. The grade is ours: RESTART_APP and IGNORE are
caused by programs; RESET_GPU and CONTACT_SUPPORT are caused by hardware unless the catalogue's text says that
programs and drivers cause them too.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Grade = Literal["fault", "reset", "unclear", "link", "program"]
"""``fault``: hardware. ``reset``: the driver repaired something, or asks for a reset. ``unclear``: both
programs and hardware cause it. ``link``: hardware if the message says fatal. ``program``: evidence only."""


class Xid(NamedTuple):
    """The meaning and grade of one number."""

    meaning: str
    grade: Grade


XIDS: dict[int, Xid] = {
    8: Xid("the card stopped processing a program", "program"),  # RESTART_APP
    13: Xid("graphics engine exception, most often the program's", "program"),  # RESTART_APP
    31: Xid("memory page fault, most often the program's", "program"),  # RESTART_APP
    # RESTART_APP; "primarily quality issues on PCI, generally not caused by user application actions"
    32: Xid("corrupted push buffer, often the PCIe link's", "unclear"),
    37: Xid("driver firmware error", "program"),  # IGNORE, CHECK_APP
    38: Xid("driver firmware error", "program"),  # IGNORE
    39: Xid("copy engine exception", "program"),  # RESTART_APP; 40 and 41 likewise
    40: Xid("copy engine exception", "program"),
    41: Xid("copy engine exception", "program"),
    43: Xid("the program's work was stopped", "program"),  # IGNORE; "the GPU remains healthy"
    44: Xid("graphics engine fault during a context switch", "program"),  # IGNORE
    45: Xid("the program's channel was removed", "program"),  # follows another XID, or a kill
    46: Xid("the card stopped processing", "fault"),  # RESET_GPU, CONTACT_SUPPORT
    48: Xid("uncorrectable memory error", "fault"),  # WORKFLOW_XID_48: reset, then the RMA flow
    54: Xid("auxiliary power is not connected", "fault"),  # CHECK_MECHANICALS
    60: Xid("video processor exception", "program"),  # RESTART_APP
    61: Xid("internal micro-controller breakpoint", "unclear"),  # unused in today's catalogue
    62: Xid("internal micro-controller halted", "fault"),  # RESET_GPU, CONTACT_SUPPORT
    # IGNORE: a row was marked for its replacement. The remap state decides: pending until a reset.
    63: Xid("memory row remapped or page retired", "reset"),
    64: Xid("memory row could not be remapped", "fault"),  # RESET_GPU, CONTACT_SUPPORT
    66: Xid("illegal access by the driver", "program"),  # IGNORE, INVESTIGATE_SW; 67 likewise
    67: Xid("illegal access by the driver", "program"),
    68: Xid("video decoder exception", "program"),  # RESTART_APP
    69: Xid("graphics engine class error", "program"),  # RESTART_APP
    74: Xid("NVLink error", "fault"),  # WORKFLOW_NVLINK_ERR: "a reset or reboot is needed"
    78: Xid("vGPU start error", "unclear"),  # UPDATE_SWFW
    79: Xid("the card has fallen off the bus", "fault"),  # RESTART_BM, CONTACT_SUPPORT
    80: Xid("corrupted data sent to the card", "unclear"),  # RESTART_APP, CHECK_APP; or PCIe
    92: Xid("high rate of correctable memory errors", "fault"),  # CONTACT_SUPPORT
    # RESTART_APP, but only after an uncorrectable error: "recommended to reset the GPU".
    94: Xid("contained uncorrectable memory error", "fault"),
    95: Xid("uncontained uncorrectable memory error", "fault"),  # RESET_GPU
    106: Xid("test message", "program"),  # IGNORE; 107 likewise
    107: Xid("test message", "program"),
    109: Xid("context switch timed out", "unclear"),  # RESET_GPU; kernels that never end do it too
    110: Xid("security fault", "fault"),  # RESET_GPU; "uncommon unless there is a hardware failure"
    119: Xid("the card's system processor does not answer", "fault"),  # RESET_GPU
    120: Xid("the card's system processor failed", "fault"),  # RESET_GPU
    # IGNORE: corrected errors towards a Grace CPU, "no operational impact".
    121: Xid("corrected errors on the link to the CPU", "program"),
    136: Xid("link training failed", "fault"),  # RESET_GPU, INVESTIGATE_LINK_SI
    137: Xid("illegal access over NVLink, most often the program's", "program"),  # IGNORE
    140: Xid("unrecovered memory error", "fault"),  # RESET_GPU, CONTACT_SUPPORT
    141: Xid("fast path error", "program"),  # IGNORE
    143: Xid("the card's start-up failed", "fault"),  # RESET_GPU, CONTACT_SUPPORT
    # WORKFLOW_NVLINK5_ERR for all of these: fatal or not is in the message.
    144: Xid("NVLink: SAW error", "link"),
    145: Xid("NVLink: RLW error", "link"),
    146: Xid("NVLink: TLW error", "link"),
    147: Xid("NVLink: TREX error", "link"),
    148: Xid("NVLink: controller error", "link"),
    149: Xid("NVLink: link error", "link"),
    150: Xid("NVLink: MSE error", "link"),
    154: Xid("the driver asks for a recovery action", "reset"),  # sums up other XIDs
    155: Xid("NVLink went down on purpose or by software", "unclear"),  # RESET_GPU, SW_USER
    156: Xid("a part of the card was retired", "reset"),  # RESET_GPU, then IGNORE
    157: Xid("a part of the card could not be retired", "fault"),  # CONTACT_SUPPORT: no spares
    158: Xid("the card timed out fatally", "fault"),  # RESET_GPU, CONTACT_SUPPORT
    160: Xid("a memory channel was retired", "reset"),  # IGNORE, INVESTIGATE_SW
    161: Xid("a memory channel could not be retired", "unclear"),  # IGNORE, INVESTIGATE_SW
    162: Xid("power smoothing is on again", "program"),  # informational
    163: Xid("power smoothing is off", "program"),  # "no GPU reset required"
    164: Xid("power smoothing wears out", "unclear"),  # "expect to replace"
    165: Xid("power smoothing is worn out", "unclear"),  # "replace if ..."
    167: Xid("fatal PCIe time-out", "fault"),  # no action given; the link is down
    169: Xid("internal micro-controller halted", "fault"),  # as 62
    171: Xid("uncorrectable memory error (DRAM)", "fault"),  # goes with 48
    172: Xid("uncorrectable memory error (SRAM)", "fault"),  # goes with 48
}

UNKNOWN = Xid("meaning unknown here", "unclear")
"""Entry for a number that is not listed: someone has to look at it."""


def xid(number: int) -> Xid:
    """Return the entry of a number."""
    return XIDS.get(number, UNKNOWN)
