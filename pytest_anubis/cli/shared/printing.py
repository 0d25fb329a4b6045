"""What the commands print and write: the one way to the terminal, where text out of a file stays text."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.report.text.text_table import printable, wrap
from pytest_anubis.store.atomic import write_atomically

_programs: list[TextIO] = []
"""The standard output, while it is for a program and not for people."""

_COMMAND = re.compile(r"\b(anubis|pytest) (--?[a-z]|[a-z])")
"""What is to be typed: broken by us, its first half would be run when it is pasted."""

_lost: list[str] = []
"""Why an output took no more text (a full disk), until somebody asks."""


def say(*lines: str, file: TextIO | None = None, flush: bool = False) -> None:
    """Print lines of text; a terminal has sentences that are longer than it go on below, between words.

    A row of a table and what holds a command to be typed stay one line everywhere.

    A name out of a journal, a baseline or a table may hold line ends, colours and commands for the
    terminal: they are shown as escapes, so every line is ours.

    Args:
        lines: One string a line, without line ends.
        file: Where to; default the standard output.
        flush: Have it seen at once.
    """
    width = edge(file)
    parts = (part for line in lines for part in _parts(printable(line), width))
    show("".join(f"{part}\n" for part in parts), file=file)
    if flush:
        flush_output(file)


def _parts(line: str, width: int | None) -> list[str]:
    """Return a line as a terminal is to show it."""
    said = line.lstrip()
    if width is None or "  " in said or _COMMAND.search(said):
        return [line]
    return wrap(line, width, indent=" " * (len(line) - len(said) + 2))


def edge(file: TextIO | None = None) -> int | None:
    """Return the columns after which a terminal breaks words; None of what is none."""
    out = file or sys.stdout
    try:
        return shutil.get_terminal_size().columns if out.isatty() else None
    except (OSError, ValueError, AttributeError):  # closed, or an output of somebody's own making
        return None


def show(text: str, *, file: TextIO | None = None) -> None:
    """Print text that another program reads, such as JSON, as it is.

    What the encoding of the terminal does not have is written as an escape. Whoever reads may have seen
    enough (``head``, ``less``), or a disk be full: then the rest goes nowhere, and the command goes on, as
    it has files to write and a verdict to give.
    """
    out = file or sys.stdout
    encoding = getattr(out, "encoding", None) or "utf-8"
    try:
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
    except OSError as error:
        _lead_nowhere(out, error)


def flush_output(file: TextIO | None = None) -> None:
    """Have everything seen that was printed so far, if somebody reads it still."""
    out = file or sys.stdout
    try:
        out.flush()
    except OSError as error:
        _lead_nowhere(out, error)


def lost_output() -> str:
    """Return why something that was printed stands nowhere, and forget it; empty where nobody missed it."""
    said = _lost[0] if _lost else ""
    _lost.clear()
    return said


def _lead_nowhere(out: TextIO, error: OSError) -> None:
    """Let an output that takes no more end in the null device, for child processes and the buffer too."""
    if not isinstance(error, BrokenPipeError):  # whoever closes a pipe has what he wanted
        _lost.append(error.strerror or str(error))
    with contextlib.suppress(OSError):  # one that has no descriptor has no buffer of its own either
        descriptor = out.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def terminal_width() -> int | None:
    """Return the columns of the terminal; None where the output is none: then a line is one line."""
    if os.environ.get("COLUMNS", "").isdecimal() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def write_json(path: str, document: Mapping[str, Any], *, aside: bool = False) -> None:
    """Write strict JSON to a file, or to the standard output for ``-``; `aside` as in `write_file`.

    Raises:
        CommandError: The file cannot be written.
    """
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    write_file(Path(path), text, aside=aside)


@contextlib.contextmanager
def words_aside(*, wanted: bool) -> Iterator[None]:
    """Have what is said for people on the standard error, as the standard output is for a program.

    What is written to the file ``-`` goes to the standard output all the same.
    """
    if not wanted:
        yield
        return
    _programs.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _programs.pop()


def show_answer(text: str) -> None:
    """Print what a program asked for, such as JSON, on the standard output."""
    show(text, file=_programs[-1] if _programs else None)


def answer(place: str | None, document: Mapping[str, Any], *lines: str) -> None:
    """Give a command's answer as lines for people, as JSON, or both.

    Args:
        place: The value of ``--json``: None prints the lines, a file is written beside them, ``-`` prints the
            JSON and nothing else.
        document: What the lines say.
        lines: For people.

    Raises:
        CommandError: The file cannot be written.
    """
    if place != "-":
        say(*lines)
    if place is not None:
        write_json(place, document)


def write_file(path: Path, text: str, *, aside: bool = False) -> None:
    """Write a file whole or not at all, and say so; ``-`` is the standard output.

    Args:
        path: The file.
        text: What it is to hold.
        aside: Say so on the standard error, as the output itself is for programs.

    Raises:
        CommandError: It cannot be written.
    """
    if str(path) == "-":
        show_answer(text)
        return
    try:
        write_atomically(path, text)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written ({error.strerror})") from error
    say(f"written: {path}", file=sys.stderr if aside else None)
