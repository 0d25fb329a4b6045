"""The help of every command says what everything is for."""

from __future__ import annotations

import argparse

import pytest

from pytest_anubis.cli.main import COMMANDS
from tests.cli.command_line import every_parser


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_purpose_exit_codes_and_every_option(command: str) -> None:
    (_, parser), *_ = every_parser(command)
    assert len((parser.description or "").split()) > 10
    assert " 2 wrong usage" in (parser.epilog or "")
    for path, parser in every_parser(command):
        assert (parser.epilog or "").startswith("Exit codes: 0 "), path
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                described = {choice.dest for choice in action._choices_actions if choice.help}
                assert described == set(action.choices), path
            else:
                assert action.help, (path, action.dest)
            if "--json" in action.option_strings:
                assert action.metavar == "FILE", path
                assert "; - prints " in (action.help or ""), path


def test_what_is_read_is_called_baseline_everywhere() -> None:
    texts = {
        f"{path} {flag}": action.help or ""
        for path, parser in every_parser()
        for action in parser._actions
        for flag in action.option_strings
        if "baseline" in flag and action.help != argparse.SUPPRESS
    }
    assert set(texts) >= {"judge --baseline", "report --baseline", "doctor --baseline"}
    assert {name.rpartition(" ")[2] for name in texts} == {"--baseline"}
    meaning = "folder of baselines, or one baseline file (default: baselines)"
    assert {text[: len(meaning)] for text in texts.values()} == {meaning}
