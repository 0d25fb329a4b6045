"""Run programs of others from a benchmark: find one, limit its time, and return its output.

A program is started with a list of arguments, never through a shell, and only if no other user can have
installed it. If it is missing, the test is skipped with a hint how to get it. If it fails or hangs, the test
fails with its last lines. If it did not begin, for an option or for lack of resources, or its output is
unknown, the test is INCONCLUSIVE (`ToolRefused`, `UnreadableOutput`), so that no test passes because a word
was not found. `suites/storage/` and `suites/tools/` use it.
"""

from __future__ import annotations

import hashlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn, Self, TypeVar

import pytest

from pytest_anubis.benchmarking.trusted_paths import refusal_of
from pytest_anubis.core.measurement import NOT_INSTALLED, TOOL_PROPERTY
from pytest_anubis.tool_outputs.refusals import refused
from pytest_anubis.tool_outputs.unreadable import UnreadableOutput, called

__all__ = [
    "RunningTool",
    "ToolFailed",
    "ToolHung",
    "ToolOutput",
    "ToolRefused",
    "UnreadableOutput",
    "find_tool",
    "note_tool",
    "run_tool",
    "tool_version",
]

VARIABLE = "PYTEST_ANUBIS_TOOL_"
"""Prefix of the variable with the absolute path of a program to run instead of the one on the PATH; the
tool's name in capitals follows."""

GRACE = 2.0
"""Seconds that a program has to exit on request, and that its children have to close its output."""

MAX_OUTPUT = 16 << 20
"""Maximum bytes of a tool's output: `dcgmi diag` prints some hundred kilobytes."""

VERSION_SECONDS = 30.0
"""Seconds that a tool has to print its version: tools for accelerators load a driver first."""

_LAST_LINES = 4
_LAST_CHARACTERS = 400
_MAX_VERSION = 200
"""Maximum length of a version."""
_FIRST_LINE = r"\A\s*(\S.*)"
_BLOCK = 1 << 16

Record = Callable[[str, object], None]
"""pytest's fixture ``record_property``."""

Value = TypeVar("Value")


class ToolFailed(RuntimeError):
    """A tool failed, so the test fails; the message has the tool's last lines."""

    next_step = (
        "run the tool's command by hand; the last lines that it printed are in the test's report"
    )


class ToolHung(ToolFailed):
    """A tool did not end in time, and was killed."""


class ToolRefused(ToolFailed):
    """A tool did not begin, for an option or lack of resources, so the test is INCONCLUSIVE."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a tool that has ended."""

    tool: str  # its name
    version: str  # its version, as given to `run_tool`
    output: str  # its standard output
    errors: str  # its standard error
    code: int = 0  # its exit status

    @property
    def lines(self) -> list[str]:
        """The lines of the standard output."""
        return self.output.splitlines()

    def read(self, reader: Callable[[str], Value], text: str | None = None) -> Value:
        """Return a reader's result for the standard output, or for another text that the tool wrote.

        Raises:
            UnreadableOutput: The reader does not know the output; the message names the tool's version.
            ToolFailed: The reader does not know it because the tool ended with another status than 0.
        """
        __tracebackhide__ = True
        try:
            return reader(self.output if text is None else text)
        except UnreadableOutput as error:
            self.check()
            raise UnreadableOutput(self.tool, error.what, self.version) from None

    def check(self) -> None:
        """Raise unless the tool ended with status 0; for tools that were run with ``accept=None``.

        Raises:
            ToolFailed: It ended with another status; `ToolRefused`, a subclass, if it did not begin.
        """
        __tracebackhide__ = True
        if self.code:
            name = called(self.tool, self.version)
            why = refused(self.tool, self.code, f"{self.errors}\n{self.output}")
            if why:
                raise ToolRefused(
                    f"{name} did not begin: {why}; it {_ended(self.code)}: {self.last_lines()}"
                )
            raise ToolFailed(f"{name} {_ended(self.code)}: {self.last_lines()}")

    def unreadable(self, what: str) -> NoReturn:
        """Report a line, or the lack of one, that the adapter does not know.

        Raises:
            UnreadableOutput: Always.
        """
        __tracebackhide__ = True
        raise UnreadableOutput(self.tool, what, self.version)

    def last_lines(self) -> str:
        """Return the last lines that it printed, joined into one."""
        return _last_lines(self.errors) or _last_lines(self.output) or "nothing"


def find_tool(*names: str, hint: str, variable: str = "") -> str:
    """Return the path of a program; skip the test, as not tested, if there is none that may be run.

    Args:
        names: Its possible names, the usual one first.
        hint: How to get it, e.g. ``apt install stress-ng``.
        variable: Environment variable that may have the absolute path of a program to run instead of the one
            on the PATH; default: ``PYTEST_ANUBIS_TOOL_`` and the usual name in capitals, with ``_`` for all
            characters other than letters and digits.
    """
    variable = variable or VARIABLE + re.sub(r"[^A-Z0-9]", "_", names[0].upper())
    given = os.environ.get(variable, "")
    found = given or next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        pytest.skip(f"{NOT_INSTALLED}{names[0]} ({hint}; or give its path as {variable})")
    refusal = refusal_of(Path(found))
    if refusal and given:
        mend = f"{variable} names it: give the path of another, or unset it"
        pytest.skip(f"{names[0]} is not run: {refusal}; {mend} ({hint})")
    if refusal:
        pytest.skip(f"{names[0]} is not run: {refusal}")
    return found


