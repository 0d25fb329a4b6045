"""Test the versions found for torch's build and its collectives without importing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_anubis.hardware.inventory.frameworks import read_software
from pytest_anubis.hardware.text_files import Files
from tests.hardware.fake_files import lay_out

HEADER = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 22\n#define NCCL_PATCH 3\n"


def built(root: Path, cuda: str = "None", hip: str = "None") -> Path:
    text = f"__version__ = '2.7.1'\ncuda: Optional[str] = {cuda}\nhip: Optional[str] = {hip}\n"
    return lay_out(root, {"torch/version.py": text}) / "torch"


@pytest.mark.parametrize(
    ("cuda", "hip", "environ", "expected"),
    [
        ("'12.8'", "None", {"NCCL_VERSION": "2.26.3-1"}, {"cuda": "12.8", "nccl": "2.26.3-1"}),
        ("'12.8'", "None", {}, {"cuda": "12.8", "nccl": "2.22.3"}),
        ("None", "'6.4.43482-0f2d60242'", {}, {"rocm": "6.4.43482", "rccl": "2.22.3"}),
        ("None", "None", {"NCCL_VERSION": "2.26.3"}, {}),
    ],
)  # fmt: skip
def test_versions_are_read_from_files(
    tmp_path: Path, cuda: str, hip: str, environ: dict[str, str], expected: dict[str, str]
) -> None:
    files = Files(
        lay_out(tmp_path, {"usr/include/nccl.h": HEADER, "opt/rocm/include/rccl/rccl.h": HEADER})
    )
    found = read_software(files, environ, built(tmp_path, cuda, hip))
    named = {name: found[name] for name in ("cuda", "rocm", "nccl", "rccl") if name in found}
    if any(name.startswith("nvidia-nccl-") for name in found):  # this machine's own comes first
        expected = {name: version for name, version in expected.items() if name != "nccl"}
    assert named == expected


def test_a_broken_torch_is_no_obstacle(tmp_path: Path) -> None:
    found = read_software(
        Files(tmp_path), {}, lay_out(tmp_path, {"torch/version.py": "?"}) / "torch"
    )
    assert "cuda" not in found
    assert read_software(Files(tmp_path), {}, tmp_path / "nowhere")["python"]
