"""The recipes on a real Slurm of one machine, and real sshd, where they are installed; else it says why."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

LAUNCHERS = Path(__file__).parents[3] / "benchmarks" / "launchers"


@pytest.mark.parametrize(
    ("name", "less"),
    [
        ("slurm_single", {}),
        ("ssh_loopback", {"dying": False}),  # a host that dies takes a minute: the script tries it
    ],
)
def test_a_real_launcher(
    name: str, less: dict[str, bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(LAUNCHERS)
    launcher = importlib.import_module(name)
    if why := launcher.missing():
        pytest.skip(f"{name}: {why}")
    tmp_path.chmod(0o755)
    assert launcher.trial(tmp_path, print, **less) == []
