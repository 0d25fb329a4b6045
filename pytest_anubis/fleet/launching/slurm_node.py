"""A node in Slurm: its state and address, and draining or resuming it for this program's reasons alone.

`anubis health` drains and resumes on request; `benchmarking.hosts.launched_hosts` asks for an address.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from datetime import datetime

from pytest_anubis.core.verdict import Decision
from pytest_anubis.report.export.drain_reason import LEADER

TIMEOUT = 5.0
"""Seconds for `scontrol`: it hangs until slurmd has registered, and Slurm ends a health check after 60."""

_STATE = re.compile(r"(?:^|\s)State=(\S+)")
_ADDRESS = re.compile(r"(?:^|\s)NodeAddr=(\S+)")
_REASON = re.compile(r"(?:^|\s)Reason=(.*?)(?:\s\[[^\[\]]*@([^\[\]]*)\])?\s*$")


class SlurmError(RuntimeError):
    """Slurm did not answer or refused; the message is one line for people."""


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node's state in Slurm."""

    drained: bool  # it takes no jobs, by an operator's or a program's order
    reason: str  # why; empty if no reason was given
    # When the reason was given, seconds since 1970; None if Slurm does not say it
    since: float | None = None

    @property
    def ours(self) -> bool:
        """Whether this program gave the reason."""
        return self.reason.startswith(LEADER)


def act(node: str, decision: Decision, text: str, *, resume: bool, began: float = 0.0) -> str:
    """Drain a rejected node, or resume an accepted one that this program drained.

    A node that was drained for another reason is left as it is.

    Args:
        node: The node's name in Slurm.
        decision: The health check's.
        text: The reason.
        resume: Resume an accepted node, unless it was drained after the accepted run began: the fleet's list
            may have drained it for what this node's own runs do not know.
        began: When that run began, seconds since 1970.

    Returns:
        What was done, in a few words; empty if nothing was.

    Raises:
        SlurmError: Slurm did not answer, or refused.
    """
    known = read_node(node)
    if decision is Decision.REJECTED:
        if known.drained and not known.ours:
            return (
                f"left as it is: drained already for {known.reason or 'a reason that is not known'}"
            )
        if known.drained and known.reason == text:
            return ""
        _scontrol("update", f"NodeName={node}", "State=DRAIN", f"Reason={text}")
        return "drained"
    if decision is Decision.ACCEPTED and resume and known.drained and known.ours:
        if known.since is None or began <= known.since:
            return "left drained: its accepted run began before that; measure it again, or resume it by hand"
        _scontrol("update", f"NodeName={node}", "State=RESUME")
        return "resumed"
    return ""


def read_node(node: str) -> SlurmNode:
    """Ask Slurm about a node.

    Raises:
        SlurmError: It did not answer, or knows no such node.
    """
    text = _scontrol("--oneliner", "show", "node", node)
    state = _STATE.search(text)
    if state is None:
        raise SlurmError(
            f"scontrol says nothing about node {node}: {' '.join(text.split())[:80]!r}"
        )
    flags = re.split(r"[+*~#!%$@^-]+", state[1].upper())
    reason = _REASON.search(text)
    return SlurmNode(
        any(flag.startswith("DRAIN") for flag in flags),
        reason[1].strip() if reason else "",
        _seconds(reason[2] or "") if reason else None,
    )


def _seconds(text: str) -> float | None:
    """Read a time that scontrol prints: ISO 8601 in the zone of this machine; None for another format."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def node_address(node: str) -> str:
    """Ask Slurm for the address under which it reaches a node.

    Raises:
        SlurmError: It did not answer, or knows none.
    """
    found = _ADDRESS.search(_scontrol("--oneliner", "show", "node", node))
    if found is None:
        raise SlurmError(f"scontrol says no address of node {node}")
    return found[1]


def _scontrol(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["scontrol", *arguments],
            capture_output=True, text=True, timeout=TIMEOUT, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        raise SlurmError("scontrol is not on PATH") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"scontrol did not answer within {TIMEOUT:g} s") from None
    except OSError as error:
        raise SlurmError(f"scontrol: {error.strerror}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[:200]
        raise SlurmError(f"scontrol ended with {done.returncode}: {said}")
    return done.stdout
