"""The script that completes ``anubis`` in a shell: shtab makes it of the parsers, which know everything."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import show

SHELLS = ("bash", "zsh", "tcsh")
FLAG = "--print-completion"


class PrintCompletion(argparse.Action):
    """Prints the script for one shell and ends; all commands' options must have been declared."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Print it.

        Raises:
            CommandError: shtab is not installed.
        """
        try:
            import shtab
        except ImportError:
            raise CommandError(
                f"{FLAG}: needs shtab; install it with: pip install 'pytest-anubis[completion]'"
            ) from None
        _complete_files(parser, shtab.FILE)
        show(shtab.complete(parser, str(values)) + "\n")
        parser.exit()


def _complete_files(parser: argparse.ArgumentParser, how: Any) -> None:
    """Let everything that is a path, or may be one, complete as one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _complete_files(sub, how)
        elif action.type is Path or not (action.option_strings or action.choices or action.type):
            action.complete = how  # type: ignore[attr-defined]  # where shtab looks for it
