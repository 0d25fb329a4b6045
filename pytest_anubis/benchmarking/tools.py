"""Running other people's programs from a benchmark: which one, for how long, and what it printed.

A program is started with a list of arguments, never through a shell, and only if nobody else can have put it
there. A missing one skips the test with the way to get it. One that fails or hangs is a failure with its last
words. One that did not begin, for an option or for room, and one whose output is not what is known of it make
the test INCONCLUSIVE (`ToolRefused`, `UnreadableOutput`): nothing passes because a word was not found.
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
"""With a tool's name in capitals: the absolute path of the program to run instead of what is on the PATH."""

GRACE = 2.0
"""Seconds that a program has to leave when it is asked to, and its children to close its output."""

MOST_OUTPUT = 16 << 20
"""Bytes of a tool's output that are read: `dcgmi diag` prints some hundred kilobytes; what prints as
much has gone wild."""

VERSION_SECONDS = 30.0
"""What a tool has to say its version: those for accelerators load a driver first."""

_LAST_LINES, _LAST_CHARACTERS = 4, 400
_WIDEST = 200
"""Characters of a version that are kept."""
_FIRST_LINE = r"\A\s*(\S.*)"
_BLOCK = 1 << 16

Record = Callable[[str, object], None]
"""pytest's fixture ``record_property``."""

Value = TypeVar("Value")


class ToolFailed(RuntimeError):
    """A tool failed: a failure of the test; the message holds its last lines."""

    next_step = (
        "run the tool's command by hand; the last lines that it printed stand in the test's report"
    )


class ToolHung(ToolFailed):
    """A tool did not end in time, and was killed."""


class ToolRefused(ToolFailed):
    """A tool did not begin: an unknown option, or lacking resources; the test is INCONCLUSIVE."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool that ended well printed.

    Attributes:
        tool: Its name.
        version: Its version, as given to `run_tool`.
        output: Its standard output.
        errors: Its standard error.
        code: Its exit status.
    """

    tool: str
    version: str
    output: str
    errors: str
    code: int = 0

    @property
    def lines(self) -> list[str]:
        """The lines of the standard output."""
        return self.output.splitlines()

    def read(self, reader: Callable[[str], Value], text: str | None = None) -> Value:
        """Return what a reader makes of the standard output, or of another text that the tool wrote.

        Raises:
            UnreadableOutput: The reader does not know it; the message names the tool's version.
            ToolFailed: So it is, and the tool ended with another status than 0, which is why.
        """
        __tracebackhide__ = True
        try:
            return reader(self.output if text is None else text)
        except UnreadableOutput as error:
            self.check()
            raise UnreadableOutput(self.tool, error.what, self.version) from None

    def check(self) -> None:
        """Insist that it ended with 0: for tools that were run with ``accept=None``.

        Raises:
            ToolFailed: It did not; `ToolRefused`, a subclass: it did not even begin.
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
        """Say that a line, or the lack of one, is not what the adapter knows.

        Raises:
            UnreadableOutput: Always.
        """
        __tracebackhide__ = True
        raise UnreadableOutput(self.tool, what, self.version)

    def last_lines(self) -> str:
        """Return the last things that it printed, in one line."""
        return _last_lines(self.errors) or _last_lines(self.output) or "nothing"


def find_tool(*names: str, hint: str, variable: str = "") -> str:
    """Return the path of a program; skip the test, as not tested, where there is none that may be run.

    Args:
        names: What it may be called, the usual name first.
        hint: How to get it, e.g. ``apt install stress-ng``.
        variable: Environment variable that may hold its absolute path, to be run instead of what is on the
            PATH; default: ``PYTEST_ANUBIS_TOOL_`` and the usual name in capitals, with ``_`` for what is no
            letter or digit.
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
    """Return what a tool says of its version; empty where it does not say it.

    Args:
        tool: Path of the program.
        arguments: What makes it say so.
        pattern: Regular expression whose first group is the version, whatever the exit status; default: the
            first line where the status is 0, since a tool that refuses prints its error there.
        record_property: pytest's fixture of that name: notes tool and version in the run.
    """
    try:
        said = run_tool([tool, *arguments], timeout=VERSION_SECONDS, accept=None)
    except ToolFailed:
        return ""
    found = re.search(pattern or _FIRST_LINE, f"{said.output}\n{said.errors}"[:_BLOCK])
    says = found if pattern or not said.code else None
    version = says[1].strip()[:_WIDEST] if says else ""
    if record_property is not None:
        note_tool(tool, version, record_property)
    return version


