"""A node's verdict in Kubernetes: labels, an annotation and a condition, and the calls that set them.

`anubis health` calls it. It neither cordons nor drains a node.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_anubis.core.verdict import Decision
from pytest_anubis.fleet.launching.health_check import Health
from pytest_anubis.report.export.drain_reason import LEADER

PREFIX = "pytest-anubis.io"
"""Default domain of labels and annotations; ``--prefix`` replaces it."""

CONDITION = "AnubisHardwareProblem"
"""A condition as node-problem-detector sets them: True is a problem."""

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder of a pod's own service account."""
_TIMEOUT = 10.0
"""Seconds for the API server, which answers in well under one or is gone."""
_MAX_LABEL = 63  # characters of a label's value
_STATUS = {Decision.ACCEPTED: "False", Decision.REJECTED: "True", Decision.UNDECIDED: "Unknown"}


class KubernetesError(RuntimeError):
    """The API server could not be used; the message is one line for people."""


def label_patch(health: Health, prefix: str = PREFIX) -> dict[str, Any]:
    """Return a merge patch of a node with its verdict as labels, and the reason as an annotation."""
    kept = health.kept
    labels = {
        f"{prefix}/verdict": health.decision.lower(),
        f"{prefix}/run": label_value(kept.judged.run if kept else ""),
        f"{prefix}/baseline": label_value(kept.baseline if kept else ""),
    }
    return {"metadata": {"labels": labels, "annotations": {f"{prefix}/reason": health.text}}}


def condition_patch(
    health: Health, *, now: float, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a strategic merge patch of a node's status with the condition.

    While the status stays as `before`, its time of change does, too.
    """
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = _STATUS[health.decision]
    changed = moment
    if before is not None and before.get("status") == status:
        changed = str(before.get("lastTransitionTime") or moment)
    condition = {
        "type": CONDITION,
        "status": status,
        "reason": condition_reason(health.text),
        "message": health.text,
        "lastHeartbeatTime": moment,
        "lastTransitionTime": changed,
    }
    return {"status": {"conditions": [condition]}}


def label_value(text: str) -> str:
    """Return a text as the value of a label: at most 63 of ``A-Za-z0-9._-``, letter or digit at both ends."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:_MAX_LABEL].strip("._-")


def condition_reason(text: str) -> str:
    """Return the code of a reason in CamelCase: ``NvlinkBw`` for ``ANB:NVLINK-BW gpu3 ...``."""
    code = text.partition(" ")[0].removeprefix(LEADER)
    words = "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", code))
    return words if words[:1].isalpha() else f"Anubis{words}"


def apply_patches(
    node: str, health: Health, *, now: float, prefix: str = PREFIX, account: Path
) -> None:
    """Label this node and set its condition, with the pod's own service account.

    Raises:
        KubernetesError: This is no pod, or the API server refuses or does not answer.
    """
    api = _ApiServer(account)
    known = api.call("GET", f"/api/v1/nodes/{node}").get("status", {}).get("conditions") or []
    before = next((one for one in known if one.get("type") == CONDITION), None)
    api.call("PATCH", f"/api/v1/nodes/{node}", label_patch(health, prefix), "merge-patch")
    status = condition_patch(health, now=now, before=before)
    api.call("PATCH", f"/api/v1/nodes/{node}/status", status, "strategic-merge-patch")


class _ApiServer:
    """The API server, called with a pod's service account."""

    def __init__(self, account: Path) -> None:
        import ssl  # takes half of a health check's start-up, and is rarely needed

        host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
        try:
            self._token = (account / "token").read_text(encoding="ascii").strip()
            self._tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
        except (OSError, ValueError) as error:
            raise KubernetesError(f"no service account of a pod in {account} ({error})") from error
        if not host:
            raise KubernetesError(
                "KUBERNETES_SERVICE_HOST is not set: this is no pod of Kubernetes"
            )
        self._base = f"https://{f'[{host}]' if ':' in host else host}:{port or 443}"

    def call(self, method: str, path: str, body: Any = None, patch: str = "") -> dict[str, Any]:
        import urllib.error
        import urllib.request

        request = urllib.request.Request(  # noqa: S310  # always https
            self._base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": f"application/{patch}+json" if patch else "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT, context=self._tls) as answer:  # noqa: S310
                found = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise KubernetesError(
                f"{method} {path}: the API server answers {error.code}; may this service account patch nodes?"
            ) from error
        except (OSError, ValueError) as error:
            raise KubernetesError(f"{method} {path}: {getattr(error, 'reason', error)}") from error
        return found if isinstance(found, dict) else {}
