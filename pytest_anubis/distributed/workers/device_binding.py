"""Which process sees which accelerator: environment variables of the workers."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_anubis.distributed.dispatch.tasks import Lane

LANE = "PYTEST_ANUBIS_LANE"
"""Environment variable of a worker: the lane that it serves. A replacement inherits it."""


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
    environment = {LANE: lane.name}
    if hidden:
        variables = {variable for variable, _ in bindings if variable}
        return environment | dict.fromkeys(sorted(variables), "")
    known = dict(zip(devices, bindings, strict=False))
    if len(lane.devices) == 1:
        variable, value = known.get(lane.devices[0], ("", ""))
        return environment | ({variable: value} if variable else {})
    if some and all(variable for variable, _ in bindings):
        for variable in sorted({variable for variable, _ in bindings}):
            values = [value for name, value in bindings if name == variable]
            environment[variable] = ",".join(values)
    return environment
