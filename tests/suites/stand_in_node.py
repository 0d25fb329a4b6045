"""A plugin for whole runs on the stand-in node: ``-p tests.suites.stand_in_node``, two NUMA nodes of 16 CPUs.

PYTEST_DONT_REWRITE: it holds no assertion. The cards are those of `tests.hardware.nvml_stand_in`, which the
environment names; what is asked of them is computed as `tests.suites.stand_in_plugin` says.
"""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_anubis import start
from pytest_anubis.distributed.workers import controller, lane_places
from pytest_anubis.hardware.gate import software_environment
from tests.hardware.nvml_stand_in import FITTING
from tests.hardware.two_numa_nodes import CPUS, two_numa_nodes
from tests.suites.stand_in_plugin import card as card

BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
"""Of the stand-in cards; the first four hang on NUMA node 0."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let the gate see a build of torch for the cards, and the lanes a topology of two NUMA nodes."""
    software_environment._torch = lambda: FITTING
    folder = tempfile.TemporaryDirectory(prefix="anubis-numa-")
    config.add_cleanup(folder.cleanup)
    homes = {f"0000:{bus:02x}:00.0": f"{at // 4}\n" for at, bus in enumerate(BUSES)}
    files = two_numa_nodes(Path(folder.name), homes)
    places = functools.partial(lane_places.LanePlaces, files=files, allowed=CPUS)
    for module in (start, controller):
        module.LanePlaces = places  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def named_card(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch tell the card's own name, by which its clock, power and energy are read."""
    import torch

    uuid = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].removeprefix("GPU-")
    told = SimpleNamespace(uuid=uuid or None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: told)
