"""The command ``anubis`` in this process, where it starts in no time."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import subprocess
from collections.abc import Iterator

from pytest_anubis.cli.main import COMMANDS, main, module_of


def anubis(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Call the command; what it says and its exit code are returned as a process's would be."""
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        try:
            code = main(arguments)
        except SystemExit as ended:  # from argparse
            code = ended.code if isinstance(ended.code, int) else 1
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), complained.getvalue())


def every_parser(*commands: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the parsers of some commands, default all, and of their actions, each with what is typed."""
    for command in commands or COMMANDS:
        parser = argparse.ArgumentParser()
        importlib.import_module(module_of(command)).add(parser)
        waiting = [(command, parser)]
        while waiting:
            path, parser = waiting.pop()
            yield path, parser
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    waiting += [(f"{path} {name}", one) for name, one in action.choices.items()]
