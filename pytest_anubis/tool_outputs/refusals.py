"""Recognise a tool that refused to start, for `benchmarking.tools`: an unknown option, a missing resource.

That says nothing about the hardware, unlike an error that it found, a hang, or a signal. Anything that is not
listed here stays a failure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The signs that one tool refused to start; either is enough.

    Attributes:
        words: Pattern of words in some line.
        statuses: Exit status -> reason.
    """

    words: re.Pattern[str] | None = None
    statuses: dict[int, str] = field(default_factory=dict)


_TOOLS = {
    # stress-ng(1), EXIT STATUS; 2, 5 and 6 are a failed check, a signal and an unexpected end.
    "stress-ng": _Refusal(
        statuses={1: "its options or resources do not fit", 3: "it lacks resources"}
    ),
    "mpirun": _Refusal(_MPI),
    "mpiexec": _Refusal(_MPI),
    "ib_write_bw": _Refusal(_RDMA),
    "ib_read_bw": _Refusal(_RDMA),
    "ib_write_lat": _Refusal(_RDMA),
}


def refused(tool: str, code: int, text: str) -> str:
    """Return why a tool refused to start, in one line; empty if it started, or no sign is known.

    Args:
        tool: Name of its program.
        code: Its exit status; negative for a signal.
        text: Its output.
    """
    if not 0 < code < _SIGNALLED:
        return ""
    known = _TOOLS.get(tool, _Refusal())
    if code in known.statuses:
        return known.statuses[code]
    for line in text[:_SEARCHED].splitlines():
        if _WORDS.search(line) or (known.words is not None and known.words.search(line)):
            return shown(line.strip())
    return ""
