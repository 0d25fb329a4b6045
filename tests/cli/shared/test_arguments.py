"""Options that several commands have."""

from __future__ import annotations

import argparse

import pytest

from pytest_anubis.cli.shared.arguments import add_pytest_args


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        ([], ""),
        (["--pytest-args=-k gemm"], "-k gemm"),
        (
            ["--pytest-args=-k 'a or b'", "--pytest-args=--anubis-quiet-limit=steal=9%"],
            "-k 'a or b' --anubis-quiet-limit=steal=9%",
        ),
    ],
)
def test_further_arguments_of_pytest_can_be_appended(given: list[str], joined: str) -> None:
    parser = argparse.ArgumentParser()
    add_pytest_args(parser)
    assert parser.parse_args(given).pytest_args == joined
