"""Which fixture an error comes from, by the frames of its traceback."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import pytest

Fixture = pytest.FixtureDef[Any]


def frames_of(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a traceback, each with the line that ran in it; what raised comes last."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def fixture_of(trace: TracebackType | None) -> tuple[Fixture | None, bool]:
    """Return the innermost fixture that was at work, and whether it was being cleaned up.

    Args:
        trace: Of the error.
    """
    found: tuple[Fixture | None, bool] = None, False
    for frame, _ in frames_of(trace):
        owner = frame.f_locals.get("self")
        if isinstance(owner, pytest.FixtureDef):
            found = owner, frame.f_code is pytest.FixtureDef.finish.__code__
    return found


def place_of(fixture: Fixture) -> tuple[str, int]:
    """Return file and line of a fixture; without a file where its function is not Python's."""
    code = getattr(inspect.unwrap(fixture.func), "__code__", None)
    return ("", 0) if code is None else (code.co_filename, code.co_firstlineno)


def failed_cleanups(item: pytest.Item, raised: pytest.ExceptionInfo[BaseException]) -> str:
    """Say which fixtures that tests share failed in their cleanup: the test it came after is not to blame.

    Args:
        item: The test that pytest reports it of.
        raised: What its setup, call or teardown raised.

    Returns:
        One sentence; empty where something else was raised as well, or alone.
    """
    failed = []
    for error in _leaves(raised.value):
        fixture, cleaned = fixture_of(error.__traceback__)
        if fixture is None or not cleaned or fixture.scope == "function":
            return ""
        path, line = place_of(fixture)
        root = item.config.rootpath
        # Of pytest's own, as for teardown_module, the name says more.
        ours = root in Path(path).parents
        place = f", {Path(path).relative_to(root)}:{line}" if ours else ""
        said = f"{type(error).__name__}: {error}".split("\n", 1)[0]
        failed.append(f"fixture {fixture.argname} ({fixture.scope}{place}): {said}")
    return f"what tests share could not be cleaned up; mend it: {'; '.join(failed)}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield what was raised: an error, or those of a group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
