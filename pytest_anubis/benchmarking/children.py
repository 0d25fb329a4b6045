"""Run child processes that answer one JSON line per request and never outlive the test that started them.

Parent and child communicate over a socket pair. If the parent dies in any way, its end is closed, and the
child reads the end of the stream and exits. A child that dies or hangs causes an error, with the end of its
output, at the latest after a time-out.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

Message = dict[str, Any]
Handler = Callable[[Message], Message]

GRACE = 5.0
"""Seconds that a child has to exit after its socket closed, before it is killed."""

_TAIL = 2000
"""Bytes of a child's output that a message shows: the end of a traceback."""

_PAUSE = 0.01
"""Seconds between two checks for processes that a child left behind; usually there are none."""

_WATCH = "anubis-parent"
"""Name of the thread that watches the parent's end."""

_BLOCK = 1 << 16
"""Bytes of an answer that are read at a time."""


class ChildError(RuntimeError):
    """A child died, did not answer in time, or answered that it failed: one line, with more in notes."""


class Child:
    """One child process running ``python -m module arguments``.

    Args:
        module: Dotted name of an importable module whose main ends in `answer`.
        arguments: Further arguments on its command line.
        name: Its name in messages.
        environment: Variables to set in addition to those of this process.
        within: Prefix of the command, such as ``ip netns exec NAME`` (`ShapedLink.command`).

    Attributes:
        name: Its name in messages.
        gone: It ended too early.
        late: An answer timed out. The child gets no more requests, since the late answer would be taken for
            the next one.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str] = (),
        *,
        name: str = "",
        environment: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        self.name = name or module
        self.gone = self.late = False
        self._rest = b""
        self._stack = ExitStack()
        # It has no name, so even a parent that is killed leaves no file behind.
        output = tempfile.TemporaryFile()  # noqa: SIM115 - the stack closes it
        self._output = self._stack.enter_context(output)
        self._socket, theirs = (self._stack.enter_context(end) for end in socket.socketpair())
        command = [*within, sys.executable, "-m", module, str(theirs.fileno()), *arguments]
        inherited = [p for p in (os.environ.get("PYTHONPATH"),) if p]
        paths = [*_homes(module, __name__), *inherited]
        variables = {**os.environ, **(environment or {}), "PYTHONPATH": os.pathsep.join(paths)}
        variables.pop("PYTHONWARNINGS", None)  # a library's warning must not fail the child
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=variables,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # the processes that it starts are ended with it
            )
        except BaseException:
            self._stack.close()
            raise
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def ask(self, request: Message, *, timeout: float) -> Message:
        """Send one request and return its answer.

        Args:
            request: The name of a handler under the key ``do``, and its arguments.
            timeout: Seconds to wait for the answer.

        Raises:
            ChildError: There is no answer, or the child failed.
        """
        __tracebackhide__ = True  # the failure is shown at the test's own call
        self.send(request)
        return self.receive(timeout=timeout)

    def send(self, request: Message) -> None:
        """Send one request without waiting for its answer.

        Raises:
            ChildError: The child is gone, or an answer timed out before.
        """
        __tracebackhide__ = True
        self._check()
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._gone() from error

    def receive(self, *, timeout: float) -> Message:
        """Return the answer to the oldest request that has none yet.

        Raises:
            ChildError: An answer timed out now or before, or the child is gone or failed.
        """
        __tracebackhide__ = True
        self._check()
        self._socket.settimeout(timeout)
        while b"\n" not in self._rest:
            try:
                block = self._socket.recv(_BLOCK)
            except TimeoutError as error:
                self.late = True
                raise self._said(f"did not answer within {timeout:g} s") from error
            except OSError as error:
                raise self._gone() from error
            if not block:
                raise self._gone()
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        answer: Message = json.loads(line)
        if "error" in answer:
            raise _error(f"{self.name}: ", answer["error"])
        return answer

    def fileno(self) -> int:
        """Return the descriptor of the parent's end, for waiting on several children."""
        return self._socket.fileno()

    def dismiss(self) -> None:
        """Ask the child to exit, without waiting for it, so that several exit at the same time."""
        self._socket.close()

    def close(self) -> None:
        """End the child and all processes that it started, by force if they do not exit by themselves."""
        self.dismiss()
        until = time.monotonic() + GRACE
        try:
            self._process.wait(GRACE)
            while self._signal(0) and time.monotonic() < until:  # its group still has processes
                time.sleep(_PAUSE)
        except subprocess.TimeoutExpired:
            pass
        finally:  # also when an interrupt arrives while waiting
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._stack.close()

    def _signal(self, number: int) -> bool:
        """Send a signal to the child's process group; return whether the group has any process."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _check(self) -> None:
        if self.late:
            raise ChildError(f"{self.name} still owes an answer since a time-out")

    def _gone(self) -> ChildError:
        self.gone = True
        return self._said("is gone")

    def _said(self, what: str) -> ChildError:
        # Not by seeking: the child writes at the same position of the same open file.
        size = os.fstat(self._output.fileno()).st_size
        tail = os.pread(self._output.fileno(), _TAIL, max(0, size - _TAIL))
        output = tail.decode(errors="replace").strip()
        return _error(f"{self.name} {what}" + ("; it printed: " if output else ""), output)


def _error(text: str, said: str) -> ChildError:
    """Return an error that ends in the first and last line of what a child said, of which a note has all."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    error = ChildError(text + " ... ".join(dict.fromkeys([*lines[:1], *lines[-1:]])))
    if len(lines) > 2:
        error.add_note(said)
    return error