def tool_version(
    tool: str,
    arguments: Sequence[str] = ("--version",),
    *,
    pattern: str = "",
    record_property: Record | None = None,
) -> str:
    """Return the version that a tool prints; empty if it prints none.

    Args:
        tool: Path of the program.
        arguments: Arguments that make it print its version.
        pattern: Regular expression whose first group is the version, whatever the exit status; default: the
            first line, if the status is 0 (otherwise that line is an error).
        record_property: pytest's fixture of that name, to note tool and version in the run.
    """
    try:
        said = run_tool([tool, *arguments], timeout=VERSION_SECONDS, accept=None)
    except ToolFailed:
        return ""
    found = re.search(pattern or _FIRST_LINE, f"{said.output}\n{said.errors}"[:_BLOCK])
    says = found if pattern or not said.code else None
    version = says[1].strip()[:_MAX_VERSION] if says else ""
    if record_property is not None:
        note_tool(tool, version, record_property)
    return version


def note_tool(tool: str, version: str, record_property: Record) -> None:
    """Note in the run which tool a test ran, in which version.

    Args:
        tool: Path of the program.
        version: Its version; if empty, the digest of its file is noted.
        record_property: pytest's fixture of that name.
    """
    what = version or f"sha256 {_digest(Path(tool))}"
    record_property(TOOL_PROPERTY, f"{called(Path(tool).name, what)} ({tool})")


def run_tool(
    argv: Sequence[str],
    *,
    timeout: float,
    version: str = "",
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    accept: Sequence[int] | None = (0,),
) -> ToolOutput:
    """Run a program to its end and return its output.

    The program gets no input and this process's environment with the C locale. It runs in its own process
    group, which is killed when it ends or hangs, or when the test is interrupted.

    Args:
        argv: Program and arguments; no shell is used.
        timeout: Seconds after which it is killed.
        version: Its version, for messages.
        environment: Variables to set in addition.
        cwd: Folder to run it in.
        accept: Exit statuses that are no failure; None accepts all.

    Raises:
        ToolHung: It did not end in time.
        ToolFailed: It cannot be started, or ended with another status or by a signal.
        UnreadableOutput: It printed more than `MAX_OUTPUT`.
        TypeError: `argv` is a single string, which only a shell could split.
    """
    __tracebackhide__ = True  # the failure is shown at the test's own call
    with RunningTool(argv, version=version, environment=environment, cwd=cwd) as running:
        return running.wait(timeout, accept=accept)


class RunningTool:
    """A running program; a context manager that ends it with all its children.

    Args:
        argv: Program and arguments.
        version: Its version, for messages.
        environment: Variables to set in addition to those of this process.
        cwd: Folder to run it in.

    Raises:
        ToolFailed: It cannot be started.
        TypeError: `argv` is a single string.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        version: str = "",
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        if isinstance(argv, str):
            raise TypeError(f"argv must be a list of arguments, found {argv!r}")
        self.name = Path(argv[0]).name
        self.version = version
        try:
            self._process = subprocess.Popen(
                list(argv),
                # The file that was checked; argv[0] remains the name by which the program was called.
                executable=os.path.realpath(argv[0]) if Path(argv[0]).is_absolute() else None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C", **(environment or {})},
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolFailed(f"{self.name} cannot be started: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def ended(self) -> bool:
        """It has ended by itself."""
        return self._process.poll() is not None

    def wait(self, timeout: float, *, accept: Sequence[int] | None = (0,)) -> ToolOutput:
        """Return its output when it has ended; arguments and errors as for `run_tool`."""
        __tracebackhide__ = True
        streams = (self._process.stdout, self._process.stderr)
        kept = {stream: bytearray() for stream in streams if stream is not None}
        late = not self._listen(kept, time.monotonic() + timeout)
        if sum(map(len, kept.values())) > MAX_OUTPUT:
            raise UnreadableOutput(
                self.name, f"more than {MAX_OUTPUT >> 20} MiB of output", self.version
            )
        output, errors = (_text(bytes(one)) for one in kept.values())
        said = ToolOutput(self.name, self.version, output, errors, self._process.poll() or 0)
        if late:
            raise ToolHung(
                f"{called(self.name, self.version)} did not end within {timeout:g} s and was killed; it "
                f"last printed: {said.last_lines()}"
            )
        if accept is not None and said.code not in accept:
            said.check()
        return said

    def kill(self) -> None:
        """End the program and its children, first by request, then by force."""
        for number, pause in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
            if self._process.poll() is not None and number is signal.SIGTERM:
                continue
            try:
                os.killpg(self._process.pid, number)
            except (ProcessLookupError, PermissionError):  # the group has no process left
                break
            try:
                self._process.wait(pause)
            except subprocess.TimeoutExpired:
                continue
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _listen(self, kept: dict[IO[bytes], bytearray], until: float) -> bool:
        """Collect the output until the program ends; return False if it takes too long or prints too much."""
        with selectors.DefaultSelector() as selector:
            for stream in kept:
                selector.register(stream, selectors.EVENT_READ, kept[stream])
            while selector.get_map():
                ended = self.ended  # checked before reading, so that its last output is not missed
                ready = selector.select(max(0.0, min(until - time.monotonic(), GRACE)))
                for key, _ in ready:
                    block = os.read(key.fd, _BLOCK)
                    if block:
                        key.data.extend(block)
                    else:
                        selector.unregister(key.fileobj)
                if sum(map(len, kept.values())) > MAX_OUTPUT:
                    return False
                if not ready and ended:
                    break  # a child outlives the program and keeps its output open
                # A program that has ended is not late, even if the machine was suspended in between.
                if time.monotonic() > until and not self.ended:
                    return False
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace").replace("\r\n", "\n")


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in re.split(r"[\r\n]", text[-_BLOCK:]) if line.strip()]
    return " | ".join(lines[-_LAST_LINES:])[-_LAST_CHARACTERS:]


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _digest(path: Path) -> str:
    """Return the beginning of a file's SHA-256 digest."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
