"""A pytest plugin that makes what one exact metric records wrong by 3: `wrong_under_load` loads it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from benchmarks.suites.wrong_under_load import BY, WRONG
from pytest_anubis.session.measuring.recorder import Recorder

_right = Recorder.record


def _record(self: Recorder, name: str, value: float | Iterable[float], **more: Any) -> Any:
    values = [value] if isinstance(value, (int, float)) else list(value)
    off = BY if name == os.environ.get(WRONG) and more.get("better") == "equal" else 0.0
    return _right(self, name, [one + off for one in values], **more)


Recorder.record = _record  # type: ignore[method-assign]
