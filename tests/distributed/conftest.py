"""A node with two accelerators that this machine does not have."""

from __future__ import annotations

import pytest

from pytest_anubis.core.inventory import Accelerator, Inventory
from pytest_anubis.hardware.telemetry.recorded_node import Recorded, recording_text


@pytest.fixture
def gpus(pytester: pytest.Pytester) -> str:
    """The option that replays the node, from ``node.json``."""
    cards = tuple(
        Accelerator(index=i, vendor="nvidia", name="Card", uuid=f"GPU-{i}", pci=f"0000:0{i}:00.0")
        for i in range(2)
    )
    path = pytester.path / "node.json"
    path.write_text(
        recording_text(Recorded(inventory=Inventory(node="recorded", accelerators=cards)))
    )
    return f"--anubis-inventory={path}"
