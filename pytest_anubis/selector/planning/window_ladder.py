"""A larger window is never worth less: what was found for smaller ones is a candidate for it.

A plan of a window is a plan of every window that is longer, or has more places or more of a pool. So beside
its own plan each window takes the best of those of its smaller neighbours: one step down a ladder of lengths
(whole hours) or of amounts. By induction no window is worth less than any that such steps lead to. Most
neighbours need no plan: the dual bound at the window's own prices says that none of theirs is better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_anubis.selector.planning.window_problem import Window
from pytest_anubis.selector.planning.window_solution import Problem, Solution

HOUR = 3600.0
SOLVED = 4_000
"""Nodes times smaller windows that are planned at most: a hundred for forty nodes, four for a thousand, none
for ten thousand, whose plan has a minute. There only the bound speaks: where a step is worth more than the
gap, as an hour is where time is scarce, the larger window is proved to be worth no less."""


class Ladder:
    """The best known plans of the windows of one problem."""

    def __init__(self, problem: Problem, nodes: int) -> None:
        self._problem = problem
        self._left = SOLVED // max(1, nodes)
        self._own: dict[tuple[object, ...], Solution] = {}
        self._best: dict[tuple[object, ...], Solution] = {}

    def best(self, window: Window) -> Solution:
        """Return the best known plan of a window: never worth less than those of its smaller neighbours."""
        return self._climb(window, self.own(window))

    def own(self, window: Window) -> Solution:
        """Return the plan that is made for a window itself."""
        key = _key(window)
        if key not in self._own:
            self._own[key] = self._problem.solve(window)
        return self._own[key]

    def _climb(self, window: Window, top: Solution) -> Solution:
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
    """Yield the windows that are one step smaller: shorter, with fewer places, or less of one pool."""
    hours = -(-window.seconds // HOUR) - 1
    if hours >= 1:
        yield replace(window, seconds=hours * HOUR)
    if window.at_once is not None and window.at_once > 1:
        yield replace(window, at_once=_fewer(window.at_once))
    for pool, count in sorted(window.pools.items()):
        if count > 0:
            yield replace(window, pools={**window.pools, pool: _fewer(count)})


def _fewer(count: int) -> int:
    """Return the next amount below on the ladder 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on."""
    if count <= 1:
        return 0
    two = 1 << (count - 1).bit_length() - 1  # the largest power of two below count
    return max(two, two + two // 2 if two + two // 2 < count else two)


def _key(window: Window) -> tuple[object, ...]:
    return window.seconds, window.at_once, *sorted(window.pools.items())
