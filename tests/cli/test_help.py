"""Whoever types --help is told what everything is for."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

import pytest

from pytest_anubis.cli.main import COMMANDS


def arguments(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, str | None]]:
    """Yield every argument of a command and of its actions, with its help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield from arguments(sub, f"{path} {name}")
            shown = {choice.dest for choice in action._choices_actions}
            for name in action.choices:
                yield f"{path} {name}", "described" if name in shown else None
        else:
            yield f"{path} {'/'.join(action.option_strings) or action.dest}", action.help


@pytest.mark.parametrize("command", COMMANDS)
def test_everything_is_described(command: str) -> None:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"pytest_anubis.cli.commands.{command}_command").add(parser)
    found = dict(arguments(parser, command))
    assert len(found) > 1
    assert [name for name, text in found.items() if not text] == []
