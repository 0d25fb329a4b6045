"""The process of ``anubis trace record``: runs a script of the user as ``__main__`` and records some steps.

Run as ``python -m pytest_anubis.benchmarking.replay.recorded_script FILE STEPS SCRIPT [ARGUMENT ...]``, where
``-m MODULE`` may stand for SCRIPT.
"""

from __future__ import annotations

import os
import runpy
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from pytest_anubis.benchmarking.replay.trace_recording import (
    RecordingError,
    StepCounter,
    StepsRecordedError,
)

NO_TRACE = 66
"""Exit code when the script ended well before there was a trace."""


def main(arguments: list[str]) -> int:
    """Run the script; return 0 when the trace is complete."""
    file, steps, script, *rest = arguments
    before = _written_at(Path(file))
    counter = StepCounter(Path(file), int(steps))
    if script == "-m":
        script, *rest = rest
        sys.path[0] = str(Path.cwd())
        if not _is_there(script):
            print(f"no module {script}", file=sys.stderr)  # noqa: T201
            return NO_TRACE
        run = partial(runpy.run_module, script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(script).resolve().parent)
        run = partial(runpy.run_path, script, run_name="__main__")
    sys.argv = [script, *rest]
    try:
        counter.watch()
        run()
    except StepsRecordedError:
        return 0
    except RecordingError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is a process of its own
        return NO_TRACE
    except SystemExit as end:
        if end.code and not counter.done:
            counter.missing()
            print(f"{script} ended with {end.code} by itself", file=sys.stderr)  # noqa: T201
            return NO_TRACE
    except BaseException:
        counter.missing()
        raise
    why = counter.missing()
    if why and _written_at(Path(file)) == before:  # else the script has recorded the trace itself
        print(why, file=sys.stderr)  # noqa: T201
        return NO_TRACE
    return 0


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _written_at(file: Path) -> int:
    """Return when a file was changed last, in nanoseconds; 0 if there is none."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of the user's loaders would keep the process
