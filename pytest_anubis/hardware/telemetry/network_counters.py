"""Read the network's counters of errors and of data that were sent again."""

from __future__ import annotations

import math

from pytest_anubis.hardware.text_files import Files

_TCP = "Tcp:"
_RESENT = "RetransSegs"


def resent_segments(files: Files) -> float:
    """Return how many TCP segments this process's network namespace has sent again so far; nan if unknown.

    It is ``RetransSegs`` of RFC 4022 (``tcpRetransSegs``), over all connections of the namespace.

    Args:
        files: Where ``/proc`` is.
    """
    rows = [
        line.split()
        for line in files.quick("/proc/self/net/snmp").splitlines()
        if line.startswith(_TCP)
    ]
    if len(rows) != 2 or _RESENT not in rows[0]:
        return math.nan
    place = rows[0].index(_RESENT)
    count = rows[1][place] if place < len(rows[1]) else ""
    return float(count) if count.isdecimal() else math.nan
