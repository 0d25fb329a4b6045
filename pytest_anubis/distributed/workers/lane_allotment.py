"""Determines how many workers a run gets, how often xdist replaces them, and which lane each of them serves.

`side_by_side` says whether lanes measure accelerators at the same time, a part of the hardware class.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_anubis.distributed.dispatch.tasks import CPU, Lane, layout, useful_workers

RESTARTS = 8
RESTARTS_PER_WORKER = 8
"""Default of ``--max-worker-restart``, as a sum: it limits workers that die before the dispatcher knows them.

The dispatcher gives a lane up long before.
"""


def worker_count(
    config: pytest.Config, devices: Sequence[str], *, overlapping: bool = False
) -> int:
    """Return the number of workers that the command line asks for."""
    option = config.option
    useful = useful_workers(devices, overlapping=overlapping)
    asked = getattr(config.known_args_namespace, "numprocesses", None)
    if asked in ("auto", "logical"):
        return min(useful, option.maxprocesses or useful)
    if option.numprocesses:
        return min(useful, len(option.tx))
    if option.tx and option.dist != "no":
        return _count(option.tx)
    return 1


def side_by_side(config: pytest.Config, devices: Sequence[str]) -> bool:
    """Return whether several lanes will measure accelerators at the same time."""
    lanes = layout(devices, max(1, worker_count(config, devices)))
    return sum(any(device != CPU for device in lane.devices) for lane in lanes) > 1


def set_workers(
    config: pytest.Config, devices: Sequence[str], *, overlapping: bool = False
) -> tuple[Lane, ...]:
    """Set how many workers xdist starts and how often it replaces them, and return their lanes.

    ``-n auto`` means one per accelerator and one for the node; a number is limited to that. No ``-n``, and
    ``-n0``, mean one worker. Workers given by ``--tx`` are used as they are.
    """
    option = config.option
    count = worker_count(config, devices, overlapping=overlapping)
    asked = getattr(config.known_args_namespace, "numprocesses", None)
    given = asked not in ("auto", "logical") and not option.numprocesses
    if not (given and option.tx and option.dist != "no"):
        option.tx = ["popen"] * count
        option.numprocesses = count
        if option.dist == "no":
            option.dist = "load"
    lanes = layout(devices, count, overlapping=overlapping)
    if option.maxworkerrestart is None:  # without a limit, workers that die at start loop for ever
        option.maxworkerrestart = RESTARTS + RESTARTS_PER_WORKER * len(lanes)
    return lanes


def _count(tx: Sequence[str]) -> int:
    """Return how many workers ``--tx`` asks for, where ``3*popen`` represents three."""
    numbers = [spec.partition("*")[0] for spec in tx]
    return sum(int(number) if number.isdigit() else 1 for number in numbers)
