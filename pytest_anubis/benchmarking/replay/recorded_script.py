"""The process of ``anubis trace record``: runs a script of the user as ``__main__`` and records some steps.

Run as ``python -m pytest_anubis.benchmarking.replay.recorded_script FILE STEPS SCRIPT [ARGUMENT ...]``, where
``-m MODULE`` may stand for SCRIPT.
"""

from __future__ import annotations

import os
import runpy
import sys
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
    before = written_at(Path(file))
    counter = StepCounter(Path(file), int(steps))
    module = script == "-m"
    if module:
        script, *rest = rest
    sys.argv = [script, *rest]
    sys.path[0] = str(Path.cwd() if module else Path(script).resolve().parent)
    try:
        counter.watch()
        if not module:
            runpy.run_path(script, run_name="__main__")
        elif _is_there(script):
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            print(f"no module {script} that can be run", file=sys.stderr)  # noqa: T201
            return NO_TRACE
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
    if why and written_at(Path(file)) == before:  # else the script has recorded the trace itself
        print(why, file=sys.stderr)  # noqa: T201
        return NO_TRACE
    return 0


def _is_there(module: str) -> bool:
    """Return whether a module can be run; what its packages raise passes, as under ``python -m``."""
    try:
        spec = find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{module}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return False
    return spec is not None


def written_at(file: Path) -> int:
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
