"""Finds, reports and repairs what a test leaves behind, before it disturbs the next measurement.

`start` and `worker` use it.
"""

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

KILL_SECONDS = 2.0
"""Seconds in which killed processes must be gone; the next test waits for them."""

_MAX_VALUE_LENGTH = 120
"""Reported characters of a value."""


class Leftovers:
    """Plugin that compares the process before and after every test.

    Changes by fixtures of a class, module, package or session are no leftovers, because they outlive a test
    on purpose; the end of such a fixture may undo them. `rearm` restores the handler of our stack signal.
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
        self._before_fixtures: defaultdict[str, list[Any]] = defaultdict(list)
        self._fixture_ended = False

    # Outermost: after the teardown, and after other plugins have undone their own changes.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Compare the process before and after a test."""
        if self._state is None:
            self._state = ProcessState(self._rearm)
        self._base = self._state.read()
        self._known = children()
        self._fixture_ended = False
        try:
            return (yield)
        finally:
            self._compare(item, self._state)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Accept the changes of a fixture that outlives the test."""
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
                    self._before_fixtures[name].append(self._base[name])
                    self._base[name] = value
                    state.adopt(name)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Record that such a fixture has ended."""
        self._fixture_ended = self._fixture_ended or fixturedef.scope != "function"

    def pytest_unconfigure(self) -> None:
        """Close the copies of the standard streams."""
        if self._state is not None:
            self._state.close()
            self._state = None

    def _compare(self, item: pytest.Item, state: ProcessState) -> None:
        found: list[str] = []
        unrepaired: list[str] = []
        for name, value in state.read().items():
            before = self._base[name]
            if value == before or (name == "threads of torch" and before is None):
                continue
            if self._fixture_ended and value in self._before_fixtures[name]:
                state.adopt(name)
                continue
            phrase = _phrase(name, value, before)
            found.append(phrase)
            if not state.restore(name, before):
                unrepaired.append(phrase)
        found += [f"{name} closed" for name in sorted(item.stash.get(closed_key, ()))]
        item.stash.get(closed_key, set()).clear()
        strays = [pid for pid in children() - self._known if not is_helper(pid)]
        for pid in strays:
            found.append(f"a process that runs on: {pid} {command_of(pid)}".rstrip())
            kill_tree(pid)
        wait_gone(strays, KILL_SECONDS)
        unrepaired += [f"process {pid} cannot be killed" for pid in strays if not is_gone(pid)]
        if found:
            self._report(item, found, unrepaired)

    def _report(self, item: pytest.Item, found: list[str], unrepaired: list[str]) -> None:
        test = item.nodeid
        self._sink(LeftBehind(test=test, what=tuple(found), repaired=not unrepaired))
        text = f"{test} left behind: {'; '.join(found)}"
        if unrepaired:
            text += f"; not put right: {'; '.join(unrepaired)}"
            # Later measurements may be slower than the hardware is.
            self._sink(BlockerFound(text=text))
        message = warnings.WarningMessage(
            pytest.PytestWarning(f"anubis: {text}"),
            pytest.PytestWarning,
            str(item.path),
            (item.location[1] or 0) + 1,
        )
        # warnings.warn would raise outside of every test with -W error.
        self._config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": message, "when": "runtest", "nodeid": test, "location": None}
        )


def _phrase(name: str, value: Any, before: Any) -> str:
    if name.startswith("descriptor"):
        return f"{name} {'closed' if value is None else 'is another file'}"
    return f"{name} {_shown(value)} (was {_shown(before)})"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, signal.Handlers):
        return value.name
    if isinstance(value, frozenset):
        value = sorted(value)
    text = str(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}..."
