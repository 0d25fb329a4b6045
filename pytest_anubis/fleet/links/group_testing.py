"""Bisection: which nodes make a collective fail that only fails when many take part.

The answer of one test is whether a subset of the nodes fails. Whoever contains a failing subset fails too
(monotone); then a smallest failing subset is found by QuickXplain (Junker, "QUICKXPLAIN: Preferred
explanations and relaxations for over-constrained problems", AAAI 2004) with at most 2 k (1 + log2(N / k))
tests for k of N nodes. For a single node that is binary splitting (Hwang, "A method for detecting all
defective members in a population by group testing", 1972), ceil(log2 N) tests and those that confirm it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Fails = Callable[[tuple[int, ...]], bool]


@dataclass(frozen=True, slots=True)
class Culprits:
    """Nodes that together make it fail.

    Attributes:
        nodes: A smallest failing subset: without any one of them the rest of it passes.
        by_number: Other nodes of the same number fail as well: it is how many take part, not which.
    """

    nodes: tuple[int, ...]
    by_number: bool = False


@dataclass(frozen=True, slots=True)
class Bisected:
    """What a bisection found.

    Attributes:
        culprits: Disjoint failing subsets, in the order in which they were found; empty if all nodes
            together pass.
        tests: How many tests it took.
        complete: What is left of the nodes passes; otherwise the tests ran out.
    """

    culprits: tuple[Culprits, ...]
    tests: int
    complete: bool


class _Spent(Exception):
    """No further test is allowed."""


class _Counted:
    """Asks each subset once, or until it fails as often as wanted, and counts."""

    def __init__(self, fails: Fails, partners: Sequence[int], least: int, repeats: int, most: int):
        self._fails = fails
        self._partners = partners
        self._least = least
        self._repeats = repeats
        self._most = most
        self._known: dict[frozenset[int], bool] = {}
        self.tests = 0

    def __call__(self, nodes: Sequence[int]) -> bool:
        chosen = list(dict.fromkeys(nodes))
        if not chosen:
            return False
        spare = (node for node in self._partners if node not in chosen)
        while len(chosen) < self._least:
            partner = next(spare, None)
            if partner is None:
                return False  # too few to run: that cannot be what fails
            chosen.append(partner)
        key = frozenset(chosen)
        if key not in self._known:
            self._known[key] = any(self._asked(tuple(chosen)) for _ in range(self._repeats))
        return self._known[key]

    def _asked(self, nodes: tuple[int, ...]) -> bool:
        if self.tests >= self._most:
            raise _Spent
        self.tests += 1
        return self._fails(nodes)


def bisect(
    nodes: Sequence[int],
    fails: Fails,
    *,
    partners: Sequence[int] = (),
    least: int = 2,
    repeats: int = 1,
    most: int = 1000,
) -> Bisected:
    """Return which subsets of nodes make it fail, each as small as it can be.

    Args:
        nodes: All that took part when it failed.
        fails: Runs it on some of them; True if it failed.
        partners: Nodes known to be good, that fill a subset up to `least`; without them a single node that is
            to blame is found together with another one.
        least: Nodes that it needs to run at all.
        repeats: How often a subset has to pass to be taken for good: what fails only with probability p is
            missed with (1 - p) ** repeats.
        most: Tests at most; what was found until then is returned.

    Raises:
        ValueError: A node is named twice, or there is nothing to repeat.
    """
    if len(set(nodes)) < len(nodes) or repeats < 1 or least < 1:
        raise ValueError("each node once, at least one repeat, and at least one node")
    ask = _Counted(fails, partners, least, repeats, most)
    left, found = list(nodes), []
    try:
        while ask(left):
            smallest = _explain([], False, left, ask)
            others = [node for node in left if node not in smallest]
            # As many others: if they fail too, the names say nothing.
            alike = len(others) >= len(smallest) > 1 and ask(others[: len(smallest)])
            found.append(Culprits(tuple(smallest), alike))
            if alike:
                break
            left = others
    except _Spent:
        return Bisected(tuple(found), ask.tests, False)
    return Bisected(tuple(found), ask.tests, True)


def _explain(background: list[int], grown: bool, candidates: list[int], ask: _Counted) -> list[int]:
    """Return the fewest candidates with which the background fails; it does with all of them.

    Args:
        background: Nodes that take part in any case.
        grown: The background got nodes since it was last seen to pass.
        candidates: Nodes among which to search.
        ask: Says whether a subset fails.
    """
    if grown and ask(background):
        return []
    if len(candidates) <= 1:
        return candidates
    half = len(candidates) // 2
    first, second = candidates[:half], candidates[half:]
    needed = _explain([*background, *first], bool(first), second, ask)
    others = _explain([*background, *needed], bool(needed), first, ask)
    return [*others, *needed]
