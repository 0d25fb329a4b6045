"""Print lines and JSON, and write files, for all commands; text from a file cannot command a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.report.text.text_table import wrap
from pytest_anubis.store.atomic import write_atomically

_program_outputs: list[TextIO] = []
"""The standard output, while a program reads it."""

_COMMAND = re.compile(r"\b(anubis|pytest) (--?[a-z]|[a-z])")
"""A command to be typed: a terminal must not break it, or its first half would be run when it is pasted."""

_lost: list[str] = []
"""Why an output took no more text, such as a full disk, until `lost_output` is called."""


def say(*lines: str, file: TextIO | None = None, flush: bool = False) -> None:
    """Print lines of text; on a terminal, long sentences continue on the next line, between words.

    Rows of tables and lines with a command to be typed stay one line. A name from a journal, a baseline or a
    table may hold line ends, colours and terminal commands: they are printed as escapes. With `flush` the
    lines are written at once.
    """
    width = edge(file)
    parts = (part for line in lines for part in _parts(printable(line), width))
    show("".join(f"{part}\n" for part in parts), file=file)
    if flush:
        flush_output(file)


def _parts(line: str, width: int | None) -> list[str]:
    """Return a line as the lines that a terminal shows."""
    text = line.lstrip()
    if width is None or "  " in text or _COMMAND.search(text):
        return [line]
    return wrap(line, width, indent=" " * (len(line) - len(text) + 2))


def edge(file: TextIO | None = None) -> int | None:
    """Return the columns after which a terminal breaks words; None for any other output."""
    out = file or sys.stdout
    try:
        return shutil.get_terminal_size().columns if out.isatty() else None
    except (OSError, ValueError, AttributeError):  # closed, or an output of the caller's own making
        return None


def show(text: str, *, file: TextIO | None = None) -> None:
    """Print text as it is, without wrapping, on the present standard output; JSON goes through `show_answer`.

    Characters that the output's encoding lacks become escapes. If the reader has gone (``head``, ``less``) or
    a disk is full, the rest of the text is dropped: the command still has files to write and a verdict.
    """
    out = file or sys.stdout
    encoding = getattr(out, "encoding", None) or "utf-8"
    try:
        out.write(text.encode(encoding, "backslashreplace").decode(encoding))
    except OSError as error:
        _discard_rest(out, error)


def few(names: Sequence[str], most: int) -> str:
    """Return the first names in a line, with ``...`` for others."""
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def flush_output(file: TextIO | None = None) -> None:
    """Write everything that was printed so far, if there still is a reader."""
    out = file or sys.stdout
    try:
        out.flush()
    except OSError as error:
        _discard_rest(out, error)


def lost_output() -> str:
    """Return why printed text was lost, and forget it; empty if none was lost."""
    reason = _lost[0] if _lost else ""
    _lost.clear()
    return reason


def _discard_rest(out: TextIO, error: OSError) -> None:
    """Point the descriptor at the null device, so that the buffer and child processes can still write."""
    if not isinstance(error, BrokenPipeError):  # a reader that closes the pipe has what it wanted
        _lost.append(error.strerror or str(error))
    with contextlib.suppress(OSError):  # without a descriptor it has no buffer of its own either
        descriptor = out.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def terminal_width() -> int | None:
    """Return the columns of the terminal, or COLUMNS; None for another output without COLUMNS."""
    if os.environ.get("COLUMNS", "").isdecimal() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def write_json(path: str, document: Mapping[str, Any], *, aside: bool = False) -> None:
    """Write strict JSON to a file, or to the standard output for ``-``; `aside` as in `write_file`."""
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    write_file(Path(path), text, aside=aside)


@contextlib.contextmanager
def words_aside(*, wanted: bool) -> Iterator[None]:
    """Print text for people on the standard error, as a program reads the standard output.

    What is written to the file ``-`` still goes to the standard output.
    """
    if not wanted:
        yield
        return
    _program_outputs.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _program_outputs.pop()


def show_answer(text: str) -> None:
    """Print what a program asked for, such as JSON, on the real standard output, even in `words_aside`."""
    show(text, file=_program_outputs[-1] if _program_outputs else None)


def answer(place: str | None, document: Mapping[str, Any], *lines: str) -> None:
    """Give a command's answer as lines for people, as JSON, or both, by the value of ``--json``.

    Without a place the lines are printed, a file is written as well, and ``-`` prints the JSON alone.
    """
    if place != "-":
        say(*lines)
    if place is not None:
        write_json(place, document)


def write_file(path: Path, text: bytes | str, *, aside: bool = False) -> None:
    """Write a file whole or not at all, and say so; ``-`` is the standard output for a text.

    With `aside` it is said on the standard error, as the output itself is for programs.
    """
    if str(path) == "-" and isinstance(text, str):
        show_answer(text)
        return
    try:
        write_atomically(path, text)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written ({error.strerror})") from error
    say(f"written: {path}", file=sys.stderr if aside else None)
