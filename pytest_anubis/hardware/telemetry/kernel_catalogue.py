"""Catalogue of lines in the kernel log about hardware, with one row for each kind of line.

`RULES` in `validator.deciding.hardware_policy` gives severity, component and next step for a row's sort. XIDs
and SXids have numbers of their own (`xid_catalogue`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

ADDRESS = r"(?P<at>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)"
"""Pattern of a PCI address, the place of the device that a line is about."""

_AT = rf"(?:{ADDRESS}.{{0,200}}?)?"  # before the words, where the line has an address
_AMD = rf"amdgpu {ADDRESS}: .{{0,80}}?"
_MOUNTED = r"(?P<dev>(?!loop|sr|fd)[\w-]+)"
_CARD = r"\b(?:NVRM|nvidia|amdgpu|xe|habanalabs)\b.{0,200}?"
_DISK = r"(?P<dev>(?:nvme|sd|vd|xvd|hd|mmcblk|pmem)\w*)"
_BAD = r"(?:event severity|Error \d+, type): (?:recoverable|fatal)\b"  # in a record of the firmware
_UNCORRECTED = r"(?:AER: |PCIe Bus Error: severity=).{0,80}?Uncorrect(?:ed|able)"


class KernelLine(NamedTuple):
    """One kind of line in the kernel log."""

    # The rule that applies to it; ``evidence`` decides nothing by itself, ``program`` is no
    # evidence against hardware
    sort: str
    what: str  # its meaning in our words; names in braces are groups of the pattern
    pattern: str  # regular expression to search for in the line, ignoring case
    source: str  # file of the kernel, or driver, that writes the line


# Sort, words, pattern, source. The first row that matches counts, so specific rows precede general ones.
_ROWS = (
    # Accelerators. AMD's driver repeats totals ("... in total in umc block"), which are older than the run.
    ("uncorrected-memory-error", "uncorrectable error of the card (RAS)",
     rf"{_AMD}\b[1-9]\d* (?:new )?uncorrectable hardware errors detected in (?!total)", "amdgpu_ras.c"),
    ("deferred-memory-error", "deferred error of the card (RAS)",
     rf"{_AMD}\b[1-9]\d* new deferred hardware errors detected in (?!total)", "amdgpu_ras.c"),
    ("evidence", "corrected error of the card (RAS)",
     rf"{_AMD}\b[1-9]\d* (?:new )?correctable hardware errors detected in (?!total)", "amdgpu_ras.c"),
    ("uncorrected-memory-error", "uncorrectable error of the card (RAS)",
     rf"{_AMD}(?:poison is consumed|RAS poison|uncorrectable hardware error ?\(ERREVENT)", "amdgpu_ras.c"),
    ("remap-failed", "more bad pages than the card has spares",
     rf"{_AMD}RAS.{{0,80}}exceeds? (?:the )?(?:bad page )?threshold", "amdgpu_ras_eeprom.c"),
    ("card-lost", "the card has fallen off the bus",
     rf"{_CARD}{_AT}(?:fallen off the bus|device lost from bus|GPU is lost)",
     "NVIDIA's nv.c and osinit.c, amdgpu_device.c"),
    ("card-start-failed", "the driver cannot start the card",
     rf"{_AT}(?:rm_?init_?adapter failed|Fatal error during GPU init)",
     "NVIDIA's nv.c and osinit.c, amdgpu_kms.c"),
    ("card-start-failed", "the driver cannot start the card",
     rf"{_CARD}{_AT}probe (?:of {ADDRESS.replace('at>', 'probed>')}|with driver \S+) failed with error",
     "drivers/base/dd.c"),
    ("card-reset", "reset of the card", rf"{_AMD}GPU reset begin", "amdgpu_device.c"),
    ("reset-needed", "the card is out of use until it is reset",
     rf"\b(?:xe|i915|amdgpu)\b.{{0,60}}?{_AT}(?:wedged|VRAM is lost|GPU reset\S* failed)",
     "xe_device.c, intel_reset.c, amdgpu_device.c"),
    ("evidence", "time-out of the card", rf"amdgpu\b.{{0,40}}?{_AT}ring .{{0,40}}timeout", "amdgpu_job.c"),
    # The host's memory and processors. `kernel_log` joins each record of the firmware (APEI) into one line.
    ("host-memory-error", "uncorrected memory error, reported by the firmware",
     rf"{_BAD}.*section_type: memory error", "cper.c"),
    ("pcie-fatal", "uncorrected PCIe error, reported by the firmware",
     rf"event severity: fatal\b.*section_type: PCIe error(?:.*?device_id: {ADDRESS})?", "cper.c"),
    ("pcie-uncorrected", "uncorrected PCIe error, reported by the firmware",
     rf"{_BAD}.*section_type: PCIe error(?:.*?device_id: {ADDRESS})?", "cper.c"),
    ("machine-check", "uncorrected processor error, reported by the firmware",
     rf"{_BAD}.*section_type: .{{0,40}}processor error", "cper.c"),
    ("unclear", "uncorrected error, reported by the firmware", _BAD, "cper.c"),
    ("evidence", "corrected error, reported by the firmware",
     r"(?:event severity|Error \d+, type): (?:corrected|info)", "cper.c"),
    ("host-memory-error", "uncorrected memory error",
     r"EDAC .{0,60}?: (?:[1-9]\d* )?UE\b(?!/)", "edac_mc.c"),
    ("evidence", "corrected memory error", r"EDAC .{0,60}?: (?:[1-9]\d* )?CE\b", "edac_mc.c"),
    ("host-memory-error", "uncorrected memory error",
     r"\bMemory failure: 0x[0-9a-f]+: |Uncorrected hardware memory error|"
     r"MCE 0x[0-9a-f]+: Killing", "mm/memory-failure.c"),
    ("machine-check", "uncorrected machine check",
     r"Machine Check(?: Exception)?: +[0-9a-f]+ Bank \d+: [2367abef][0-9a-f]{15}\b|"
     r"\[Hardware Error\]: (?:System Fatal error|Uncorrected)|MC\d+_STATUS\[[^\]]*\b(?:UE|UC)\b|"
     r"Fatal machine check|Processor context corrupt|SError Interrupt|synchronous external abort",
     "arch/x86/kernel/cpu/mce/core.c, mce_amd.c, arch/arm64/kernel/traps.c"),
    ("unclear", "deferred error of the processor", r"\[Hardware Error\]: Deferred error", "mce_amd.c"),
    ("evidence", "machine check of the CPU",
     r"\[Hardware Error\]|Machine check", "arch/x86/kernel/cpu/mce/core.c"),
    ("evidence", "the processor is throttled for heat",
     r"temperature (?:is )?above threshold", "therm_throt.c"),
    # PCIe. A port reports for the devices behind it: "... error message received from 0000:5d:00.0".
    ("pcie-fatal", "uncorrected PCIe error",
     rf"{_UNCORRECTED} \(Fatal\)(?:.{{0,60}}?(?:received|from).{{0,20}}?{ADDRESS})", "aer.c"),
    ("pcie-fatal", "uncorrected PCIe error", rf"{_AT}{_UNCORRECTED} \(Fatal\)", "aer.c"),
    # A driver that cannot recover also logs this after errors that programs cause.
    ("pcie-uncorrected", "a PCIe device that could not be recovered",
     rf"{_AT}AER: .{{0,40}}?(?:can't recover|recovery failed)", "err.c"),
    ("pcie-uncorrected", "uncorrected PCIe error",
     rf"{_UNCORRECTED}(?:.{{0,60}}?(?:received|from).{{0,20}}?{ADDRESS})", "aer.c"),
    ("pcie-uncorrected", "uncorrected PCIe error",
     rf"{_AT}(?:{_UNCORRECTED}|DPC: (?:containment event|unmasked uncorrectable))", "aer.c, dpc.c"),
    ("pcie-uncorrected", "the PCIe link went down",
     rf"{_AT}Slot\(\S{{1,40}}\): (?:Link Down|Card not present)", "pciehp_ctrl.c"),
    ("pcie-fatal", "the device has fallen off the bus",
     rf"{_AT}(?:fallen off the bus|lost from (?:the )?bus)", "drivers of any device"),
    ("evidence", "corrected PCIe error",
     rf"{_AT}(?:AER: |PCIe Bus Error: severity=).{{0,80}}?(?<!un)correct", "aer.c"),
    # Disks, without optical discs, floppies and loop devices, which are not hardware under test.
    ("disk-fault", "unreadable sector of {dev}", rf"critical medium error, dev {_DISK}", "blk-core.c"),
    ("disk-fault", "unreadable sector of {dev}",
     r"(?P<dev>sd\w+|nvme\d\w*)\b.{0,120}?(?:Sense Key ?: (?:Medium|Hardware) Error|"
     r"Unrecovered Read Error|Write Fault)", "scsi_lib.c, nvme/host/core.c"),
    ("disk-fault", "unreadable sector of {dev}", r"(?P<dev>ata\d+\S*): error: \{ UNC", "libata"),
    ("disk-fault", "{dev} does not work any more",
     r"(?P<dev>nvme\d+): .{0,60}?(?:Disabling device after reset failure|Removing after probe failure|"
     r"Device not ready; aborting)", "nvme/host/pci.c"),
    ("disk-fault", "{dev} does not work any more",
     r"Disk failure on (?P<dev>\w+), disabling|(?P<ata>ata\d+\S*): disable(?:d|ing) device",
     "drivers/md, libata"),
    ("disk-trouble", "time-out or reset of {dev}",
     r"(?P<dev>nvme\d+): .{0,80}?(?:(?<!Shutdown )timeout|controller is down|reset(?:ting)? controller)",
     "nvme/host/pci.c"),
    ("disk-trouble", "error of {dev}",
     rf"(?:I/O error|critical (?:target|nexus) error), dev {_DISK}|"
     rf"Buffer I/O error on dev(?:ice)? {_DISK.replace('dev>', 'buffered>')}", "blk-core.c, fs/buffer.c"),
    ("disk-trouble", "error on the link of {dev}",
     r"(?P<dev>ata\d+\S*): (?:exception Emask.{0,80}frozen|failed command|hard resetting link)", "libata"),
    ("disk-trouble", "fault of a disk controller",
     rf"(?:megaraid|mpt\d?sas|hpsa|smartpqi)(?:\w* {ADDRESS})?.{{0,80}}?(?:\bfatal|\bfault|lockup|"
     r"reset(?:ting)? (?:the )?(?:adapter|controller))", "drivers/scsi"),
    ("disk-trouble", "a file system on {dev} is damaged, or its disk",
     rf"(?:(?:EXT4-fs error|BTRFS (?:error|critical)) \(device |XFS \((?=[^)]{{1,40}}\): "
     rf"(?:metadata I/O error|log I/O error|.{{0,20}}corruption))){_MOUNTED}|"
     r"Remounting filesystem read-only", "fs/ext4/super.c, fs/xfs, fs/btrfs"),
    ("evidence", "disk I/O error", r"(?:I/O|medium|target) error, dev ", "blk-core.c"),
    # Networks.
    ("network-trouble", "a network link went down",
     rf"{_AT}(?:(?<!SATA )\blink (?:is )?down\b|link status definitely down|lost carrier)",
     "mlx5_core, ice, i40e, bnxt_en, tg3, bonding and others"),
    ("network-trouble", "an adapter or its cable does not work",
     rf"{_AT}(?:NETDEV WATCHDOG: .{{0,80}}timed out|Detected Tx Unit Hang|health compromised|"
     rf"health recovery failed|firmware internal error|cmd_exec_timeout|"
     rf"Port module event.{{0,60}}(?:error|unplugged)|tx timeout)",
     "net/sched/sch_generic.c, mlx5_core, e1000e"),
    # The kernel itself: a device that does not answer blocks its tasks, and so may a bug in a driver.
    ("host-trouble", "a task was blocked for minutes",
     r"INFO: task .{1,80} blocked .{0,30}?for more than \d+ seconds", "kernel/hung_task.c"),
    ("host-trouble", "a processor was stuck in the kernel",
     r"soft lockup|hard LOCKUP|rcu.{0,80}(?:self-detected stall|detected (?:expedited )?stalls)",
     "kernel/watchdog.c, kernel/rcu"),
    ("host-trouble", "the kernel ran into an error of its own",
     r"BUG: (?:unable to handle|kernel |Bad page)|kernel BUG at|Oops: |"
     r"general protection fault, probably", "arch/x86/mm/fault.c, lib/bug.c"),
    ("program", "the kernel killed a process", r"Out of memory: Killed process|oom-kill:", "mm/oom_kill.c"),
    # Any other driver.
    ("unclear", "uncorrected error",
     rf"{_AT}(?<!\b0 )(?<!\bno )\buncorrect(?:ed|able)\b(?!.{{0,60}} in total)", "drivers of any device"),
)  # fmt: skip

ROWS = tuple(map(KernelLine._make, _ROWS))
PATTERNS = tuple((re.compile(row.pattern, re.IGNORECASE), row) for row in ROWS)
