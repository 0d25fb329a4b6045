"""The recipes on a real Slurm of one machine, and real sshd.

They take a minute each, and start services: `ANUBIS_LAUNCHERS=1` runs them where these are installed.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("name", "less"),
    [
        ("slurm_single", {}),
        ("ssh_loopback", {"dying": False}),  # a host that dies takes a minute: the script tries it
    ],
)
def test_a_real_launcher(name: str, less: dict[str, bool], tmp_path: Path) -> None:
    if not os.environ.get("ANUBIS_LAUNCHERS"):
        pytest.skip(f"{name} takes a minute: set ANUBIS_LAUNCHERS=1, or run {name}.py here")
    launcher: Any = importlib.import_module(f"tests.fleet.launching.{name}")
    if why := launcher.missing():
        pytest.skip(f"{name}: {why}")
    tmp_path.chmod(0o755)
    assert launcher.trial(tmp_path, print, **less) == []
