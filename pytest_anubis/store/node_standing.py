"""What is known last of a node, in a small file that is read at once: no journal, no history, no hardware."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_anubis.codec import CodecError, from_plain, read_json, to_plain
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.atomic import write_atomically

FOLDER = "nodes"
"""Folder in the store; ``<node>.json`` is one node's."""

_FORMAT, _VERSION = "anubis-node-standing", 1
_MOST = 1 << 16  # bytes; one of ours has some hundred
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class StandingError(ValueError):
    """The file cannot be used; the message is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStanding:
    """The last verdict on a node, and the run that is under way.

    Attributes:
        node: Its name.
        decision: Of its last judged run; empty before the first.
        reason: Why, in a scheduler's few words.
        run: That run; empty before the first.
        ended: When it ended, seconds since 1970; 0 before the first.
        baseline: Id of the baseline that decided.
        hardware_class: The node's class.
        running: The run that began after it and has not ended; empty if there is none.
        since: When that one began, seconds since 1970.
        boot: Id of the start of the machine in which it began.
    """

    node: str
    decision: str = ""
    reason: str = ""
    run: str = ""
    ended: float = 0.0
    baseline: str = ""
    hardware_class: str = ""
    running: str = ""
    since: float = 0.0
    boot: str = ""


def standing_file(store: Path, node: str) -> Path:
    """Return where a node's standing is; a name that is no file name is written so that none is another's."""
    safe = re.sub(r"[^A-Za-z0-9._-]", lambda found: f"%{ord(found[0]):x}", node)
    return store / FOLDER / f"{safe}.json"


def read_standing(store: Path, node: str) -> NodeStanding | None:
    """Return what is known of a node; None before its first run.

    Raises:
        StandingError: The file is damaged, of another version, or cannot be read.
    """
    path = standing_file(store, node)
    try:
        found = read_json(path, largest=_MOST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StandingError(f"{path}: cannot be read ({error.strerror})") from error
    except CodecError as error:
        raise StandingError(f"{path}: {error}; remove it and judge the node again") from None
    if not isinstance(found, Mapping) or found.get("format") != _FORMAT:
        raise StandingError(f"{path}: is no node's standing; remove it and judge the node again")
    if found.get("version") != _VERSION:
        raise StandingError(f"{path}: is of another version of this program; judge the node again")
    fields = {name: value for name, value in found.items() if name not in ("format", "version")}
    try:
        standing = from_plain(NodeStanding, fields, where="standing")
    except CodecError as error:
        raise StandingError(f"{path}: {error}; remove it and judge the node again") from None
    if standing.node != node or standing.decision not in ("", *Decision):
        raise StandingError(f"{path}: is another node's, or damaged; judge the node again")
    return standing


def keep_begun(store: Path, node: str, run: str, *, now: float) -> str:
    """Note that a run began; return what went wrong in one line. The last verdict stays beside it."""
    try:
        known = read_standing(store, node)
    except StandingError:
        known = None  # what nobody can read says nothing; the new run will
    begun = replace(known or NodeStanding(node=node), running=run, since=now, boot=boot_id())
    return keep_standing(store, begun)


def keep_unjudged(store: Path, node: str) -> str:
    """Note that the run which began has ended without any verdict: the last one stands."""
    try:
        known = read_standing(store, node)
    except StandingError as error:
        return str(error)
    return keep_standing(
        store, replace(known or NodeStanding(node=node), running="", since=0.0, boot="")
    )


def keep_standing(store: Path, standing: NodeStanding) -> str:
    """Write a node's standing; return what went wrong in one line, empty if nothing did."""
    document = {"format": _FORMAT, "version": _VERSION, **to_plain(standing)}
    text = json.dumps(document, indent=1, allow_nan=False)
    path = standing_file(store, standing.node)
    try:
        write_atomically(path, text + "\n")
    except OSError as error:
        return (
            f"{path}: cannot be written ({error.strerror}); health checks do not learn of this run"
        )
    return ""


def boot_id() -> str:
    """Return an id of this start of the machine; empty where the kernel tells none."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
