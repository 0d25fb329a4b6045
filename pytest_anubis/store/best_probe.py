"""The best reading of the clear-moment probe on this machine, kept from run to run.

Without it a run that meets another guest from its first second to its last would take the slow state for the
host's own. The file lies in the store; ``anubis learn`` begins a new one.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from pytest_anubis.store.atomic import write_atomically

_NAME = "best-probe.json"


def known_best(store: Path, hardware_class: str, node: str) -> float:
    """Return the best reading of this machine, seconds; 0 where none is known.

    Args:
        store: Folder of runs.
        hardware_class: Another class is another machine or another torch.
        node: Name of the node: a store may be shared.
    """
    try:
        found = json.loads((store / _NAME).read_text(encoding="utf-8")).get(node, {})
        best = found.get("seconds") if found.get("class") == hardware_class else 0.0
    except (OSError, ValueError, AttributeError):  # lost or damaged: it is found anew
        return 0.0
    return float(best) if isinstance(best, int | float) and 0 < best < 1 else 0.0


def keep_best(store: Path, hardware_class: str, node: str, seconds: float) -> None:
    """Write the best reading of this machine; a store that cannot be written has none."""
    path = store / _NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        document = {}
    document = document if isinstance(document, dict) else {}
    document[node] = {"class": hardware_class, "seconds": seconds}
    with contextlib.suppress(OSError):
        write_atomically(path, json.dumps(document) + "\n")


def forget_best(store: Path) -> None:
    """Begin anew."""
    with contextlib.suppress(OSError):
        (store / _NAME).unlink()
