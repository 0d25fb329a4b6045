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

_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
"""As machine-id(5) has it; ``uninitialized`` and an empty file are none."""


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
    """Return a digest of the machine id, which machine-id(5) asks to be kept secret; None without one."""
    text = (files.text("/etc/machine-id") or "").strip()
    if _MACHINE_ID.fullmatch(text) is None:
        return None
    return hmac.new(text.encode(), b"pytest-anubis", hashlib.sha256).hexdigest()[:32]
