"""Lists of lines on a page, made shorter: lines that say the same of several things, and repeated ones.

`dossier`, `pytest_html` and `rendering` use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_anubis.core.verdict import Outcome

MIN_ALIKE = 3
"""Lines with the same reason that are merged into one; two are still quick to read."""


def merge_alike(lines: Sequence[str]) -> list[str]:
    """Merge lines that say the same of several things, at the place of the first of them.

    Lines are ``THING: REASON`` each; one of another form stays as it is. Things that differ in their last
    word only, such as devices, share the words before it.
    """
    groups: dict[str, list[str]] = {}
    for line in lines:
        reason = line.partition(": ")[2]
        groups.setdefault(reason or line, []).append(line)
    merged = []
    for reason, group in groups.items():
        if len(group) < MIN_ALIKE or len(set(group)) == 1:
            merged += group
            continue
        last_words: dict[str, list[str]] = {}
        for line in group:
            stem, _, last = line.partition(": ")[0].rpartition(" ")
            last_words.setdefault(stem, []).append(last)
        things = [f"{stem} {', '.join(last)}".strip() for stem, last in last_words.items()]
        outcome = things[0].partition(" ")[0]
        if outcome in list(Outcome) and all(thing.startswith(f"{outcome} ") for thing in things):
            things[1:] = [thing.removeprefix(f"{outcome} ") for thing in things[1:]]
        merged.append(f"{'; '.join(things)}: {reason}")
    return merged


def without_repeated(lines: Iterable[str], listed: Sequence[str]) -> list[str]:
    """Return the lines about tests that another list does not name with the same device.

    The lines are ``TEST: REASON``, TEST with its parameters, as ``t.py::test_copy[cuda:0]``; those of the
    other list ``OUTCOME BENCHMARK METRIC DEVICE: REASON``, or about dead processes.
    """
    return [
        line
        for line in lines
        if not any(_names(line.partition(": ")[0], other) for other in listed)
    ]


def _names(test: str, line: str) -> bool:
    if test in line:
        return True
    name, _, parameters = test.partition("[")
    words = [name, *parameters.rstrip("]").split("-")] if parameters else [name]
    return all(re.search(rf"(?<![\w:]){re.escape(word)}(?![\w-])", line) for word in words)
