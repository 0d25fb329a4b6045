"""The kernel log in words: which lines speak against which card, and under which rule they fall."""

from __future__ import annotations

import pytest

from pytest_anubis.hardware.telemetry.kernel_log import kernel_events, xid_sort
from pytest_anubis.hardware.telemetry.xid_catalogue import XIDS


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
    assert one(line)[:2] == (sort, "0000:5d:00")


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


def test_the_newer_links_numbers_say_whether_they_are_fatal() -> None:
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
        (
            "amdgpu 0000:c3:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block",
            "uncorrected-memory-error",
            "0000:c3:00.0",
        ),
        (
            "amdgpu 0000:c3:00.0: amdgpu: die: 0 1 new uncorrectable hardware errors detected in gfx block",
            "uncorrected-memory-error",
            "0000:c3:00.0",
        ),
        (
            "amdgpu 0000:c3:00.0: amdgpu: socket: 1, die: 0 2 new deferred hardware errors detected in umc "
            "block",
            "deferred-memory-error",
            "0000:c3:00.0",
        ),
        (
            "amdgpu 0000:c3:00.0: amdgpu: die: 0 3 new correctable hardware errors detected in umc block",
            "evidence",
            "0000:c3:00.0",
        ),
        (
            "amdgpu 0000:c3:00.0: amdgpu: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
            "uncorrected-memory-error",
            "0000:c3:00.0",
        ),
        (
            "amdgpu 0000:c3:00.0: amdgpu: RAS records:300 exceed threshold:256",
            "remap-failed",
            "0000:c3:00.0",
        ),
        ("amdgpu 0000:c3:00.0: amdgpu: device lost from bus!", "card-lost", "0000:c3:00.0"),
        ("amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!", "card-reset", "0000:c3:00.0"),
        (
            "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error message received from 0000:5d:00.0",
            "pcie-fatal",
            "0000:5d:00.0",
        ),
        (
            "pcieport 0000:00:01.0: AER: Multiple Uncorrected (Non-Fatal) error received: 0000:5d:00.0",
            "evidence",
            "",
        ),
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "host-memory-error", ""),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0", "evidence", ""),
    ],
)
def test_lines_of_other_drivers_name_the_card(line: str, sort: str, place: str) -> None:
    assert one(line)[:2] == (sort, place)


def test_totals_that_the_driver_repeats_are_not_this_runs() -> None:
    total = "amdgpu 0000:c3:00.0: amdgpu: 7 uncorrectable hardware errors detected in total in umc block"
    none = "amdgpu 0000:c3:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block"
    assert kernel_events([total, none]) == ()


def test_every_number_of_the_catalogue_has_words_and_a_known_grade() -> None:
    for number, (meaning, grade) in XIDS.items():
        assert meaning
        assert grade in ("fault", "reset", "unclear", "link", "program"), number
