"""Find this node's name, from a setting or the platform, and the id of its installation.

`health_command`, `inventory_reading` and `run_context` use it.
"""

from __future__ import annotations

import hashlib
import hmac
import platform
import re
from collections.abc import Mapping

from pytest_anubis.hardware.text_files import Files, mounts

ENV_NODE = "PYTEST_ANUBIS_NODE"  # as in `options`, which this package may not import

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
"""A node's name: at most 253 characters, as for hosts (RFC 1123) and nodes of Kubernetes."""

_ID_FILE = "/etc/machine-id"
_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
"""A machine id as defined in machine-id(5); ``uninitialized`` is none."""

_TRANSIENT = frozenset(
    {"overlay", "aufs", "fuse.fuse-overlayfs", "squashfs", "tmpfs", "ramfs", "rootfs"}
)
"""Filesystems of containers and live images, whose files belong to the image or are recreated at each
start."""

_ESCAPED = re.compile(r"\\([0-7]{3})")
"""An escaped blank or backslash in a path of proc_pid_mountinfo(5)."""


class NodeNameError(ValueError):
    """An invalid name of a node; the one-line message says where it was set."""


def node_name(environ: Mapping[str, str], given: str = "", *, where: str = ENV_NODE) -> str:
    """Return this node's name.

    It is the first of: the setting, Slurm's name of the node that a step runs on, Kubernetes' name of the
    node that a pod runs on, and the host name. In a pod, Kubernetes' name is ``NODE_NAME`` if the pod's
    definition sets it; elsewhere that variable is ignored, since other tools use it too.

    Args:
        environ: The environment variables.
        given: Name set on the command line or in an ini file; empty: use the environment.
        where: Where `given` was set, for the message.

    Raises:
        NodeNameError: The name is invalid.
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
    """Return a valid name of a node, which is safe in file names and in arguments of programs.

    Raises:
        NodeNameError: The name is invalid.
    """
    if _NAME.fullmatch(name) is None:
        raise NodeNameError(
            f"{where} is {name[:40]!r}: name the node with letters, digits, '.', '_' and '-', at most 253, "
            "a letter or digit first"
        )
    return name


def machine_id(files: Files) -> str | None:
    """Return a digest of the machine id, which must stay secret (machine-id(5)); None without a lasting id.

    An id in a container or a live image does not count: many machines may share it, or each start may make a
    new one. The host's ``/etc/machine-id`` counts if it is mounted there.
    """
    if _filesystem(files, _ID_FILE) in _TRANSIENT:
        return None
    text = (files.text(_ID_FILE) or "").strip()
    if _MACHINE_ID.fullmatch(text) is None:
        return None
    return hmac.new(text.encode(), b"pytest-anubis", hashlib.sha256).hexdigest()[:32]


def _filesystem(files: Files, path: str) -> str:
    """Return the type of a path's filesystem; empty if unknown."""
    found = longest = ""
    for kind, _, _, escaped in mounts(files):
        point = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), escaped)
        # The last mount at a mount point hides earlier ones.
        inside = f"{path}/".startswith(f"{point.rstrip('/')}/")
        if inside and len(point) >= len(longest):
            found, longest = kind, point
    return found
