"""What this node is called, by a setting or by the platform, and the id of its installation."""

from __future__ import annotations

import hashlib
import hmac
import platform
import re
from collections.abc import Mapping

from pytest_anubis.hardware.text_files import Files

ENV_NODE = "PYTEST_ANUBIS_NODE"  # as `options` has it, which this room does not import

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
"""253 characters are the longest name of a host (RFC 1123), and of a node of Kubernetes."""

_ID_FILE = "/etc/machine-id"
_POINT = 4  # field of the place of a mount in proc_pid_mountinfo(5)
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
"""As machine-id(5) has it; ``uninitialized`` and an empty file are none."""

_PASSING = frozenset(
    {"overlay", "aufs", "fuse.fuse-overlayfs", "squashfs", "tmpfs", "ramfs", "rootfs"}
)
"""Filesystems of containers' and live images: what lies there is the image's, or made anew at each start."""

_ESCAPED = re.compile(r"\\([0-7]{3})")
"""A blank or backslash in a path of proc_pid_mountinfo(5)."""


class NodeNameError(ValueError):
    """A node cannot be called that; the one-line message says where the name stands."""


def node_name(environ: Mapping[str, str], given: str = "", *, where: str = ENV_NODE) -> str:
    """Return what this node is called.

    The first of: what was set, Slurm's name of the node that a step runs on, Kubernetes' name of the node
    that a pod runs on (``NODE_NAME``, which the pod has to ask for: elsewhere other tools use that name), the
    host name.

    Args:
        environ: The environment.
        given: What was set on the command line or in an ini file; empty asks the environment.
        where: Where that stands, for the message.

    Raises:
        NodeNameError: What was found is no name.
    """
    in_pod = bool(environ.get("KUBERNETES_SERVICE_HOST"))
    for place, name in (
        (where, given),
        (ENV_NODE, environ.get(ENV_NODE, "")),
        ("SLURMD_NODENAME", environ.get("SLURMD_NODENAME", "")),
        ("NODE_NAME", environ.get("NODE_NAME", "") if in_pod else ""),
    ):
        if name:
            return checked_name(name, place)
    return platform.node() or "unknown"


def checked_name(name: str, where: str) -> str:
    """Return the name of a node, which is a part of file names and of other programs' arguments.

    Raises:
        NodeNameError: It is none.
    """
    if _NAME.fullmatch(name) is None:
        raise NodeNameError(
            f"{where} is {name[:40]!r}: name the node with letters, digits, '.', '_' and '-', at most 253, "
            "a letter or digit first"
        )
    return name


def machine_id(files: Files) -> str | None:
    """Return a digest of the machine id, which machine-id(5) asks to be kept secret; None if none lasts.

    That of a container's or live image's own files is none: all machines may have it, or each start another
    one. A file of the host that is mounted there (``/etc/machine-id``) is one.
    """
    if _filesystem(files, _ID_FILE) in _PASSING:
        return None
    text = (files.text(_ID_FILE) or "").strip()
    if _MACHINE_ID.fullmatch(text) is None:
        return None
    return hmac.new(text.encode(), b"pytest-anubis", hashlib.sha256).hexdigest()[:32]


def _filesystem(files: Files, path: str) -> str:
    """Return the type of the filesystem that a path lies on; empty where that is not told."""
    found = longest = ""
    for line in (files.text("/proc/self/mountinfo") or "").splitlines():
        head, dash, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if not dash or len(fields) < _POINT + 1 or not kind:
            continue
        point = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields[_POINT])
        # Of several at one place the last hides the others.
        inside = f"{path}/".startswith(f"{point.rstrip('/')}/")
        if inside and len(point) >= len(longest):
            found, longest = kind[0], point
    return found
