"""Recognise lines of any log in which launchers, libraries, the driver or the kernel report a failure.

The importers of `store/` report these lines, since a failed program's values cannot be trusted.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

_SIGNALS = (
    "Killed|Aborted|Illegal instruction|Bus error|Segmentation fault|Floating point exception|"
    "Trace/breakpoint trap|Bad system call"
)
"""A shell's words for signals that end a program, but SIGTERM: with it scripts end their monitors, whose
commands the shell prints after 'Terminated'."""

FAILURES = (
    (r"^(?:\S+: )?(?:srun|slurmstepd|sbatch|salloc)(?:-\S+)?: (?:error: (?!couldn't chdir)|"
     r"Job step aborted|Force Terminated|\*\*\* (?:JOB|STEP) )",
     "Slurm reports an error"),
    (r"^ssh: connect to host \S+ port|\bConnection \S+ \S+ closed by remote host|: Broken pipe$",
     "ssh lost a host"),
    (r"\bDUE TO TIME LIMIT\b", "its time was over"),
    (r"\b(?:mpi|prte?)(?:run|exec)?\b.{0,80}\b(?:noticed|aborted|abnormally|non-zero status)\b",
     "MPI saw a process end"),
    (r"\bMPI_ABORT was invoked\b|\bFatal error in P?MPI_|\*\*\* (?:An error occurred in )?MPI_|"
     r"\bORTE (?:has lost|was unable)\b|\bPMIX ERROR\b|\bnon-zero exit code\b|\bUCX +(?:ERROR|FATAL)\b",
     "MPI reports an error"),
    (r"\] Signal: \w|\*\*\* Process received signal \*\*\*", "MPI saw a signal"),
    (r"\b(?i:command terminated) (?:with exit code\b|by signal [1-9])", "the command failed"),
    (r"(?i:\bexit (?:code|status)[:= ]{1,2}[1-9])|COMMAND_EXIT_CODE=\"?[1-9]|^rc=[1-9]\d{0,2}$",
     "the command failed"),
    (r"\bBAD TERMINATION OF\b|\bWITH THE EXIT STRING: (?!Success)", "MPI saw a process end"),
    (r"\bexited (?:on signal|with (?:exit |non-zero )?(?:code|status)) [1-9]", "the command failed"),
    (r"^make: \*\*\*", "make failed"),
    (r"\btimeout: sending signal\b", "its time was over"),
    (r"\bterminating on signal\b|\bgot signal=", "a signal ended it"),
    (rf"^(?:[^\s:]{{1,200}}: )?(?i:{_SIGNALS})(?: \(core dumped\))?(?: {{2,}}\S.*)?$", "a signal ended it"),
    (r"^Terminated$", "a signal ended it"),
    (rf"\bline \d{{1,9}}: +\d{{1,10}} +(?:{_SIGNALS})", "a signal ended it"),
    (r"\b(?:Segmentation fault|Bus error|core dumped|dumped core)\b", "a signal ended it"),
    (r"\bterminate called\b|^Traceback \(most recent", "an exception ended it"),
    (r"\bAssertion .{1,200} failed\b|^(?:[^#]{0,40} )?(?:TEST |[VvCc]\w{4,11} )?FAILED[.!]?$|\bFAULTY\b",
     "a check failed"),
    (r"^(?:free|(?:m|c|re)alloc|malloc_consolidate|munmap_chunk)\(\): \w|"
     r"\bdouble free or corruption\b|\bcorrupted (?:size vs|double-linked|unsorted)|"
     r"\*\*\* .{1,60} detected \*\*\*|^Fatal glibc error\b",
     "glibc found memory damaged"),
    (r"(?i:(?<!\b0 )(?<!\bno )uncorrectable (?:ecc|memory) error)", "memory lost data"),
    (r"(?i:fallen off the bus|gpu is lost|\bgpu \S+ requires (?:a )?reset)|\bNVRM: Xid\b",
     "the driver reports a card"),
    (r"\bNo devices were found\b|\bFailed to initialize NVML\b|\bNVIDIA-SMI has failed\b|"
     r"\bUnable to determine the device handle\b|\bdevices are busy or unavailable\b",
     "the driver finds no card"),
    (r"\bSXid \(|\bGPU reset begin\b|\bamdgpu\b.{0,80}\btimeout\b|\bMemory access fault by GPU\b|"
     r"\bHSA_STATUS_ERROR_|\billegal memory access\b",
     "the driver reports a card"),
    (r"\bOOMKilled\b(?!\"?\s*[:=]\s*\"?(?i:false))|\b[Oo]ut of memory: Killed process\b|"
     r"\binvoked oom-killer\b",
     "it was killed for memory"),
    (r"\bWatchdog caught collective operation timeout\b", "a collective timed out"),
    (r"\b[Cc]ompletion with error\b|^ ?Failed status [1-9]|"
     r"\bCQE error syndrome\b|\bibv_\w+ failed with error\b|\bstatus=IBV_WC_(?!SUCCESS)\w",
     "an adapter reports an error"),
    (r"(?i:\[hardware error\]|aer: uncorrected|pcie bus error: severity=uncorrected)|"
     r"\bMachine Check Exception: [1-9]|\bEDAC \w+: [1-9]\d* UE\b|\bRmInitAdapter failed\b|"
     r"\buncorrectable hardware errors detected\b",
     "the kernel reports hardware"),
    (r"\b(?:CUDA|HIP) out of memory\b", "a card had no memory left"),
    (r"\bBUG: (?:soft|hard) lockup\b|\bsoft lockup - CPU\b", "the kernel reports a CPU that hangs"),
    (r"\bKernel panic\b|\bblocked for more than \d+ seconds\b", "the kernel reports a task that hangs"),
    (r"\b(?:No space left on device|Read-only file system|Stale file handle|[Cc]annot allocate memory)\b|"
     r"\bInput/output error\b|\berror while loading shared libraries\b",
     "the system refused it something"),
    (r"\bI/O error(?:,| on) dev \w|\bcritical \w+ error, dev \w|\b(?:EXT4-fs|XFS|BTRFS) error\b|"
     r"\bnvme\w{0,8}: (?:I/O .{0,60}\btimeout\b|controller is down)",
     "the kernel reports a disk"),
    (r"(?i:\b(?:cuda|hip) (?:runtime |driver )?(?:error|failure)(?::(?! 0\b)| ['(]| [1-9]|$))|"
     r"^\[?(?:CUDA_ERROR_|cudaError|hipError)\w",
     "a card failed"),
    (r"\bnccl[A-Z]\w{2,20}Error: |\bTest (?:NCCL |CUDA )?failure\b|\bunhandled (?:cuda|system) error\b|"
     r"\bNCCL WARN\b.{0,80}\b(?:[Ff]ailure|[Ee]rror|completion with)\b|"
     r"\bNET/IB\b.{0,60}\b(?:Got completion (?:from|with error)|async fatal event|port error)\b",
     "NCCL reports a failure"),
    (r"\bio_u error\b|\bverify: bad\b|: verify failed\b|\berr= ?[1-9]|\bhasn't exited in\b", "fio failed"),
    # Not of ld.so, which says it of a missing preload library that ends nothing.
    (r"(?i:^\[?(?:error|fatal|critical|panic)(?:\]|:) )(?!ld\.so: |0\b)", "there was an error"),
)  # fmt: skip
"""Patterns of lines that no healthy run prints, and their meaning, as a clause after "says that"."""
_ANY = re.compile("|".join(f"(?:{pattern})" for pattern, _ in FAILURES))
_SEARCHED = 400
"""Characters of a line that are searched, since its beginning says what happened."""
_NODE_FAILED = re.compile(
    r"(?i:(?<!\bno )(?<!\bnot )(?<!\bnone )(?<!\b0 )(?<!\bwithout )\b(?:fail(?:s|ed|ing|ures?)?|errors?|"
    r"unreachable|(?:shut )?down|dead|died|offline|lost|crash(?:ed)?|hung|hangs|panic|killed|aborted|"
    r"time[d-]? ?outs?|no (?:response|answer|route)|cancell?ed|incomplete|"
    r"(?:did(?: not|n't)|never) (?:finish|complete|end|start|return|answer|respond|report)(?:ed)?|"
    r"not respond(?:ing)?|refused|rebooted|broken|unhealthy|wrong (?:data|results?)|"
    r"corrupt(?:ed|ion)?(?! (?:check|test|scan)))\b"
    r"(?! ?[:=] ?0\b))"
)
"""Words that mean a failure in a line that also names a node."""
_CHATTER = re.compile(r"\b(?:INFO|DEBUG|TRACE)\b")
_WORD = re.compile(r"[^\s:;,|\"'`()<>]+")
"""A possible name of a node; not in square brackets, which are labels of libraries in healthy runs."""


def failure_said(line: str, nodes: AbstractSet[str] = frozenset(), *, of_node: bool = False) -> str:
    """Return the failure that a line reports, as a clause; empty if it reports none.

    Args:
        line: The line.
        nodes: Nodes of the file; a word of failure next to one of their names is a failure too.
        of_node: The line is a remark on one node, so a word of failure is enough.
    """
    line = line[:_SEARCHED].rstrip()
    if _ANY.search(line):
        return next(said for pattern, said in FAILURES if re.search(pattern, line))
    failed = _NODE_FAILED.search(line) and not _CHATTER.search(line)
    if failed and (of_node or named_in(line, nodes)):
        return "a node failed"
    return ""


def named_in(line: str, nodes: AbstractSet[str]) -> AbstractSet[str]:
    """Return the nodes that a line names, with or without their domain; in other letters if not in these."""
    words = [word.rstrip(".!") for word in _WORD.findall(line[:_SEARCHED])]
    names = {*words, *(word.partition(".")[0] for word in words)}
    if found := nodes & names:
        return found
    lower = {name.lower() for name in names}
    return {node for node in nodes if node.lower() in lower}
