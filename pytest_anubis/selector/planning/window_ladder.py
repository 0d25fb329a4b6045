"""Make the plan of a larger window never worth less than that of a smaller one.

A plan of a window is also a plan of every window that is longer, or has more lanes or more units. So each
window takes the best of its own plan and those of its smaller neighbours: one step down a ladder of lengths
(whole hours) or of amounts. By induction no window is worth less than any that such steps lead to. Most
neighbours need no plan, because the dual bound at the window's own prices excludes a better one.
`window_plan` uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_anubis.selector.planning.window_problem import Window
from pytest_anubis.selector.planning.window_solution import PlanningProblem, WindowSolution

HOUR = 3600.0
MAX_NODES_SOLVED = 4_000
"""Nodes times smaller windows that are planned: a hundred windows for forty nodes, four for a thousand, none
for ten thousand, whose plan may take a minute. There only the bound excludes neighbours: where a step is
worth more than the gap, as an hour is where time is scarce, it proves the larger window worth no less."""


class WindowLadder:
    """The best known plans of the windows of one problem."""

    def __init__(self, problem: PlanningProblem, nodes: int) -> None:
        self._problem = problem
        self._left = MAX_NODES_SOLVED // max(1, nodes)
        self._own: dict[tuple[object, ...], WindowSolution] = {}
        self._best: dict[tuple[object, ...], WindowSolution] = {}

    def best(self, window: Window) -> WindowSolution:
        """Return the best known plan of a window, never worth less than those of its smaller neighbours."""
        return self._climb(window, self.own(window))

    def own(self, window: Window) -> WindowSolution:
        """Return the plan that was made for this very window."""
        key = _key(window)
        if key not in self._own:
            self._own[key] = self._problem.solve(window)
        return self._own[key]

    def _climb(self, window: Window, top: WindowSolution) -> WindowSolution:
        key = _key(window)
        if key in self._best:
            return self._best[key]
        best = own = self.own(window)
        for smaller in neighbours(window):
            if not best.unpinned and top.bound_within(smaller) <= best.value:
                continue  # no plan of it is worth more, nor of those below it
            if _key(smaller) not in self._own:
                if self._left <= 0:
                    continue
                self._left -= 1
            found = self._climb(smaller, top).within(own)
            if found.better(best):
                best = found
        self._best[key] = best
        return best


def neighbours(window: Window) -> Iterator[Window]:
    """Yield the windows that are one step smaller: shorter, with fewer lanes, or fewer units of one pool."""
    hours = -(-window.seconds // HOUR) - 1
    if hours >= 1:
        yield replace(window, seconds=hours * HOUR)
    if window.at_once is not None and window.at_once > 1:
        yield replace(window, at_once=_step_down(window.at_once))
    for pool, count in sorted(window.pools.items()):
        if count > 0:
            yield replace(window, pools={**window.pools, pool: _step_down(count)})


def _step_down(count: int) -> int:
    """Return the next amount below on the ladder 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on."""
    if count <= 1:
        return 0
    power = 1 << (count - 1).bit_length() - 1  # the largest power of two below count
    return max(power, power + power // 2 if power + power // 2 < count else power)


def _key(window: Window) -> tuple[object, ...]:
    return window.seconds, window.at_once, *sorted(window.pools.items())