def _joined(errors: Sequence[ChildError], shown: int) -> ChildError:
    """Return one error with so many texts of several; the other texts and all notes are its notes."""
    joined = ChildError("; ".join(map(str, errors[:shown])))
    for note in map(str, errors[shown:]):
        joined.add_note(note)
    for error in errors:
        for note in getattr(error, "__notes__", ()):
            joined.add_note(note)
    return joined


def _homes(*modules: str) -> list[str]:
    """Return the folders that hold modules' outermost packages, for a child's import path."""
    found: list[str] = []
    for module in modules:
        spec = importlib.util.find_spec(module.partition(".")[0])
        if spec is None:
            raise ChildError(
                f"{module}: no such module; a child runs a module that can be imported"
            )
        places = [Path(place).parent for place in spec.submodule_search_locations or ()]
        if not places and spec.origin is not None:
            places = [Path(spec.origin).parent]
        found += [str(place) for place in places if str(place) not in found]
    return found


def receive_all(children: Sequence[Child], *, timeout: float, settle: float = 0.0) -> list[Message]:
    """Return every child's answer to its oldest request, waiting for all of them at once.

    Args:
        children: Children with one unanswered request each.
        timeout: Seconds to wait for the last answer.
        settle: Seconds to wait for further failures after the first one.

    Raises:
        ChildError: A child is gone, failed or did not answer in time. Those that are gone are named, with
            one of the others, which may only have waited for them.
    """
    __tracebackhide__ = True
    answers: dict[Child, Message] = {}
    failures: list[tuple[bool, ChildError]] = []
    until = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child, selectors.EVENT_READ, child)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                break
            for key, _ in ready:
                child = key.data
                try:
                    answers[child] = child.receive(timeout=max(0.01, until - time.monotonic()))
                except ChildError as error:
                    failures.append((child.gone, error))
                    until = min(until, time.monotonic() + settle)
                selector.unregister(child)
        late = [key.data for key in selector.get_map().values()]
    for child in late:
        child.late = True
    if failures:
        gone = sum(is_gone for is_gone, _ in failures)
        first = [error for _, error in sorted(failures, key=lambda one: not one[0])]
        raise _joined(first, gone + 1 if gone else len(first))
    if late:
        raise _joined(
            [child._said(f"did not answer within {timeout:g} s") for child in late], len(late)
        )
    return [answers[child] for child in children]


class Group:
    """Base class for children that are asked together; a context manager that ends all of them.

    Args:
        timeout: Seconds that one request may take.
        settle: As in `receive_all`.

    Attributes:
        processes: The children.
    """

    def __init__(self, *, timeout: float, settle: float = 0.0) -> None:
        self._timeout = timeout
        self._settle = settle
        self._stack = ExitStack()
        self.processes: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.processes:
            child.dismiss()
        self._stack.close()

    def ask_all(
        self, do: str, *, timeout: float | None = None, **arguments: object
    ) -> list[Message]:
        """Send all children the same request and return their answers, in order.

        The answers are awaited together, so a child that is gone is noticed before those that wait for it.

        Args:
            do: The name of a handler.
            timeout: Seconds to wait for the last answer; by default the group's.
            **arguments: The request's arguments, of JSON's types.

        Raises:
            ChildError: A child is gone, failed or took too long; those that are gone are named first.
        """
        __tracebackhide__ = True
        for child in self.processes:
            child.send({"do": do, **arguments})
        limit = self._timeout if timeout is None else timeout
        return receive_all(self.processes, timeout=limit, settle=self._settle)

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """End the children that were started if one cannot be."""
        try:
            yield
        except BaseException:
            self._stack.close()
            raise

    def _start(self, child: Child) -> Child:
        """Keep a child until the group ends."""
        self.processes.append(self._stack.enter_context(child))
        return child


def handlers_of(worker: object) -> dict[str, Handler]:
    """Return a worker's public methods, which requests can name."""
    names = [name for name in dir(worker) if not name.startswith("_")]
    return {name: getattr(worker, name) for name in names}


def answer(descriptor: int, handlers: Mapping[str, Handler]) -> None:
    """Answer requests until the other end is closed: the child's side.

    Args:
        descriptor: Number of the inherited socket, the first argument on the command line.
        handlers: Handlers by the name in a request's ``do``. If one raises, the answer is an ``error``.
    """
    warnings.simplefilter("ignore")  # what a child has printed at its end is then why it ended
    # The parent decides when its children end; an interrupt from the terminal reaches them as well.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(descriptor)
    with (
        socket.socket(fileno=descriptor) as channel,
        channel.makefile("rwb") as stream,
        _closing(channel),
    ):
        for line in stream:
            request = json.loads(line)
            try:
                reply = handlers[request["do"]](request)
            except Exception as error:  # the parent gets every failure
                reply = {"error": f"{type(error).__name__}: {error}"}
            stream.write(json.dumps(reply).encode() + b"\n")
            stream.flush()


@contextmanager
def _closing(channel: socket.socket) -> Iterator[None]:
    """Close a socket for the parent at the end, which the watching thread would keep open."""
    try:
        yield
    finally:
        with suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)


def end_with_parent(descriptor: int) -> None:
    """End this process and its own ones soon after the parent's end has been closed, whatever it does then.

    A handler may wait minutes for other children, such as gloo's, and a killed parent cannot end it. Of
    several calls the first one counts.

    Args:
        descriptor: Number of the inherited socket.
    """
    if any(thread.name == _WATCH for thread in threading.enumerate()):
        return

    def watch() -> None:
        watched = select.poll()
        watched.register(descriptor, select.POLLRDHUP)
        watched.poll()
        time.sleep(GRACE)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, name=_WATCH, daemon=True).start()
