"""Environment variables that determine which accelerators a lane's workers see, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.distributed.dispatch.tasks import Lane
from pytest_anubis.hardware.inventory.visible_devices import CUDA

LANE = "PYTEST_ANUBIS_LANE"
"""Environment variable with the lane of a worker; a replacement inherits it."""

ORDER = "CUDA_DEVICE_ORDER"
"""Environment variable with the order in which CUDA numbers cards, read when CUDA is loaded."""


def binding(
    lane: Lane,
    devices: Sequence[str],
    bindings: Sequence[tuple[str, str]],
    *,
    some: bool = False,
    hidden: bool = False,
) -> dict[str, str]:
    """Return the environment of a lane's workers.

    A lane of one accelerator sees only that one. The node's lane, and a lane of several, see all accelerators
    of the run.

    Args:
        lane: The lane.
        devices: Names of the run's devices.
        bindings: Per accelerator the variable and the value that make it the only visible one.
        some: The user hides some accelerators, so the others are listed by the same values as single ones.
        hidden: Hide every accelerator, for a worker that must use none.
    """
    variables = sorted({variable for variable, _ in bindings if variable})
    environment = {LANE: lane.name, **device_order(bindings)}
    if hidden:  # HIP ignores an empty value
        return environment | {name: "" if name == CUDA else "-1" for name in variables}
    known = dict(zip(devices, bindings, strict=False))
    if len(lane.devices) == 1:
        variable, value = known.get(lane.devices[0], ("", ""))
        return environment | ({variable: value} if variable else {})
    if some and all(variable for variable, _ in bindings):
        for variable in variables:
            values = [value for name, value in bindings if name == variable]
            environment[variable] = ",".join(values)
    return environment


def device_order(bindings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the variable that makes CUDA number cards by slot, as NVML does; empty without NVIDIA cards."""
    return {ORDER: "PCI_BUS_ID"} if any(name == CUDA for name, _ in bindings) else {}
