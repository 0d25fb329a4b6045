"""A run as one JSON document, for other programs."""

from __future__ import annotations

import json

from pytest_anubis.codec import to_plain
from pytest_anubis.core.run import RunRecord

SCHEMA = 1


def run_json(record: RunRecord) -> str:
    """Return the whole record as strict JSON: what is not finite is spelled ``"NaN"`` or ``"Infinity"``."""
    plain = {"schema": SCHEMA, **to_plain(record, full=True)}
    return json.dumps(plain, indent=1, sort_keys=True, allow_nan=False)
