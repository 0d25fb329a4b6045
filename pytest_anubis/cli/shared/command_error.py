"""The error that ends a command with one line for people, and exit code 2."""

from __future__ import annotations


class CommandError(Exception):
    """Wrong usage or input: one line that says what, where and how to fix it."""


def of_file(error: Exception, *, done: str = "read") -> CommandError:
    """Return the line for a file that cannot be used (not `done`), without the system's error number.

    An error of this package is a line for people already.
    """
    if isinstance(error, OSError) and error.filename is not None:
        return CommandError(f"{error.filename}: cannot be {done} ({error.strerror})")
    return CommandError(str(error))
