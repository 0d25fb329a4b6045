"""The error that all readers of this folder raise, and strict reading of numbers."""

from __future__ import annotations

import math
import re

# ASCII digits only, and a limited number of them: `float` also takes "1_0", "nan" and "٣".
_NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,3})?|\.[0-9]{1,40}")
_COUNT = re.compile(r"[0-9]{1,18}")
_MAX_SHOWN = 80
"""Characters of a line in a message: the difference from the known format is at its beginning."""
_MAX_MESSAGE = 400
"""Characters of a message, since names that a tool prints may have any length."""


class UnreadableOutput(ValueError):
    """A tool's output differs from the known format, which says nothing about the hardware.

    A test that raises it is INCONCLUSIVE, never a PASS.

    Args:
        tool: Name of the tool.
        what: The difference, in one line.
        version: Version of the tool; empty if it is unknown.
    """

    def __init__(self, tool: str, what: str, version: str = "") -> None:
        what = " ".join(what[:_MAX_MESSAGE].split())  # one line, whatever the tool printed
        super().__init__(f"output of {called(tool, version)} cannot be read: {what}")
        self.tool = tool
        self.what = what
        self.version = version


def called(tool: str, version: str) -> str:
    """Return a tool's name with its version, which may hold the name already."""
    return version if tool in version else f"{tool} {version}".rstrip()


def shown(text: str) -> str:
    """Return a tool's text for a message: quoted, in one line, cut."""
    return repr(text[:_MAX_SHOWN]) + ("..." if len(text) > _MAX_SHOWN else "")


def number(word: str, tool: str, what: str) -> float:
    """Return a number that is finite and not negative.

    Raises:
        UnreadableOutput: It is no such number; the message has `what`, the number's meaning and place.
    """
    if _NUMBER.fullmatch(word) is None or not math.isfinite(value := float(word)):
        raise UnreadableOutput(tool, f"{what}: {shown(word)} is no number")
    return value


def count(word: str, tool: str, what: str) -> int:
    """Return a whole number that is not negative; as `number`."""
    if _COUNT.fullmatch(word) is None:
        raise UnreadableOutput(tool, f"{what}: {shown(word)} is no whole number")
    return int(word)
