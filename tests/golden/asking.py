"""Asking the command ``anubis`` in this process, at a fixed time."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from pytest_anubis.cli.main import main

NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC).timestamp()
"""The present of every command: risks are reckoned from it, and baselines are created then."""

ENVIRONMENT = {"COLUMNS": "120", "LINES": "40", "PYTHON_COLORS": "0"}
DROPPED = ("PYTEST_ANUBIS_", "PYTEST_ADDOPTS", "CUDA_VISIBLE_DEVICES")


class FixedDate(datetime.datetime):
    """Today is always the same day."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> FixedDate:
        """Return that day."""
        return cls.fromtimestamp(NOW, tz)


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command said.

    Attributes:
        code: Its exit code.
        out: Its standard output.
        err: Its standard error.
    """

    code: int
    out: str
    err: str


@contextlib.contextmanager
def fixed_time() -> Iterator[None]:
    """Let it be NOW."""
    with (
        mock.patch.object(time, "time", return_value=NOW),
        mock.patch.object(datetime, "datetime", FixedDate),
    ):
        yield


@contextlib.contextmanager
def forgetting(folder: Path) -> Iterator[None]:
    """Forget the modules of a folder that were imported meanwhile: ``anubis goals`` collects tests."""
    paths = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = paths
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


@contextlib.contextmanager
def fixed_environment() -> Iterator[None]:
    """Leave out what a user may have set."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(DROPPED)}
    with mock.patch.dict(os.environ, kept | ENVIRONMENT, clear=True):
        yield


def ask(arguments: Sequence[str], folder: Path) -> Said:
    """Run one command in a folder, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        forgetting(folder),
        fixed_environment(),
        fixed_time(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(list(arguments))
        except SystemExit as end:  # argparse
            code = end.code if isinstance(end.code, int) else 1
    return Said(code=code, out=out.getvalue(), err=err.getvalue())
