"""What `anubis judge` decided from, for its JSON and page: the files with their digests, and the options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_anubis.cli.shared.arguments import DEFAULT_BASELINE
from pytest_anubis.codec.regular_files import file_sha256
from pytest_anubis.passwords import shown_place
from pytest_anubis.store.run_files import files_of

_DECIDING = (
    "nodes", "exclude", "metrics", "hardware_class", "since", "split", "require", "fail_on", "require_all",
    "other_machine", "allow_missing",
)  # fmt: skip
"""Options of `add_sources`, `add_split`, `add_require` and `add_strictness` that are plain values."""


def judged_inputs(options: argparse.Namespace, places: Sequence[Path]) -> dict[str, Any]:
    """Return ``inputs``, ``baseline_files`` and ``options``, those that decide, as plain data.

    Args:
        options: Options of the command; ``since`` is in seconds since 1970.
        places: Files and folders that the runs are from; none for a history, which has no file of its own.
    """
    named = {
        "baseline": options.baseline or DEFAULT_BASELINE,
        "waivers": options.waivers,
        "nodes_file": options.nodes_file,
    }
    baseline = Path(options.baseline or DEFAULT_BASELINE)
    learned = sorted(baseline.glob("*.json")) if baseline.is_dir() else [baseline]
    return {
        "inputs": [_file(path) for path in files_of(places, exports=True)[0]],
        "baseline_files": [_file(path) for path in learned],
        "options": {
            "history": shown_place(options.history) if options.history else None,
            **{name: None if path is None else _file(path) for name, path in named.items()},
            **{name: getattr(options, name) for name in _DECIDING},
        },
    }


def _file(path: Path) -> dict[str, str | None]:
    """Return a path with its SHA-256, which a folder and a file that cannot be read lack."""
    try:
        digest = file_sha256(path)
    except OSError:
        return {"path": str(path), "sha256": None}
    return {"path": str(path), "sha256": digest}
