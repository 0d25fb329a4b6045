"""Work per energy, by the device's own counter."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_anubis import DeviceFixture

BATCH = 0.02
"""Seconds of work between two looks at the counter: a fifth of the time that it takes to move."""

PATIENCE = 5.0
"""Seconds after which a counter that does not move under load is taken to stand still."""


class CounterError(RuntimeError):
    """The energy counter does not move under load, or no longer answers."""


class Efficiency:
    """Work per joule of a callable, over windows that begin and end when the counter moves.

    Args:
        fn: The work; need not wait for the device.
        work: What one call does.
        device: Counts its energy.
        seconds: Least length of a window.
    """

    def __init__(
        self, fn: Callable[[], object], work: float, device: DeviceFixture, seconds: float
    ) -> None:
        self._fn = fn
        self._work = work
        self._device = device
        self._seconds = seconds
        self._calls = 1

    def moves(self) -> bool:
        """Work until the counter moves; return whether it does: in some virtual machines it never does."""
        try:
            self._until_it_moves(0.0)
        except CounterError:
            return False
        return True

    def value(self) -> float:
        """Return 10^9 work per joule of one window.

        Raises:
            CounterError: The counter does not move under load, or can no longer be read.
        """
        before, _ = self._until_it_moves(0.0)
        after, calls = self._until_it_moves(self._seconds)
        return calls * self._work / (after - before) / 1e9

    def _until_it_moves(self, least: float) -> tuple[float, int]:
        """Work so long and until the counter moves; return its joules and how many calls that were."""
        begin = time.monotonic()
        first = self._joules()
        done = 0
        while True:
            start = time.monotonic()
            for _ in range(self._calls):
                self._fn()
            self._device.synchronize()
            done += self._calls
            now = time.monotonic()
            if now - start < BATCH / 2:
                self._calls *= 2
            if now - begin < least:
                first = self._joules()
                continue
            joules = self._joules()
            if joules > first:
                return joules, done
            if now - begin > least + PATIENCE:
                raise CounterError(f"the energy counter stood still for {PATIENCE:g} s under load")

    def _joules(self) -> float:
        found = self._device.energy()
        if found is None:
            raise CounterError("the energy counter does not answer any more")
        return found
