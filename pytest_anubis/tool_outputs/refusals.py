"""Recognise a tool that refused to start, for `benchmarking.tools`: an unknown option, a missing resource.

That says nothing about the hardware, unlike an error that it found, a hang, or a signal. Anything that is not
listed here stays a failure.
"""

from __future__ import annotations

import re

from pytest_anubis.tool_outputs.unreadable import shown

_WORDS = re.compile(
    # getopt, argp; boost's program_options (nvbandwidth); TCLAP (dcgmi).
    r"unrecogni[sz]ed option|(unknown|invalid) option|option requires an argument|"
    r"PARSE ERROR: Argument",
    re.IGNORECASE,
)
"""Words of any tool about its options."""

_MPI = re.compile(
    r"not enough slots available|nodes which are allocated for this job are already filled|"
    r"binding more processes than cpus|unable to find the specified executable|"
    r"as root is \*?strongly\*? (advised against|discouraged)",
    re.IGNORECASE,
)
"""Words of Open MPI's launcher: fewer slots than ranks, no such program, or it refuses to run as root."""

_RDMA = re.compile(
    r"couldn't allocate MR|DMA-BUF is not supported|does not support DMA-BUF|unsupported memory type",
    re.IGNORECASE,
)
"""Words of perftest: less memory may be locked than it needs (``ulimit -l``), or kernel or build lack support
of a card's memory."""

_SIGNALLED = 128
"""From this status on, a shell or a launcher reports a signal of its program."""

_SEARCHED = 1 << 16
"""Characters that are searched: a tool that refused to start printed little."""


_STATUSES = {
    # stress-ng(1), EXIT STATUS; 2, 5 and 6 are a failed check, a signal and an unexpected end.
    "stress-ng": {1: "its options or resources do not fit", 3: "it lacks resources"},
}
"""Tool -> exit status -> reason."""
_WORDS_OF = {
    **dict.fromkeys(("mpirun", "mpiexec"), _MPI),
    **dict.fromkeys(("ib_write_bw", "ib_read_bw", "ib_write_lat"), _RDMA),
}
"""Tool -> its own words."""


def refused(tool: str, code: int, text: str) -> str:
    """Return why a tool refused to start, in one line; empty if it started, or no sign is known.

    Args:
        tool: Name of its program.
        code: Its exit status; negative for a signal.
        text: Its output.
    """
    if not 0 < code < _SIGNALLED:
        return ""
    if reason := _STATUSES.get(tool, {}).get(code):
        return reason
    own = _WORDS_OF.get(tool, _WORDS)
    for line in text[:_SEARCHED].splitlines():
        if _WORDS.search(line) or own.search(line):
            return shown(line.strip())
    return ""
