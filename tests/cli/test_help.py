"""The help of every command says what everything is for."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

import pytest

from pytest_anubis.cli.main import COMMANDS, module_of


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


def declared(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    importlib.import_module(module_of(command)).add(parser)
    return parser


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_purpose_and_exit_codes(command: str) -> None:
    parser = declared(command)
    assert len((parser.description or "").split()) > 10
    assert (parser.epilog or "").startswith("Exit codes: 0 ")
    assert " 2 wrong usage" in (parser.epilog or "")


def test_what_is_read_is_called_baseline_everywhere() -> None:
    texts = {}
    for command in COMMANDS:
        for name, text in arguments(declared(command), command):
            if (
                text != argparse.SUPPRESS
                and "baseline" in name.rpartition(" ")[2].partition("--")[2]
            ):
                texts[name] = text or ""
    assert set(texts) >= {"judge --baseline", "report --baseline", "doctor --baseline"}
    assert {name.rpartition(" ")[2] for name in texts} == {"--baseline"}
    meaning = "folder of baselines, or one baseline file (default: baselines)"
    assert {text[: len(meaning)] for text in texts.values()} == {meaning}


@pytest.mark.parametrize("command", COMMANDS)
def test_everything_is_described(command: str) -> None:
    found = dict(arguments(declared(command), command))
    assert len(found) > 1
    assert [name for name, text in found.items() if not text] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_action_states_its_exit_codes(command: str) -> None:
    waiting = [(command, declared(command))]
    while waiting:
        path, parser = waiting.pop()
        assert (parser.epilog or "").startswith("Exit codes: 0 "), path
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += [(f"{path} {one}", action.choices[one]) for one in action.choices]
            if "--json" in action.option_strings:
                assert action.metavar == "FILE", path
                assert "; - prints " in (action.help or ""), path
