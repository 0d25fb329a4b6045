"""Which process sees which accelerator: environment variables of the workers."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.distributed.dispatch.tasks import Lane
from pytest_anubis.hardware.inventory.visible_devices import CUDA

LANE = "PYTEST_ANUBIS_LANE"
"""Environment variable of a worker: the lane that it serves. A replacement inherits it."""

ORDER = "CUDA_DEVICE_ORDER"
"""Environment variable that CUDA reads when it is loaded: the order in which it counts cards."""


def binding(
    lane: Lane,
    devices: Sequence[str],
    bindings: Sequence[tuple[str, str]],
    *,
    some: bool = False,
    hidden: bool = False,
) -> dict[str, str]:
    """Return the environment of a lane's workers.

    A lane of one accelerator sees no other; the node's lane, and one that serves several, see all that the
    run may use.

    Args:
        lane: The lane.
        devices: Names of the run's devices.
        bindings: For each accelerator among them the variable and the value that leave only it visible.
        some: The user hid some of the node's accelerators. What is left is then named as the single ones
            are, so that a number never means two things.
        hidden: Hide every accelerator: for a worker that is to touch none.
    """
    variables = sorted({variable for variable, _ in bindings if variable})
    environment = {LANE: lane.name, **device_order(bindings)}
    if hidden:  # HIP takes an empty value for none at all
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
    """Return what makes CUDA count cards as NVML does: by slot, and not the fastest first.

    Args:
        bindings: Those of the run's accelerators; without NVIDIA's there is nothing to set.
    """
    return {ORDER: "PCI_BUS_ID"} if any(name == CUDA for name, _ in bindings) else {}
