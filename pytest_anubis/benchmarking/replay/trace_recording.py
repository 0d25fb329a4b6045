"""Record an execution trace: in a `with` statement, or some steps of a training that calls an optimizer.

`recording` is for users' own scripts; `anubis trace record` counts steps in `recorded_script`.
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.traces.trace_names import is_trace

if TYPE_CHECKING:
    from torch.profiler import ExecutionTraceObserver

SKIPPED_STEPS = 3
"""First steps that are not recorded: in them libraries choose kernels and optimizers make their state."""


class RecordingError(RuntimeError):
    """A trace cannot be recorded; the message is one line."""


class StepsRecordedError(SystemExit):
    """Ends a script of which enough steps were recorded; only a script that catches it goes on."""


@contextmanager
def recording(file: Path | str) -> Iterator[None]:
    """Record all operations of torch within the statement as an execution trace.

    Args:
        file: Where to; its name ends with ``.trace.json`` or ``.trace.json.gz``.

    Raises:
        RecordingError: The name is wrong, or another trace is being recorded.
    """
    recorder = TraceRecorder(Path(file))
    recorder.start()
    try:
        yield
    except BaseException:
        recorder.discard()
        raise
    recorder.finish()


class TraceRecorder:
    """Records one execution trace; the file appears when the trace is complete.

    Raises:
        RecordingError: The file's name is not that of a trace.
    """

    def __init__(self, file: Path) -> None:
        if not is_trace(file.name):
            raise RecordingError(f"{file}: a trace's name ends with .trace.json or .trace.json.gz")
        self._file = file
        self._part = file.with_name(f".{file.name}.{os.getpid()}.part")
        self._observer: ExecutionTraceObserver | None = None

    def start(self) -> None:
        """Begin to record."""
        from torch.profiler import ExecutionTraceObserver

        self._observer = ExecutionTraceObserver()
        self._observer.register_callback(str(self._part))
        self._observer.start()

    def finish(self) -> None:
        """End the recording, and put the trace in its place.

        Raises:
            RecordingError: Another trace was being recorded in this process.
        """
        self._stop()
        if not self._part.exists():
            raise RecordingError("torch wrote no trace; another one is being recorded")
        if self._file.name.endswith(".gz"):
            packed = self._part.with_suffix(".gz")
            with self._part.open("rb") as plain, gzip.open(packed, "wb") as out:
                shutil.copyfileobj(plain, out)
            self._part.unlink()
            packed.replace(self._file)
        else:
            self._part.replace(self._file)

    def discard(self) -> None:
        """End the recording without a trace."""
        self._stop()
        self._part.unlink(missing_ok=True)

    def _stop(self) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.unregister_callback()
            self._observer = None


class StepCounter:
    """Records some steps of a training: a step ends when the first optimizer's `step` returns.

    Args:
        file: Where to.
        steps: How many steps.
    """

    def __init__(self, file: Path, steps: int) -> None:
        self._recorder = TraceRecorder(file)
        self._begin, self._end = SKIPPED_STEPS, SKIPPED_STEPS + steps
        self._seen = 0
        self._first: Any = None
        self.done = False

    def watch(self) -> None:
        """Count the steps of every optimizer from now on."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(self._after_step)

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        if self._first is None:
            self._first = optimizer
        if optimizer is not self._first or self.done:
            return
        self._seen += 1
        if self._seen == self._begin:
            self._recorder.start()
        elif self._seen == self._end:
            self._recorder.finish()
            self.done = True
            raise StepsRecordedError(0)

    def missing(self) -> str:
        """Return why there is no trace after the script has ended; empty if there is one."""
        if self.done:
            return ""
        if self._seen >= self._begin:
            self._recorder.discard()
        if not self._seen:
            return (
                "no optimizer of torch made a step in the script; put the part to record into "
                "'with recording(FILE)' of pytest_anubis.benchmarking.replay.trace_recording"
            )
        return f"the script made {self._seen} steps, and {self._end} are needed ({self._begin} are left out)"
