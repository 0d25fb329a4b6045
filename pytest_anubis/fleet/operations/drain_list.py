"""The nodes to be drained, as lines that a scheduler takes; they are printed, and nothing is done."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from pytest_anubis.fleet.launching.host_list import is_host
from pytest_anubis.fleet.operations.node_places import NodePlace


def drain_lines(places: Iterable[NodePlace], *, scontrol: bool) -> tuple[list[str], list[str]]:
    """Return a line for each node that is rejected and still in service, and what was left out.

    Those that are to be measured again first, or are rejected only as all nodes of a batch or driver are,
    come last, as remarks behind ``#``: nothing drains them. So do those whose name no scheduler takes:
    ``n[1-9]`` would be nine others, and ``n1~6bfd`` is a second machine that calls itself n1.

    Args:
        places: The nodes.
        scontrol: Commands for a shell, instead of the name and the reason.

    Returns:
        The lines, and one line for each node whose name no scheduler takes.
    """
    lines, again, refused = [], [], []
    for one in places:
        if not one.to_drain:
            continue
        if not is_host(one.node):
            name = ascii(one.node[:40])
            refused.append(f"{name} is no name of a host: drain it by hand")
            again.append(f"# drain by hand: {name} {shlex.quote(one.reason)}")
            continue
        words = [f"NodeName={one.node}", "State=DRAIN", f"Reason={one.reason}"]
        command = shlex.join(["scontrol", "update", *words])
        line = command if scontrol else f"{one.node} {one.reason}"
        if one.retest:
            again.append(f"# measure again first: {line}")
        elif one.group:
            again.append(f"# a shared cause, find that first: {line}")
        else:
            lines.append(line)
    return [*lines, *again], refused
