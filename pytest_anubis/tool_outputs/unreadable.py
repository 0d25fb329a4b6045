"""The error of all readers, and how a number is read strictly."""

from __future__ import annotations

import math
import re

# ASCII digits only, and few enough that no text makes Python work: `float` takes "1_0", "nan" and "٣" too.
_NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,3})?|\.[0-9]{1,40}")
_COUNT = re.compile(r"[0-9]{1,18}")
_SHOWN = 80
"""Characters of a line that are shown: what differs from the known format is at its beginning."""
_MESSAGE = 400
"""Characters of a message: names that a tool prints may have any length."""


class UnreadableOutput(ValueError):
    """A tool printed something else than what is known of its format: it says nothing about the hardware.

    A test that raises it is INCONCLUSIVE, never a PASS.

    Args:
        tool: Name of the tool.
        what: What is wrong, in one line.
        version: Of the tool; empty where it is not known.
    """

    def __init__(self, tool: str, what: str, version: str = "") -> None:
        what = " ".join(what[:_MESSAGE].split())  # one line, whatever the tool printed
        super().__init__(f"output of {called(tool, version)} cannot be read: {what}")
        self.tool = tool
        self.what = what
        self.version = version


def called(tool: str, version: str) -> str:
    """Return a tool's name with its version, which may hold the name already."""
    return version if tool in version else f"{tool} {version}".rstrip()


def shown(text: str) -> str:
    """Return a text of a tool as it may stand in a message: quoted, in one line, cut."""
    return repr(text[:_SHOWN]) + ("..." if len(text) > _SHOWN else "")


def number(word: str, tool: str, what: str) -> float:
    """Return a number that is finite and not negative.

    Args:
        word: As the tool printed it.
        tool: Name of the tool, for the message.
        what: What the number is, with its place.

    Raises:
        UnreadableOutput: It is none.
    """
    if _NUMBER.fullmatch(word) is None or not math.isfinite(value := float(word)):
        raise UnreadableOutput(tool, f"{what}: {shown(word)} is no number")
    return value


def count(word: str, tool: str, what: str) -> int:
    """Return a whole number that is not negative; as `number`."""
    if _COUNT.fullmatch(word) is None:
        raise UnreadableOutput(tool, f"{what}: {shown(word)} is no whole number")
    return int(word)
