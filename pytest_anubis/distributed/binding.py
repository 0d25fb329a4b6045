"""Which process sees which accelerator: environment variables of the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_anubis.distributed.tasks import Lane

LANE = "PYTEST_ANUBIS_LANE"
"""Environment variable of a worker: the lane that it serves. A replacement inherits it."""

# Vendor -> variable that hides all other accelerators, and what names one in it: NVIDIA's numbers depend
# on the order of enumeration, its UUIDs do not; the others take numbers only.
_VISIBLE: dict[str, tuple[str, str]] = {
    "nvidia": ("CUDA_VISIBLE_DEVICES", "uuid"),
    "amd": ("HIP_VISIBLE_DEVICES", "index"),
    "intel": ("ZE_AFFINITY_MASK", "index"),
}


def binding(
    lane: Lane, devices: Sequence[str], inventory: Mapping[str, Any], *, hidden: bool = False
) -> dict[str, str]:
    """Return the environment of a lane's workers.

    A lane of one accelerator sees no other; the node's lane, and one that serves several, see all.

    Args:
        lane: The lane.
        devices: Names of the node's devices, in the order of the inventory's accelerators.
        inventory: The inventory as plain data.
        hidden: Hide every accelerator: for a worker that is to touch none.
    """
    environment = {LANE: lane.name}
    accelerators = list(inventory.get("accelerators", ()))
    if hidden:
        variables = {_VISIBLE[a["vendor"]][0] for a in accelerators if a["vendor"] in _VISIBLE}
        return environment | dict.fromkeys(sorted(variables), "")
    if len(lane.devices) != 1 or lane.devices[0] not in devices:
        return environment
    position = devices.index(lane.devices[0])
    if position >= len(accelerators):
        return environment
    accelerator = accelerators[position]
    variable, key = _VISIBLE.get(accelerator["vendor"], ("", ""))
    name = accelerator.get(key)
    if variable and name is not None:
        environment[variable] = str(name)
    return environment
