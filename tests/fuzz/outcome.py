"""Run the project's commands, and find defects in their answers."""

from __future__ import annotations

import contextlib
import io
import json
import re

from pytest_anubis.cli.main import main
from pytest_anubis.core.verdict import Decision
from tests.golden.asking import Said

EXCUSES = re.compile(
    r"damage|broken off|never finished|interrupted|cut short|could not be read|cannot be read|no run"
)
"""Words of which one must be said where a rejected node is no longer rejected."""


class Defect(Exception):
    """Something that no file may bring about; one line."""


class Answer(Said):
    """A command's output, and its meaning."""

    @property
    def text(self) -> str:
        """All of it."""
        return f"{self.out}\n{self.err}"

    @property
    def decision(self) -> Decision | None:
        """What the exit code says of the node; None where the input was refused."""
        return next((one for one in Decision if one.exit_code == self.code), None)


def anubis(*arguments: str, document: bool = False) -> Answer:
    """Run one command in this process.

    Args:
        arguments: Its command line.
        document: It prints JSON on the standard output.

    Raises:
        Defect: It printed something that is no text of one line each, said nothing about a refusal, or the
            JSON is none. Any exception but this one is a defect as well.
    """
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as end:
            raise Defect(f"SystemExit {end.code}: {err.getvalue()[-200:]!r}") from None
    answer = Answer(code=code, out=out.getvalue(), err=err.getvalue())
    shown = answer.err if document else answer.out + answer.err
    odd = next((line for line in shown.split("\n") if not line.isprintable()), None)
    if odd is not None:
        raise Defect(f"not printable: {odd[:200]!r}")
    if code not in (0, 1, 2, 20):
        raise Defect(f"exit code {code}")
    if code == 2 and not answer.err.rstrip("\n").split("\n")[-1].startswith(
        f"anubis {arguments[0]}: "
    ):
        raise Defect(f"refused without a line: {answer.err[-200:]!r}")
    if document and code != 2:
        try:
            json.loads(answer.out, parse_constant=_no_number)
        except ValueError as error:
            raise Defect(f"no JSON on the standard output: {error}") from None
    return answer


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def compare(what: str, before: Decision | None, after: Decision | None, said: str) -> None:
    """Insist that a decision did not become milder.

    Args:
        what: How it was decided.
        before: About the healthy file.
        after: About the damaged one; None where it was refused.
        said: All that was said about the damaged one.

    Raises:
        Defect: It did.
    """
    if before in (None, Decision.ACCEPTED) or after in (None, before, Decision.REJECTED):
        return
    if after is Decision.ACCEPTED:
        raise Defect(f"milder: {what}: {before.value} -> {after.value}")
    if before is Decision.REJECTED and not EXCUSES.search(said):
        raise Defect(f"milder: {what}: {before.value} -> {after.value}, damage not named")
