"""Test which element types hardware supports, by flags of CPUs and capabilities of cards."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from pytest_anubis.benchmarking import applicability
from pytest_anubis.benchmarking.applicability import DTYPES, require, supports
from pytest_anubis.hardware.text_files import Files

CPU = torch.device("cpu")
CARD = torch.device("cuda", 0)


def cpu_with(flags: str, folder: Path, key: str = "flags") -> Files:
    (folder / "proc").mkdir(exist_ok=True)
    (folder / "proc/cpuinfo").write_text(f"processor\t: 0\n{key}\t\t: {flags}\n\nprocessor\t: 1\n")
    return Files(folder)


@pytest.mark.parametrize(
    ("key", "flags", "short"),
    [
        ("flags", "fpu sse2 avx2 f16c avx_ne_convert", set()),
        ("flags", "fpu avx512f avx512_vnni", {"int8"}),
        ("flags", "fpu avx512_bf16 avx_vnni", {"bfloat16", "int8"}),
        ("flags", "amx_bf16 amx_int8 avx512_fp16", {"bfloat16", "int8", "float16"}),
        ("Features", "fp asimd fphp asimdhp asimddp", {"float16", "int8"}),
        ("Features", "fp asimd bf16 i8mm", {"bfloat16", "int8"}),
    ],
)
def test_cpu_by_its_flags(key: str, flags: str, short: set[str], tmp_path: Path) -> None:
    files = cpu_with(flags, tmp_path, key)
    found = {dtype for dtype in DTYPES if supports(CPU, dtype, files=files)}
    assert found == {"float64", "float32", *short}


def test_cpu_that_says_nothing_is_tried(tmp_path: Path) -> None:
    assert supports(CPU, "bfloat16", files=Files(tmp_path))
    assert not supports(CPU, "tf32", files=Files(tmp_path))


def test_inapplicable_test_is_skipped_with_a_reason(tmp_path: Path) -> None:
    files = cpu_with("avx2", tmp_path)
    require(CPU, "float32", files=files)
    with pytest.raises(
        pytest.skip.Exception, match=r"not applicable: this CPU has no instr.*bfloat16"
    ):
        require(CPU, "bfloat16", files=files)
    with pytest.raises(ValueError, match="'bf16' is none of"):
        supports(CPU, "bf16")


@pytest.mark.parametrize(
    ("capability", "lacking"),
    [
        ((7, 0), {"tf32", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz"}),
        ((8, 0), {"float8_e4m3fn", "float8_e4m3fnuz"}),
        ((9, 0), {"float8_e4m3fnuz"}),
    ],
)
def test_card_by_its_capability(
    capability: tuple[int, int], lacking: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert {dtype for dtype in DTYPES if not supports(CARD, dtype)} == lacking


@pytest.mark.parametrize(
    ("architecture", "lacking"),
    [
        ("gfx90a:sramecc+:xnack-", {"tf32", "float8_e4m3fn", "float8_e4m3fnuz"}),
        ("gfx942:sramecc+:xnack-", {"tf32", "float8_e4m3fn"}),
        ("gfx950", {"tf32", "float8_e4m3fnuz"}),
    ],
)
def test_card_of_amd_by_its_architecture(
    architecture: str, lacking: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = SimpleNamespace(gcnArchName=architecture)
    monkeypatch.setattr(torch.version, "hip", "6.2")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    assert {d for d in DTYPES if not supports(CARD, d)} == lacking


def test_apples_have_no_double_precision() -> None:
    assert not supports(torch.device("mps"), "float64")
    assert supports(torch.device("mps"), "float16")


def test_compute_mode_and_switches_are_the_inventorys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cards = [
        SimpleNamespace(pci="0000:1b:00.0", compute_mode="default", fabric=None),
        SimpleNamespace(pci="0000:43:00.0", compute_mode="exclusive-process", fabric="failed"),
    ]
    monkeypatch.setattr(
        applicability, "read_inventory", lambda: SimpleNamespace(accelerators=cards)
    )
    modes = [applicability.compute_mode(pci) for pci in ("0000:43:00.0", "0000:1b:00.0", "")]
    assert modes == ["exclusive-process", "default", None]
    assert applicability.has_switches()
    del cards[1]
    assert not applicability.has_switches()
