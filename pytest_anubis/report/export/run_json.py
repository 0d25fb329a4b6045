"""A run as one JSON document, for other programs."""

from __future__ import annotations

import json
import math
from typing import Any

from pytest_anubis.core.run import RunRecord
from pytest_anubis.wire import to_plain

SCHEMA = 1


def run_json(record: RunRecord) -> str:
    """Return the whole record as strict JSON: NaN and the infinities become strings."""
    plain = {"schema": SCHEMA, **_strict(to_plain(record))}
    return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    return value
