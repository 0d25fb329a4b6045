"""Finds the fixture that an error comes from, by the frames of its traceback."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import pytest

from pytest_anubis.session.error_causes import text_of

Fixture = pytest.FixtureDef[Any]


def frames_of(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a traceback with their current lines; the one that raised comes last."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def fixture_of(trace: TracebackType | None) -> tuple[Fixture | None, bool]:
    """Return the innermost fixture in a traceback, and whether it was being cleaned up."""
    found: tuple[Fixture | None, bool] = None, False
    for frame, _ in frames_of(trace):
        owner = frame.f_locals.get("self")
        if isinstance(owner, pytest.FixtureDef):
            found = owner, frame.f_code is pytest.FixtureDef.finish.__code__
    return found


def place_of(fixture: Fixture) -> tuple[str, int]:
    """Return file and line of a fixture; an empty file if its function is not written in Python."""
    code = getattr(inspect.unwrap(fixture.func), "__code__", None)
    return ("", 0) if code is None else (code.co_filename, code.co_firstlineno)


def failed_cleanups(item: pytest.Item, raised: pytest.ExceptionInfo[BaseException]) -> str:
    """Name the shared fixtures whose cleanup failed, since the test that ran before it is not to blame.

    Returns:
        One sentence; empty if anything else was raised.
    """
    failed = []
    for error in _leaves(raised.value):
        fixture, cleaned = fixture_of(error.__traceback__)
        if fixture is None or not cleaned or fixture.scope == "function":
            return ""
        path, line = place_of(fixture)
        root = item.config.rootpath
        # The place of pytest's own fixtures, as for teardown_module, says less than their name.
        ours = root in Path(path).parents
        place = f", {Path(path).relative_to(root)}:{line}" if ours else ""
        said = f"{type(error).__name__}: {text_of(error)}".split("\n", 1)[0]
        failed.append(f"fixture {fixture.argname} ({fixture.scope}{place}): {said}")
    return f"what tests share could not be cleaned up; mend it: {'; '.join(failed)}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, or the errors of a group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
