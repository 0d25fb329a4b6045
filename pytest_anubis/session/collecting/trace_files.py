"""A recorded job as a benchmark: pytest collects ``*.trace.json[.gz]``, and replays it on every device.

A file ``NAME.trace.toml`` next to it may state component, goal, question, action and cost. The trace is
read when its test runs, so that a damaged one stops no other test. Several traces in one folder are several
benchmarks; another content under the same name has no criterion, because the values' group is its digest.

`plugin` uses it.
"""

from __future__ import annotations

import os
import time
import types
import warnings
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.durations import seconds
from pytest_anubis.fixture_types import DeviceFixture, MetricFixture
from pytest_anubis.session.collecting.benchmark_mark import COMPONENT
from pytest_anubis.session.context import context_key
from pytest_anubis.traces.trace_names import SUFFIXES, is_trace

if TYPE_CHECKING:
    from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep

TEST = "replay"
"""Name of the one test of a trace."""

STATED = ("component", "goal", "question", "action", "cost")
"""Keys of the file next to a trace; each has the meaning that it has in the mark."""

LARGEST_STATEMENT = 1 << 16

_MARK: dict[str, Any] = {
    "component": "workload.trace",
    "scope": "device",
    "timing": "host",  # the host launches every operation
    "version": 2,
    "deadline": "900s",
    "metrics": ["step_time", "replayed", "step_bits"],
    "goal": "Each device runs the customer's own job as fast as its siblings, and computes the same",
    "question": "How long does the recorded part of the job take, and is every bit of it right?",
    "action": "Look which kind of operation lost most (time_matrix, time_pointwise, ...), and run that "
    "component's benchmarks; other bits than the siblings': take the device out of service",
}

_HEAD = 4096  # bytes of a file that show what it is

_SHORTEST = 0.02  # seconds of one value: as many steps as fill it
_WARM_UP = 3  # first steps, in which libraries choose their kernels
_LONG = 5.0  # seconds of a step that needs one of them: preparing it has run it, too


_wrong_key = pytest.StashKey[list[str]]()


class _WrongStatementError(ValueError):
    """The file next to a trace cannot be used; the message is one line and names it."""


class TraceFile(pytest.Module):
    """A trace; a module without code, because fixtures of a module's scope need one."""

    # Pytest has no public way to collect a function that is in no file (nor has it for `_genfunctions`).
    def _getobj(self) -> types.ModuleType:
        module = types.ModuleType(self.path.name.partition(".")[0])
        body = pytest.mark.anubis(**{**_MARK, **_stated(self.path)})(_replay_of(self.path))
        setattr(module, TEST, body)
        return module

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield the replay of the trace on every device; keep what is wrong in its file of statements."""
        try:
            return self._genfunctions(TEST, getattr(self.obj, TEST))
        except _WrongStatementError as error:
            active = self.config.stash[context_key].settings.active
            if hasattr(self.config, "workerinput") and not active:
                raise self.CollectError(str(error)) from None  # plain xdist loses all other errors
            self.config.stash[_wrong_key].append(str(error))
            return ()


class TraceCollector:
    """Plugin that makes tests of traces.

    Attributes:
        active: The traces of folders are tests, too, as in a run with ``--anubis``; otherwise only those that
            the command line names.

    Args:
        active: The attribute's first value.
    """

    def __init__(self, *, active: bool) -> None:
        self.active = active

    def pytest_configure(self, config: pytest.Config) -> None:
        """Begin without any wrong statement."""
        config.stash[_wrong_key] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config) -> None:
        """Refuse wrong files next to traces, as wrong marks are: a collector's error has no one exit code."""
        if wrong := config.stash[_wrong_key]:
            raise pytest.UsageError("\n".join(wrong))

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        """Return the collector of a trace; name what to record instead of a profiler's timeline."""
        name = file_path.name
        if not name.endswith(SUFFIXES):
            return None  # nearly all files
        named = parent.session.isinitpath(file_path)
        if not (named or self.active):
            return None
        if is_trace(name) and (named or not _is_timeline(file_path)):
            found: TraceFile = TraceFile.from_parent(parent, path=file_path)
            return found
        warning = pytest.PytestWarning(
            f"{name} looks like a profiler's timeline, which cannot be replayed; record with anubis "
            "trace record"
        )
        try:
            parent.warn(warning)
        except pytest.PytestWarning:
            if named:
                raise
            # Where -W makes it an error, another tool's file in a folder is named, and stops no tests.
            shown = warnings.WarningMessage(warning, pytest.PytestWarning, str(file_path), 0)
            given = {"warning_message": shown, "when": "collect", "nodeid": "", "location": None}
            parent.ihook.pytest_warning_recorded.call_historic(kwargs=given)
        return None