def note_tool(tool: str, version: str, record_property: Record) -> None:
    """Note in the run which tool a test ran, in which version.

    Args:
        tool: Path of the program.
        version: As it says it; empty: the digest of its file says which one it was.
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
    """Run a program to its end and return what it printed.

    It gets no input, the environment of this process with numbers in the C locale, and a process group of its
    own, all of which is killed when it ends, hangs, or the test is interrupted.

    Args:
        argv: Program and arguments; there is no shell.
        timeout: Seconds after which it is killed.
        version: Its version, for messages.
        environment: Variables to set besides.
        cwd: Folder to run it in.
        accept: Exit statuses that are no failure; None takes any.

    Raises:
        ToolHung: It did not end in time.
        ToolFailed: It cannot be started, or ended with another status or by a signal.
        UnreadableOutput: It printed more than `MOST_OUTPUT`.
        TypeError: `argv` is one text, which only a shell could take apart.
    """
    __tracebackhide__ = True  # what failed is shown where the test asked for it
    with RunningTool(argv, version=version, environment=environment, cwd=cwd) as running:
        return running.wait(timeout, accept=accept)


class RunningTool:
    """A program that runs, a context manager that ends it with all its children.

    Args:
        argv: Program and arguments.
        version: Its version, for messages.
        environment: Variables to set besides those of this process.
        cwd: Folder to run it in.

    Raises:
        ToolFailed: It cannot be started.
        TypeError: `argv` is one text.
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
                # What was looked at; a program of many names is still told by which it was called.
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
        """Return what it printed when it has ended; arguments and errors as of `run_tool`."""
        __tracebackhide__ = True
        streams = (self._process.stdout, self._process.stderr)
        kept = {stream: bytearray() for stream in streams if stream is not None}
        late = not self._listen(kept, time.monotonic() + timeout)
        if sum(map(len, kept.values())) > MOST_OUTPUT:
            raise UnreadableOutput(
                self.name, f"more than {MOST_OUTPUT >> 20} MiB of output", self.version
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
        """End it and its children, first asked, then by force."""
        for number, pause in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
            if self._process.poll() is not None and number is signal.SIGTERM:
                continue
            try:
                os.killpg(self._process.pid, number)
            except (ProcessLookupError, PermissionError):  # nobody is left in the group
                break
            try:
                self._process.wait(pause)
            except subprocess.TimeoutExpired:
                continue
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _listen(self, kept: dict[IO[bytes], bytearray], until: float) -> bool:
        """Take what is printed until the end; return False when time or room ran out before."""
        with selectors.DefaultSelector() as selector:
            for stream in kept:
                selector.register(stream, selectors.EVENT_READ, kept[stream])
            while selector.get_map():
                ended = self.ended  # before the look: what it printed last is there to be seen
                ready = selector.select(max(0.0, min(until - time.monotonic(), GRACE)))
                for key, _ in ready:
                    block = os.read(key.fd, _BLOCK)
                    if block:
                        key.data.extend(block)
                    else:
                        selector.unregister(key.fileobj)
                if sum(map(len, kept.values())) > MOST_OUTPUT:
                    return False
                if not ready and ended:
                    break  # a child outlives the program and holds its output open
                # A machine that stood still in between has not made it late.
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
    """Return the beginning of a file's digest."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
