"""Write and read the JSON file of a fitted risk model; `selector/risk` checks the model that is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError, read_json
from pytest_anubis.store.atomic import write_atomically
from pytest_anubis.store.history.database import HistoryError

MODEL_NAME = "risk-model.json"
FORMAT = "anubis-risk-model"
_MAX_BYTES = 64 << 20  # a network of any sensible size is far smaller


def save_model(path: Path, plain: Mapping[str, Any], *, created: str) -> None:
    """Write a risk model, given as plain data, with the date of its fit (ISO 8601, UTC).

    Raises:
        HistoryError: The file cannot be written.
    """
    document = {"format": FORMAT, "created": created, **plain}
    try:
        text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (text + "\n").encode())
    except OSError as error:
        raise HistoryError(f"{path}: cannot be written ({error.strerror})") from error


def read_model(path: Path) -> dict[str, Any]:
    """Read a risk model as plain data; its content is for the caller to check.

    Raises:
        HistoryError: The file cannot be read, or is no risk model.
    """
    try:
        found = read_json(path, largest=_MAX_BYTES)
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read ({error.strerror})") from error
    except CodecError as error:
        raise HistoryError(f"{path}: {error}; fit it again with 'anubis risk --save'") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise HistoryError(
            f"{path}: not a risk model (format {FORMAT!r}); write one with 'anubis risk --save'"
        )
    return found
