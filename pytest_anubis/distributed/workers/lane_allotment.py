"""How many workers a run gets, and which lane each of them serves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_anubis.distributed.dispatch.tasks import Lane, layout, useful_workers

RESTARTS = 8
RESTARTS_PER_WORKER = 8
"""How often dead workers are replaced in all, unless ``--max-worker-restart`` says otherwise.

A lane whose workers die again and again is given up long before; this bounds what happens before any
worker of ours is up.
"""


def set_workers(
    config: pytest.Config, devices: Sequence[str], *, overlapping: bool = False
) -> tuple[Lane, ...]:
    """Set how many workers xdist starts and how often it replaces them, and return their lanes.

    ``-n auto`` means one per accelerator and one for the node, a number at most that; no ``-n`` and
    ``-n0`` mean one. Workers given by ``--tx`` are taken as they are.

    Args:
        config: The controller's configuration, before xdist has been configured.
        devices: Devices of the node.
        overlapping: Some benchmarks of the host are certified to run beside others.
    """
    option = config.option
    useful = useful_workers(devices, overlapping=overlapping)
    asked = getattr(config.known_args_namespace, "numprocesses", None)
    if asked in ("auto", "logical"):
        count = min(useful, option.maxprocesses or useful)
    elif option.numprocesses:
        count = min(useful, len(option.tx))
    elif option.tx and option.dist != "no":
        count = 0
    else:
        count = 1
    if count:
        option.tx = ["popen"] * count
        option.numprocesses = count
        if option.dist == "no":
            option.dist = "load"
    lanes = layout(devices, count or _count(option.tx), overlapping=overlapping)
    if (
        option.maxworkerrestart is None
    ):  # without a limit a worker that dies at start loops for ever
        option.maxworkerrestart = RESTARTS + RESTARTS_PER_WORKER * len(lanes)
    return lanes


def _count(tx: Sequence[str]) -> int:
    """Return how many workers ``--tx`` asks for, where ``3*popen`` stands for three."""
    numbers = [spec.partition("*")[0] for spec in tx]
    return sum(int(number) if number.isdigit() else 1 for number in numbers)
