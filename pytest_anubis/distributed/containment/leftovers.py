"""What a test leaves behind is found, named and put right before it spoils what the next one measures."""

from __future__ import annotations

import signal
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator
from typing import Any

import pytest

from pytest_anubis.core.events import BlockerFound, LeftBehind
from pytest_anubis.distributed.containment.process_state import (
    ProcessState,
    children,
    command_of,
    is_helper,
)
from pytest_anubis.distributed.containment.processes import is_gone, kill_tree, wait_gone
from pytest_anubis.session.context import Sink
from pytest_anubis.session.measuring.captured_output import closed_key

PATIENCE = 2.0
"""Seconds for killed processes to be gone; the next test waits for them."""

_SHOWN = 120
"""Characters of a value that are reported."""


class Leftovers:
    """Compares the process before and after every test.

    What a fixture of a class, module, package or session starts or changes outlives the test on purpose, and
    its end may undo it.

    Args:
        config: This process's configuration.
        sink: Takes every event at once.
        rearm: Makes the process answer to our stack signal again; None where it never does.
    """

    def __init__(
        self, config: pytest.Config, sink: Sink, rearm: Callable[[], None] | None = None
    ) -> None:
        self._config = config
        self._sink = sink
        self._rearm = rearm
        self._state: ProcessState | None = None
        self._base: dict[str, Any] = {}
        self._known: set[int] = set()
        self._earlier: defaultdict[str, list[Any]] = defaultdict(
            list
        )  # before a fixture changed it
        self._fixture_ended = False

    # Outermost: after the teardown, and when other plugins have put back what is theirs.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Look around before and after a test."""
        if self._state is None:
            self._state = ProcessState(self._rearm)
        self._base = self._state.read()
        self._known = children()
        self._fixture_ended = False
        try:
            return (yield)
        finally:
            self._look(item, self._state)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Take what a fixture changes that outlives the test for what belongs there."""
        state = self._state
        if fixturedef.scope == "function" or state is None:
            return (yield)
        before, running = state.read(), children()
        try:
            return (yield)
        finally:
            self._known |= children() - running
            for name, value in state.read().items():
                if value != before[name]:
                    self._earlier[name].append(self._base[name])
                    self._base[name] = value
                    state.adopt(name)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Take note that such a fixture has ended."""
        self._fixture_ended = self._fixture_ended or fixturedef.scope != "function"

    def pytest_unconfigure(self) -> None:
        """Close what is kept open."""
        if self._state is not None:
            self._state.close()
            self._state = None

    def _look(self, item: pytest.Item, state: ProcessState) -> None:
        told: list[str] = []
        spoiled: list[str] = []
        now = state.read()
        for name, value in now.items():
            before = self._base[name]
            if value == before or (name == "threads of torch" and before is None):
                continue
            if self._fixture_ended and value in self._earlier[name]:
                state.adopt(name)
                continue
            phrase = _phrase(name, value, before)
            told.append(phrase)
            if not state.restore(name, before):
                spoiled.append(phrase)
        told += [f"{name} closed" for name in sorted(item.stash.get(closed_key, ()))]
        item.stash.get(closed_key, set()).clear()
        strays = [pid for pid in children() - self._known if not is_helper(pid)]
        for pid in strays:
            told.append(f"a process that runs on: {pid} {command_of(pid)}".rstrip())
            kill_tree(pid)
        wait_gone(strays, PATIENCE)
        spoiled += [f"process {pid} cannot be killed" for pid in strays if not is_gone(pid)]
        if told:
            self._tell(item, told, spoiled)

    def _tell(self, item: pytest.Item, told: list[str], spoiled: list[str]) -> None:
        test = item.nodeid
        self._sink(LeftBehind(test=test, what=tuple(told), repaired=not spoiled))
        text = f"{test} left behind: {'; '.join(told)}"
        if spoiled:
            text += f"; not put right: {'; '.join(spoiled)}"
            # What is measured after it may be slower than its hardware is.
            self._sink(BlockerFound(text=text))
        message = warnings.WarningMessage(
            pytest.PytestWarning(f"anubis: {text}"),
            pytest.PytestWarning,
            str(item.path),
            (item.location[1] or 0) + 1,
        )
        # Not warnings.warn: with -W error it would raise outside of every test.
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={
                "warning_message": message,
                "when": "runtest",
                "nodeid": test,
                "location": None,
            }
        )


def _phrase(name: str, value: Any, before: Any) -> str:
    if name.startswith("descriptor"):
        return f"{name} {'closed' if value is None else 'is another file'}"
    return f"{name} {_told(value)} (was {_told(before)})"


def _told(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, signal.Handlers):
        return value.name
    if isinstance(value, frozenset):
        value = sorted(value)
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
