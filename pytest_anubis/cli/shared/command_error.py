"""The error that ends a command with a line for people, as error classes of other parts do."""

from __future__ import annotations


class CommandError(Exception):
    """Wrong usage or input: one line that says what, where and how to fix it."""


def of_file(error: Exception, *, done: str = "read") -> CommandError:
    """Return the line for a file that could not be used, without the number that the system gives its reason.

    Args:
        error: One of ours, which is a line for people already, or the system's.
        done: What could not be done with the file.
    """
    if isinstance(error, OSError) and error.filename is not None:
        return CommandError(f"{error.filename}: cannot be {done} ({error.strerror})")
    return CommandError(str(error))
