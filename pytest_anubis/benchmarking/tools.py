"""Tools: running another program fail-closed, and saying which version it was.

A program is started with a list of arguments, never through a shell, in a process group of its own that ends
with it or at the deadline. What it prints is bounded. A tool that is missing leaves the test out with a hint
how to install it, one that fails fails the test, and an output that cannot be read decides nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

import pytest

MOST_OUTPUT = 16 << 20
"""Bytes of a tool's output that are read: `dcgmi diag` prints some hundred kilobytes; a tool that prints this
much has gone wild, and its output is unreadable."""

SHOWN = 5
"""Lines of a tool's output that a message shows: the last ones say why it ended."""

VERSION_SECONDS = 30.0
"""What a tool has to say its version: those for accelerators load a driver first."""

_WIDEST = 200
"""Characters of one line that a message shows."""


class ToolFailed(RuntimeError):
    """A tool ended with an error or not at all: a failure of the test."""


class UnreadableOutput(RuntimeError):
    """A tool's output is not what its adapter knows: the test is INCONCLUSIVE, never a pass.

    Args:
        tool: Its name.
        version: Its version as it says it; empty if it does not.
        line: The line that cannot be read, or what is missing.
    """

    def __init__(self, tool: str, version: str, line: str) -> None:
        said = version if tool in version else f"{tool} {version or 'of unknown version'}"
        super().__init__(f"output of {said} cannot be read: {_short(line)!r}")
        self.tool, self.version, self.line = tool, version, line


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool printed.

    Attributes:
        tool: Its name.
        version: Its version, as given to `run_tool`.
        output: Its standard output.
        errors: Its standard error.
    """

    tool: str
    version: str
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        """The lines of the standard output."""
        return self.output.splitlines()

    def unreadable(self, line: str) -> NoReturn:
        """Say that a line, or the lack of one, is not what the adapter knows.

        Raises:
            UnreadableOutput: Always.
        """
        raise UnreadableOutput(self.tool, self.version, line)


def find_tool(name: str, *, hint: str, variable: str = "") -> str:
    """Return the path of a program; a test whose tool is missing is left out as not tested.

    Args:
        name: Its name in PATH.
        hint: How to install it, one phrase.
        variable: Environment variable that may hold its path, for tools that are built by hand.
    """
    chosen = os.environ.get(variable, "") if variable else ""
    found = shutil.which(chosen or name)
    if found is None:
        where = f" ({variable}={chosen})" if chosen else ""
        pytest.skip(f"{name} not found{where}: {hint}")
    return found


def tool_version(
    tool: str,
    arguments: Sequence[str] = ("--version",),
    *,
    record_property: Callable[[str, object], None] | None = None,
) -> str:
    """Return the first line of what a tool says of its version; empty where it does not say it.

    Args:
        tool: Path of the program.
        arguments: What makes it say so.
        record_property: pytest's fixture of that name: keeps the version with the test as ``tool_NAME``.
    """
    try:
        said = run_tool([tool, *arguments], timeout=VERSION_SECONDS)
        lines = [line.strip() for line in (said.output + "\n" + said.errors).splitlines()]
    except ToolFailed:
        lines = []
    version = _short(next(filter(None, lines), ""))
    if record_property is not None:
        record_property(f"tool_{Path(tool).name}", version or "unknown version")
    return version


def run_tool(
    argv: Sequence[str],
    *,
    timeout: float,
    version: str = "",
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    accept: Sequence[int] = (0,),
) -> ToolOutput:
    """Run a program and return what it printed.

    Args:
        argv: Program and arguments.
        timeout: Seconds after which the program and all that it started are killed.
        version: Its version, for messages about its output.
        environment: Variables to set besides those of this process; numbers are asked for in the C locale.
        cwd: Folder to run it in.
        accept: Exit statuses that are no failure.

    Raises:
        ToolFailed: It could not be started, ended with another status, or did not end in time; the message
            has its last lines.
        UnreadableOutput: It printed more than `MOST_OUTPUT`.
        TypeError: `argv` is one text, which only a shell could take apart.
    """
    if isinstance(argv, str):
        raise TypeError(f"argv must be a list of arguments, found {argv!r}")
    name = Path(argv[0]).name
    variables = {**os.environ, "LC_ALL": "C", **(environment or {})}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=variables,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolFailed(f"{name} cannot be started: {error}") from None
        late = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            late = True
        finally:  # also when an interrupt arrives; and what it started and left behind
            _end_group(process)
        if os.fstat(output.fileno()).st_size > MOST_OUTPUT:
            raise UnreadableOutput(name, version, f"more than {MOST_OUTPUT >> 20} MiB of output")
        said = ToolOutput(name, version, _text(output), _text(errors))
    if late:
        raise ToolFailed(f"{name} did not end within {timeout:g} s{_last_lines(said)}")
    if process.returncode not in accept:
        code = process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
        raise ToolFailed(f"{name} {how}{_last_lines(said)}")
    return said


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a program and its group, and reap it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # nothing is left
        pass
    except PermissionError:  # a member has other rights; the program itself is ours
        process.kill()
    process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MOST_OUTPUT).decode(errors="replace")


def _last_lines(said: ToolOutput) -> str:
    lines = [line for line in (said.errors.strip() or said.output.strip()).splitlines() if line]
    return ": " + " | ".join(map(_short, lines[-SHOWN:])) if lines else ""


def _short(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _WIDEST else line[: _WIDEST - 1] + "…"