def _is_timeline(path: Path) -> bool:
    """Return whether a file of a trace's name begins like a timeline for a browser, as other tools write."""
    import gzip

    try:
        with (gzip.open if path.name.endswith(".gz") else open)(path, "rb") as file:
            head = file.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return False  # reading it as a trace will say what is wrong
    return head.lstrip().startswith(b"[") or b'"traceEvents"' in head


def _stated(trace: Path) -> dict[str, str]:
    """Return what the file next to a trace states.

    Raises:
        _WrongStatementError: It cannot be read, or has a key or value that no mark takes.
    """
    path = trace.with_name(f"{trace.name.partition('.trace.json')[0]}.trace.toml")
    if not path.exists():
        return {}
    import tomllib

    from pytest_anubis.codec import CodecError
    from pytest_anubis.codec.json_files import read_bytes

    try:
        stated = tomllib.loads(read_bytes(path, largest=LARGEST_STATEMENT).decode())
    except (OSError, CodecError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _WrongStatementError(f"{path}: {str(error).partition(chr(10))[0]}") from None
    for key, value in stated.items():
        if key not in STATED:
            raise _WrongStatementError(
                f"{path}: no key {key[:40]!r}; valid keys: {', '.join(STATED)}"
            )
        if not isinstance(value, str) or not value.strip():
            raise _WrongStatementError(f"{path}: {key} must be text, and not empty")
    if "component" in stated and not COMPONENT.fullmatch(stated["component"]):
        raise _WrongStatementError(
            f"{path}: component {stated['component'][:40]!r} must look like 'accelerator.compute'"
        )
    try:
        seconds(stated.get("cost", "1s"))
    except ValueError as error:
        raise _WrongStatementError(f"{path}: cost: {error}") from None
    return stated


def _replay_of(path: Path) -> Callable[..., None]:
    """Return the test that replays a trace."""

    def replay(anubis_metric: MetricFixture, anubis_device: DeviceFixture) -> None:
        from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
        from pytest_anubis.traces.trace_reading import read_trace

        trace = read_trace(path)
        step = ReplayedStep(trace, anubis_device.torch)
        step.prepare()
        if step.collectives:
            named = ", ".join(f"{name} {times}" for name, times in sorted(step.collectives.items()))
            print(f"not replayed, because collective: {named}")  # noqa: T201 - pytest shows it on failure
        record(anubis_metric, anubis_device, step, trace.digest)

    return replay


def record(metric: MetricFixture, device: DeviceFixture, step: ReplayedStep, digest: str) -> None:
    """Record the metrics of a prepared step; values of traces with another digest are never compared."""
    import torch

    from pytest_anubis.traces.operation_kinds import Kind

    metric.record("replayed", step.count, unit="operations", better="equal", group=digest)
    once, again = step.bits_at_first, step.bits()
    if once != again:
        pytest.fail(f"the same step gave other bits: {once:012x} and {again:012x}")
    if step.blind:
        print(  # noqa: T201 - pytest shows it on failure
            f"infinite or no numbers from {step.blind} operations: a wrong bit in them may not show"
        )
    if step.uncompared:
        print(  # noqa: T201 - pytest shows it on failure
            f"not in step_bits: {step.uncompared} of {step.count} operations, which sum in any order or use "
            "such sums"
        )
    software = f"{digest} torch {torch.__version__}"
    if device.torch.type == "cpu":  # its libraries choose their sums by these
        software += (
            f" {torch.backends.cpu.get_cpu_capability()} {os.environ.get('MKL_CBWR', '')}".rstrip()
        )
    metric.record("step_bits", float(once), unit="1", better="equal", group=software)

    def steps(count: int) -> float:
        total = 0.0
        for _ in range(count):
            step.ready()
            device.synchronize()
            begin = time.perf_counter()
            step.run()
            device.synchronize()
            total += time.perf_counter() - begin
        return total / count

    for _ in range(_WARM_UP):
        took = steps(1)
        if took > _LONG:
            break
    count = max(1, round(_SHORTEST / max(took, 1e-6)))
    kinds: dict[Kind, list[float]] = {kind: [] for kind in (*step.kinds, Kind.BETWEEN)}

    def by_kind() -> None:
        totals = dict.fromkeys(kinds, 0.0)
        for _ in range(count):
            step.ready()
            for kind, taken in step.seconds_by_kind(device.synchronize).items():
                totals[kind] += taken
        for kind, total in totals.items():
            kinds[kind].append(1e3 * total / count)

    def turn() -> float:
        if len(kinds[Kind.BETWEEN]) % 2:
            by_kind()
            return 1e3 * steps(count)
        taken = steps(count)
        by_kind()
        return 1e3 * taken

    taken = metric.collect("step_time", turn, unit="ms", better="lower", group=digest)
    for kind, values in kinds.items():
        metric.record(
            f"time_{kind.value}",
            values[-len(taken) :],
            unit="ms",
            better="lower",
            group=digest,
            part_of="step_time",
            rounds_of="step_time",
        )
