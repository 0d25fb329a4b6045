"""A worker's process that dies before it has said a word: another one is started in its place."""

from __future__ import annotations

from typing import Any

import pytest

TRIES = 3
"""Processes that are started for one worker; what kills three in a row would kill a fourth."""


def replace_stillborn(group: Any) -> None:
    """Let a group of xdist's processes start one again that has died before it was a worker.

    Nothing had run in it, so nothing is lost and nothing to be told; without this, the end of its pipe ends
    the whole run as an internal error. Where they all die, ``makegateway`` raises `pytest.exit.Exception`.

    Args:
        group: execnet's group, in which a process is started with ``makegateway``.
    """
    make = group.makegateway

    def started(spec: Any) -> Any:
        last: Exception | None = None
        for _ in range(TRIES):
            try:
                return make(spec)
            except (EOFError, OSError) as error:  # its pipe ended, or there is no room for it
                last = error
        raise pytest.exit.Exception(
            f"anubis: {TRIES} processes in a row died before they were workers ({last}); look for what kills "
            "them (limits of processes and memory, the kernel's log), then start again",
            3,  # as an internal error ends: nothing is decided
        )

    group.makegateway = started
