"""Which options allow what disturbed some measurements: the limits that it takes, all at once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

# As `disturbance.disturbances` words them, which rounds: shares to whole percent, CPUs to tenths.
_SHARES = {
    "steal": re.compile(r"^(\d+) % steal"),
    "cpu": re.compile(r"^CPU pressure (\d+) %"),
    "memory": re.compile(r"^memory pressure (\d+) %"),
    "io": re.compile(r"^I/O pressure (\d+) %"),
}
_OTHERS = re.compile(r"^other processes used (\d+\.\d) of (\d+) cores?")
_NAME = re.compile(r"(?:: |, )([^,]+?) \(pid \d+\) \d")
_UNTYPABLE = re.compile(r"[^\w.:/@+-]")


def limits_allowing(phrases: Iterable[str]) -> dict[str, int]:
    """Return the lowest limits, in percent, with which none of these phrases would have been said.

    Args:
        phrases: What disturbed measurements, as they have it.

    Returns:
        Name of the limit -> percent, at most 100; nothing of what no limit is about, such as a quota.
    """
    found: dict[str, int] = {}
    for phrase in phrases:
        for name, percent in _percents(phrase):
            found[name] = min(100, max(found.get(name, 0), percent))
    return found


def processes_named(phrases: Iterable[str]) -> tuple[str, ...]:
    """Return the commands that phrases name, as patterns that can be typed, each once."""
    names = (name.strip() for phrase in phrases for name in _NAME.findall(phrase))
    return tuple(dict.fromkeys(_UNTYPABLE.sub("?", name) for name in names))


def option_text(limits: Mapping[str, float]) -> str:
    """Return the option with these limits, in percent; empty without any."""
    told = ",".join(f"{name}={percent:g}%" for name, percent in limits.items())
    return f"--anubis-quiet-limit={told}" if told else ""


def _percents(phrase: str) -> Iterable[tuple[str, int]]:
    for name, words in _SHARES.items():
        if told := words.match(phrase):
            yield name, int(told.group(1)) + 1  # it was rounded, by half of that at most
    if told := _OTHERS.match(phrase):
        used = float(told.group(1)) + 0.05  # the same
        yield "others", math.ceil(100 * used / int(told.group(2)))
