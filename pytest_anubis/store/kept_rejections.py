"""Rejections that only a history knows, as `anubis health` found them: a lost history forgets none.

One small file a node in the store, written where the answer has changed.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import NamedTuple

from pytest_anubis.codec import CodecError, read_json, without_surrogates
from pytest_anubis.store.atomic import write_atomically
from pytest_anubis.store.node_standing import standing_file

FOLDER = "history-rejected"

_FORMAT = "anubis-history-rejected"
_MOST = 1 << 16  # bytes; one of ours has a few hundred


class KeptRejection(NamedTuple):
    """Why a node was rejected, in the words that were given, and by which run."""

    reason: str
    run: str


def kept_rejection(store: Path, node: str) -> KeptRejection | None:
    """Return the rejection that the store's history knew when it was asked last; None without one."""
    try:
        found = read_json(_file(store, node), largest=_MOST)
    except (OSError, CodecError):
        return None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        return None
    reason, run = found.get("reason"), found.get("run")
    return KeptRejection(reason, run) if isinstance(reason, str) and isinstance(run, str) else None


def keep_rejection(store: Path, node: str, rejection: KeptRejection | None) -> None:
    """Remember what a history says of a node now; None: it does not reject it."""
    if rejection == kept_rejection(store, node):
        return
    path = _file(store, node)
    # A health check of a user who may not write there remembers nothing.
    with contextlib.suppress(OSError, ValueError):
        if rejection is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(exist_ok=True)
        words = {key: without_surrogates(value) for key, value in rejection._asdict().items()}
        write_atomically(path, (json.dumps({"format": _FORMAT, **words}) + "\n").encode())


def _file(store: Path, node: str) -> Path:
    return store / FOLDER / standing_file(store, node).name
