"""The error that ends a command with one line for people, and exit code 2."""

from __future__ import annotations


class CommandError(Exception):
    """Wrong usage or input: one line that says what, where and how to fix it."""


def of_file(error: Exception, *, done: str = "read") -> CommandError:
    """Return the error for a file that could not be used, without the system's error number.

    Args:
        error: An error of this package, which is a line for people already, or the system's.
        done: What could not be done with the file.
    """
    if isinstance(error, OSError) and error.filename is not None:
        return CommandError(f"{error.filename}: cannot be {done} ({error.strerror})")
    return CommandError(str(error))
