"""The command ``anubis`` in this process, where it starts in no time."""

from __future__ import annotations

import contextlib
import io
import subprocess

from pytest_anubis.cli.main import main


def anubis(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Call the command; what it says and its exit code are returned as a process's would be."""
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        try:
            code = main(arguments)
        except SystemExit as ended:  # from argparse
            code = ended.code if isinstance(ended.code, int) else 1
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), complained.getvalue())
