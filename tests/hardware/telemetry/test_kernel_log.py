"""The kernel log in words: which lines speak against which card, and under which rule they fall."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_anubis.core.verdict import Outcome
from pytest_anubis.hardware.telemetry.kernel_catalogue import ROWS
from pytest_anubis.hardware.telemetry.kernel_log import kernel_events, xid_sort
from pytest_anubis.hardware.telemetry.xid_catalogue import XIDS
from pytest_anubis.validator.deciding.hardware_policy import RULES


def one(line: str) -> tuple[str, str, str]:
    (event,) = kernel_events([line])
    return event.sort, event.place, event.what


@pytest.mark.parametrize(
    ("number", "sort"),
    [
        *((n, "xid-fault") for n in (48, 64, 74, 79, 92, 94, 95, 119, 120, 140)),
        *((n, "xid-reset") for n in (63, 154, 156)),
        *((n, "program") for n in (13, 31, 43, 45, 121, 137)),
        *((n, "xid-unclear") for n in (109, 149, 998)),
    ],
)
def test_every_xid_falls_under_its_rule(number: int, sort: str) -> None:
    assert xid_sort(number) == sort
    line = f"NVRM: Xid (PCI:0000:5D:00): {number}, pid='<unknown>', name=<unknown>, said so"
    (event,) = kernel_events([line])
    assert (event.sort, event.place) == (sort, "0000:5d:00")
    assert event.hardware == (sort != "program")
    assert f"XID {number}" in event.text


@pytest.mark.parametrize(
    "form",
    [
        "NVRM: Xid (PCI:0000:5d:00): 94, Contained: SM (0x1). RST: No, D-RST: No",
        "NVRM: Xid (PCI:0000:5d:00 GPU-I:05): 94, pid=7, Contained: SM (0x1)",
        "NVRM: Xid (PCI:0000:5d:00 GPU-I:05 GPU-CI:02): 94, pid=7",
        "NVRM: Xid (0000:5d:00): 94, Ch 0000000b",
    ],
)
def test_every_form_of_an_xid_is_read(form: str) -> None:
    assert one(form) == (
        "xid-fault",
        "0000:5d:00",
        "XID 94: contained uncorrectable memory error",
    )


def test_message_of_newer_link_xids_gives_their_sort() -> None:
    line = "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT {} XC0 i0 Link 04 (0x004505c6)"
    assert one(line.format("Fatal"))[0] == "xid-fault"
    assert one(line.format("Nonfatal"))[0] == "evidence"


def test_switches_say_whether_it_was_fatal() -> None:
    line = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, {}, Link 30 LTSSM Fault Up"
    assert one(line.format("Fatal")) == (
        "switch-fault",
        "0000:05:00.0",
        "fatal SXid 20034 of nvswitch0",
    )
    assert one(line.format("Non-fatal"))[0] == "switch-event"
    details = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Severity 1 Engine instance 60"
    assert kernel_events([details]) == ()


@pytest.mark.parametrize(
    ("line", "sort", "place"),
    [
        ("NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.", "card-lost", "0000:91:00.0"),
        ("NVRM: GPU at PCI:0000:91:00.0: GPU has fallen off the bus.", "card-lost", "0000:91:00.0"),
        ("pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error message received from 0000:5d:00.0",
         "pcie-fatal", "0000:5d:00.0"),
        ("pcieport 0000:00:01.0: AER: Multiple Uncorrected (Non-Fatal) error received: 0000:5d:00.0",
         "pcie-uncorrected", "0000:5d:00.0"),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "host-memory-error", ""),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0", "evidence", ""),
    ],
)  # fmt: skip
def test_lines_of_other_drivers_name_the_card(line: str, sort: str, place: str) -> None:
    assert one(line)[:2] == (sort, place)


@pytest.mark.parametrize(
    ("message", "sort"),
    [
        ("2 uncorrectable hardware errors detected in umc block", "uncorrected-memory-error"),
        ("die: 0 1 new uncorrectable hardware errors detected in gfx block", "uncorrected-memory-error"),
        ("socket: 1, die: 0 2 new deferred hardware errors detected in umc block", "deferred-memory-error"),
        ("die: 0 3 new correctable hardware errors detected in umc block", "evidence"),
        ("uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", "uncorrected-memory-error"),
        ("RAS records:300 exceed threshold:256", "remap-failed"),
        ("device lost from bus!", "card-lost"),
        ("GPU reset begin!", "card-reset"),
    ],
)  # fmt: skip
def test_lines_of_the_driver_of_amd_name_the_card(message: str, sort: str) -> None:
    assert one(f"amdgpu 0000:c3:00.0: amdgpu: {message}")[:2] == (sort, "0000:c3:00.0")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("mce: [Hardware Error]: Machine check events logged", "machine check of the CPU"),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0", "corrected memory error"),
        ("EDAC MC1: 1 UE memory scrubbing error", "uncorrected memory error"),
        ("nvme nvme0: I/O 12 QID 3 timeout, aborting", "time-out or reset of nvme0"),
        ("Out of memory: Killed process 77 (python)", "the kernel killed a process"),
        ("pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error", "uncorrected PCIe error"),
    ],
)
def test_events_are_told_in_words(line: str, what: str) -> None:
    assert one(line)[2] == what


def test_repeated_totals_of_the_driver_are_ignored() -> None:
    total = "amdgpu 0000:c3:00.0: amdgpu: 7 uncorrectable hardware errors detected in total in umc block"
    none = "amdgpu 0000:c3:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block"
    assert kernel_events([total, none]) == ()


def test_every_xid_has_a_meaning_and_a_known_grade() -> None:
    for number, (meaning, grade) in XIDS.items():
        assert meaning
        assert grade in ("fault", "reset", "unclear", "link", "program"), number


ADDRESS = "{:04x}:{:02x}:{:02x}.0"
FAIL, BLOCK, NONE = Outcome.FAIL, Outcome.INCONCLUSIVE, None
# Lines as kernels and drivers write them: {} are numbers, @ is a PCI address.
LINES = [
    (BLOCK, "NVRM: GPU @: RmInitAdapter failed! (0x{:x}:0xffff:{})"),
    (BLOCK, "NVRM: GPU @: rm_init_adapter failed, device minor number {}"),
    (BLOCK, "NVRM: RmInitAdapter failed! (0x{:x}:0x{:x}:{})"),
    (BLOCK, "nvidia: probe of @ failed with error -{}"),
    (BLOCK, "nvidia @: probe with driver nvidia failed with error -{}"),
    (BLOCK, "amdgpu @: amdgpu: Fatal error during GPU init"),
    (BLOCK, "xe @: [drm] Tile{}: device wedged, needs recovery"),
    (FAIL, "NVRM: GPU @: GPU has fallen off the bus."),
    (FAIL, "NVRM: The NVIDIA GPU @\\x0aNVRM: (PCI ID: 10de:{:04x}) installed in this system has\\x0a"
     "NVRM: fallen off the bus and is not responding to commands."),
    (FAIL, "NVRM: fallen off the bus and is not responding to commands."),
    (FAIL, "EDAC MC{}: {} UE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0)"),
    (FAIL, "EDAC skx MC{}: {} UE memory scrubbing error"),
    (FAIL, "Memory failure: 0x{:x}: recovery action for dirty LRU page: Recovered"),
    (FAIL, "mce: Uncorrected hardware memory error in user-access at {:x}"),
    (FAIL, "mce: [Hardware Error]: CPU {}: Machine Check Exception: 5 Bank {}: be00000000800400"),
    (FAIL, "[Hardware Error]: CPU:{} (19:1:1) MC{}_STATUS[Over|UE|MiscV|AddrV|-|PCC]: 0xfe00"),
    (FAIL, "SError Interrupt on CPU{}, code 0x{:x} -- SError"),
    (FAIL, "pcieport @: AER: Uncorrectable (Fatal) error message received from @"),
    (FAIL, "nvme @: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, id={:04x}"),
    (BLOCK, "pcieport @: AER: device recovery failed"),
    (BLOCK, "mlx5_core @: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer"),
    (BLOCK, "pcieport @: DPC: containment event, status:0x{:x} source:0x{:x}"),
    (BLOCK, "pcieport @: pciehp: Slot({}): Link Down"),
    (FAIL, "critical medium error, dev nvme{}n1, sector {} op 0x0:(READ) flags 0x0 phys_seg 1"),
    (FAIL, "blk_update_request: critical medium error, dev sdc, sector {}"),
    (FAIL, "nvme{}n1: Read(0x2) @ LBA {}, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81)"),
    (FAIL, "sd {}:0:0:0: [sdb] tag#{} Sense Key : Medium Error [current]"),
    (FAIL, "ata{}.00: error: {{ UNC }}"),
    (FAIL, "nvme nvme{}: Removing after probe failure status: -19"),
    (BLOCK, "nvme nvme{}: I/O tag {} (100c) opcode 0x2 (I/O Cmd) QID 3 timeout, aborting req_op:READ(0)"),
    (BLOCK, "nvme nvme{}: controller is down; will reset: CSTS=0x{:x}, PCI_STATUS=0xffff"),
    (BLOCK, "nvme nvme{}: resetting controller"),
    (BLOCK, "I/O error, dev sda, sector {} op 0x0:(READ) flags 0x80700"),
    (BLOCK, "ata{}.00: exception Emask 0x0 SAct 0x{:x} SErr 0x0 action 0x6 frozen"),
    (BLOCK, "mlx5_core @ ens{}f0np0: Link down"),
    (BLOCK, "ice @ eth{}: NIC Link is Down"),
    (BLOCK, "igb @ eth{}: igb: eth{} NIC Link is Down"),
    (BLOCK, "NETDEV WATCHDOG: eth{} (bnxt_en): transmit queue {} timed out"),
    (BLOCK, "mlx5_core @: Port module event: module {}, Cable error, Bus stuck (I2C or data shorted)"),
    (BLOCK, "bond0: (slave eth{}): link status definitely down, disabling slave"),
    (BLOCK, "mpt3sas_cm{}: fault_state(0x{:x})!"),
    (BLOCK, "megaraid_sas @: Fatal firmware error: line {} in fw/raid/utils.c"),
    (FAIL, "[Hardware Error]: Machine check: Processor context corrupt"),
    (BLOCK, "INFO: task fio:{} blocked in I/O wait for more than {} seconds."),
    (BLOCK, "INFO: task kworker/u{}:2:{} blocked for more than 120 seconds."),
    (BLOCK, "watchdog: BUG: soft lockup - CPU#{} stuck for {}s! [python:1]"),
    (BLOCK, "rcu: INFO: rcu_sched self-detected stall on CPU { {}-....}"),
    (BLOCK, "BUG: unable to handle page fault for address: ffff{:x}"),
    (BLOCK, "EXT4-fs error (device nvme{}n1p1): ext4_find_entry:1436: inode #{}: comm ls: reading directory"),
    (BLOCK, "EXT4-fs (dm-{}): Remounting filesystem read-only"),
    (BLOCK, 'XFS (nvme{}n1): metadata I/O error in "xfs_da_read_buf+0xd9" at daddr 0x{:x} len 8 error 5'),
    (BLOCK, "XFS (sdb{}): Corruption detected. Unmount and run xfs_repair"),
    (BLOCK, "BTRFS error (device sda{}): bdev /dev/sda errs: wr 0, rd 0, flush 0, corrupt {}, gen 0"),
    (BLOCK, "mlx5_core @: mlx5_health_try_recover:{}: health recovery failed"),
    (BLOCK, "mlx5_core @: print_health_info:{}: synd 0x{:x}: firmware internal error"),
    (BLOCK, "newvendor @: {} uncorrectable errors in the scratch memory"),
    (NONE, "EDAC MC{}: {} CE memory read error on CPU_SrcID#0"),
    (NONE, "mce: [Hardware Error]: CPU {}: Machine Check: 0 Bank {}: 8c00004000010091"),
    (NONE, "[Hardware Error]: Corrected error, no action required."),
    (NONE, "nvme @: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"),
    (NONE, "pcieport @: AER: Multiple Corrected error message received from @"),
    (NONE, "CPU{}: Core temperature above threshold, cpu clock throttled (total events = {})"),
    (NONE, "blk_update_request: I/O error, dev fd{}, sector {}"),
]  # fmt: skip
QUIET = [
    "nvme nvme{}: Shutdown timeout set to {} seconds",
    "nvme nvme{}: {}/0/0 default/read/poll queues",
    "ata{}: SATA link down (SStatus 0 SControl 300)",
    "mlx5_core @ ens{}: Link up",
    "EDAC MC{}: Giving out device to module skx_edac",
    "EDAC MC: UE/CE reporting by polling",
    "amdgpu @: amdgpu: 0 uncorrectable hardware errors detected in umc block",
    "usb {}-{}: new high-speed USB device",
    "IPv6: ADDRCONF(NETDEV_UP): eth{}: link is not ready",
    "br0: port {}(veth{:x}) entered disabled state",
    "EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
    "EXT4-fs error (device loop3): ext4_find_entry:1: inode #2: comm ls: reading",
    "BTRFS info (device sda1): disk space caching is enabled",
    "XFS (sda1): Ending clean mount",
    "",
]
numbers = st.lists(st.integers(1, 9999), min_size=8, max_size=8)


def filled(line: str, drawn: list[int]) -> str:
    address = ADDRESS.format(0, drawn[0] % 256, drawn[1] % 256)
    line = line.replace("@ LBA", "at LBA") if "LBA" in line else line.replace("@", address)
    return line.replace("{ {}", "{{ {}").replace("....}", "....}}").format(*drawn)


@pytest.mark.parametrize(("outcome", "line"), LINES)
@settings(max_examples=10)  # of each line
@given(drawn=numbers)
def test_lines_with_any_numbers_have_their_severity(
    outcome: Outcome | None, line: str, drawn: list[int]
) -> None:
    (event,) = kernel_events([f"4,1,2,-;{filled(line, drawn)}"])
    assert RULES[event.sort].outcome is outcome
    assert event.place or "@" not in line or "LBA" in line


@pytest.mark.parametrize("line", QUIET)
@settings(max_examples=10)
@given(drawn=numbers)
def test_ordinary_lines_say_nothing(line: str, drawn: list[int]) -> None:
    assert kernel_events([f"6,1,2,-;{filled(line, drawn)}"]) == ()


FIRMWARE = (
    "Hardware error from APEI Generic Hardware Error Source: {}",
    "event severity: {}",
    " Error 0, type: {}",
    "  section_type: {}",
    "  error_type: 3, multi-bit ECC",
)


@pytest.mark.parametrize("severity", ["recoverable", "fatal", "corrected", "info"])
@pytest.mark.parametrize(
    ("section", "component"),
    [
        ("memory error", "memory"),
        ("PCIe error", "pcie"),
        ("general processor error", "cpu"),
        ("ARM processor error", "cpu"),
        ("unknown, 81212a96-09ed-4996-9471-8d729c8e69ed", "host"),
    ],
)
def test_a_record_of_the_firmware_is_one_event(severity: str, section: str, component: str) -> None:
    said = (FIRMWARE[0].format(7), *(line.format(severity) for line in FIRMWARE[1:3]))
    said = (*said, FIRMWARE[3].format(section), FIRMWARE[4])
    (event,) = kernel_events([f"2,1,2,-;{{3}}[Hardware Error]: {line}" for line in said])
    rule = RULES[event.sort]
    if severity in ("corrected", "info"):
        assert rule.outcome is None
        return
    assert rule.component == component
    sure = section.endswith(("memory error", "processor error")) or (
        section == "PCIe error" and severity == "fatal"
    )
    assert rule.outcome is (Outcome.FAIL if sure else Outcome.INCONCLUSIVE)


def test_firmware_records_of_one_number_are_separate() -> None:
    lines = []
    for severity in ("corrected", "recoverable"):
        said = (
            FIRMWARE[0].format(1),
            FIRMWARE[1].format(severity),
            FIRMWARE[3].format("memory error"),
        )
        lines += [f"{{1}}[Hardware Error]: {line}" for line in said]
    assert [event.sort for event in kernel_events(lines)] == ["evidence", "host-memory-error"]


@given(
    text=st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1),
    level=st.integers(0, 20),
)
def test_every_error_of_the_kernel_is_listed(text: str, level: int) -> None:
    found = kernel_events([f"{level},1,2,-;driver 1-2: {text}"])
    assert len(found) <= 1
    assert bool(found) or level > 3


def test_unknown_errors_are_limited_evidence() -> None:
    lines = [f"3,1,2,-;usb {n}-1: descriptor read, error -{n}" for n in range(50)]
    (event,) = kernel_events(lines)
    assert (event.sort, event.count) == ("evidence", 50)
    many = [f"3,1,2,-;driver{'x' * n}: broken" for n in range(50)]
    assert len(kernel_events(many)) == 20


def test_every_row_has_a_rule_words_and_a_source() -> None:
    for row in ROWS:
        assert row.sort in RULES or row.sort == "program"
        assert row.what
        assert row.source


@pytest.mark.parametrize(
    "line",
    [
        "30,1,2,-;systemd-networkd[812]: eth5: Lost carrier",
        "12,1,2,-;daemon: 3 uncorrectable things",
    ],
)
def test_what_programs_write_is_no_word_of_the_kernel(line: str) -> None:
    assert list(kernel_events([line])) == []
