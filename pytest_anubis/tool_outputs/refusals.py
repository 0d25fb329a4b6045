"""When a tool did not begin at all: an option that it does not know, or room that it was not given.

That says nothing of the hardware, unlike an error that it found, a hang, or a signal. What is not listed here
stays a failure.
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
"""Of any tool."""

_MPI = re.compile(
    r"not enough slots available|nodes which are allocated for this job are already filled|"
    r"binding more processes than cpus|unable to find the specified executable|"
    r"as root is \*?strongly\*? (advised against|discouraged)",
    re.IGNORECASE,
)
"""Of Open MPI's launcher: fewer slots than ranks, no program there, or it is not to run as root."""

_RDMA = re.compile(
    r"couldn't allocate MR|DMA-BUF is not supported|does not support DMA-BUF|unsupported memory type",
    re.IGNORECASE,
)
"""Of perftest: less memory may be locked than it takes (``ulimit -l``), the kernel reaches no card's memory,
or it was built without that."""

_SIGNALLED = 128
"""A status above it is a shell's or a launcher's word for a signal of what it ran."""

_MOST = 1 << 16
"""Characters that are searched: a tool that did not begin printed little."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """How one tool says that it did not begin; either is enough.

    Attributes:
        words: Some line holds them.
        statuses: It ended with one of them.
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
    """Return why a tool did not begin, in one line; empty where it did, or is not known not to have.

    Args:
        tool: Name of its program.
        code: Its exit status; negative: the signal that ended it.
        text: What it printed.
    """
    if not 0 < code < _SIGNALLED:
        return ""
    known = _TOOLS.get(tool, _Refusal())
    if code in known.statuses:
        return known.statuses[code]
    for line in text[:_MOST].splitlines():
        if _WORDS.search(line) or (known.words is not None and known.words.search(line)):
            return shown(line.strip())
    return ""
