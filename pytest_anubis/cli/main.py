"""Run the command line ``anubis``: parse it, call the command's module, and turn errors into one line.

Exit codes: 0 fine, 1 negative verdict, 2 wrong usage or input, 20 undecided, or an error of the program.
`__main__` uses it.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from pytest_anubis import __version__
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import flush_output, lost_output, say, show, words_aside
from pytest_anubis.codec.encodable_text import LONE

COMMANDS = {
    "learn": "learn a baseline from this machine or from collected runs",
    "certify": "measure which benchmarks may run at the same time without harm",
    "judge": "judge collected runs against baselines, without pytest",
    "report": "rebuild the report of a run from its journal",
    "seal": "sign a run with its baseline and report, for those who must trust it",
    "verify": "say whether a sealed run was changed, who signed it, and what it decides",
    "history": "show a node's runs; keep incidents, defects and states of nodes",
    "push": "file runs and imports in a fleet's history, each once",
    "export": "write what was measured as Parquet, for DuckDB and others",
    "select": "choose the benchmarks that are worth their time on a node now",
    "risk": "show how likely each node is to have an incident, and fit the risk model",
    "simulate": "compare policies of validation on a simulated fleet",
    "goals": "show why everything is measured, with the last verdicts",
    "baseline": "list, show, compare, promote, expire or backtest baselines",
    "import": "turn results of other tools into runs",
    "trace": "record a job as an execution trace, which is a benchmark on any node",
    "suites": "copy the benchmark set that came with this package, to run it or to change it",
    "fleet": "run the tests on many hosts, and say what came of it for the whole fleet",
    "health": "say at once, from its last verdict, whether this node is fit",
    "doctor": "show this machine's inventory and what is missing to validate it",
}

ELSEWHERE = {
    **{word: f"fleet {word}" for word in ("drain-list", "plan", "run", "status", "verdict")},
    **{word: f"history {word}" for word in ("defect", "incident", "nodes", "state")},
}
"""Words that people type as commands, and the actions that they mean."""

SHELLS = ("bash", "zsh", "tcsh")
FLAG = "--print-completion"

_NO_CHOICE = re.compile(
    r"(?P<head>.*invalid choice: '(?P<word>[^']*)') \(choose from (?P<every>[^)]*)\)"
)
"""argparse's message about a word that is no valid choice."""

_MAY_BE_BLANK = ("--note", "--pytest-args")
"""Options whose value may be blank."""

MAX_SHOWN = 60
"""Characters of a wrong word that are shown."""

WRONG = 2
"""Exit code of wrong usage or input, and of an answer that could not be written."""

BROKEN = 20
"""Exit code of an error of this program itself: nothing is decided, so it must not be read as a rejection."""


def module_of(command: str) -> str:
    """Return the name of the module that holds a command."""
    return f"pytest_anubis.cli.commands.{command}_command"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default the process's command line, and return its exit code.

    An error of this package ends it with one line and `WRONG`, another one with a traceback and `BROKEN`.
    """
    if sys.stdout is None:  # the caller closed it (``>&-``); files must not get its number
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    try:
        return _run(arguments)
    except Exception as error:
        traceback.print_exc()
        say(
            f"anubis: an error of the program itself, {type(error).__name__}: nothing was decided; please "
            "report it with the lines above",
            file=sys.stderr,
        )
        return BROKEN


def _run(arguments: Sequence[str] | None) -> int:
    parser, commands = _parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    every = any(word.startswith(FLAG) for word in given)
    name = "" if every else next((word for word in given if not word.startswith("-")), "")
    # Only the parsers that are needed are made: each costs half a millisecond.
    alone = given[:1] == [name] and name in COMMANDS
    listed = {name: COMMANDS[name]} if alone else COMMANDS
    for command, text in listed.items():
        sub = commands.add_parser(command, help=text)
        if every or command == name:  # else only the command at hand is imported
            module = importlib.import_module(module_of(command))
            module.add(sub)
            sub.set_defaults(handler=module.run)
    try:
        refuse_blanks(given)
        options = parser.parse_args(given)
        # A program that reads the standard output gets the JSON alone; text for people goes to stderr.
        places = [str(getattr(options, name, "")) for name in ("json", "prometheus", "ocp", "html")]
        if places.count("-") > 1:
            raise CommandError(
                "two answers to the standard output (-): write one of them into a file"
            )
        printed = "-" in places or getattr(options, "format", "") == "json"
        with words_aside(wanted=printed):
            code = int(options.handler(options))
        flush_output()
        lost = lost_output()
        if lost:
            say(
                f"anubis {name}: not all that was printed could be written ({lost})",
                file=sys.stderr,
            )
        return code or (WRONG if lost else 0)
    except (CommandError, ValueError, OSError) as error:
        said = str(error) if _is_ours(error) else _about_a_word(error, given)
        if not said:
            raise
        say(f"{f'anubis {name}'.strip()}: {said}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        say(f"anubis {name}: interrupted", file=sys.stderr)
        return 130
    finally:  # argparse has ended the command as well when it printed its help
        flush_output()
        flush_output(sys.stderr)


def _is_ours(error: Exception) -> bool:
    """Return whether an error's class is one of this package, whose texts are lines for people."""
    return type(error).__module__.startswith("pytest_anubis.")


def _about_a_word(error: Exception, words: Sequence[str]) -> str:
    """Return which word of the command line caused an error of Python's own; empty if none did."""
    broken = next(filter(LONE.search, words), "")
    if broken and isinstance(error, UnicodeError):
        return f"{broken[:MAX_SHOWN]!a} is not UTF-8: write it so, or rename what it names"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"{str(error.filename)[:MAX_SHOWN]!a}: this name is too long for a file"
    return ""


def refuse_blanks(words: Sequence[str]) -> None:
    """Refuse blank words where a name belongs, such as ``--node "$NODE"`` without such a variable."""
    before = ""
    for word in words:
        if word == "--":  # pytest's arguments follow
            return
        option, equals, value = (
            word.partition("=")
            if word.startswith("--")
            else (before if before.startswith("-") else "", "=", word)
        )
        if equals and not value.replace(",", " ").strip() and option not in _MAY_BE_BLANK:
            raise CommandError(
                f"{option or 'an argument'} is blank: write what is meant, or leave it out"
            )
        before = word


class _Command(argparse.ArgumentParser):
    """A parser that takes only whole option names, and suggests the nearest word for a misspelt one."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **more})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse unknown words here, where the options of this very command are known."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            known = [name for action in self._actions for name in action.option_strings]
            word = next((one for one in unknown if one.startswith("-")), "").partition("=")[0]
            near = difflib.get_close_matches(word, known, 1, 0.75) if word else []
            meant = f" (did you mean {near[0]}?)" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """End with the message; for an invalid choice it suggests the word that was probably meant."""
        match = _NO_CHOICE.fullmatch(message)
        if match is not None:
            # The choices are quoted or not, by the version of Python.
            choices = re.findall(r"[^\s',]+", match["every"])
            word = match["word"]
            near = [ELSEWHERE[word]] if word in ELSEWHERE else []
            near = near or difflib.get_close_matches(word, choices, 1)
            if near:
                message = (
                    f"{match['head']}; did you mean {near[0]!r}? (choose from {match['every']})"
                )
        super().error(message)


class PrintCompletion(argparse.Action):
    """Prints the completion script for one shell, which shtab makes from the parsers, and ends."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Print the script.

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
    """Let shells complete every argument that is, or may be, a path as one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _complete_files(sub, how)
        elif action.type is Path or not (action.option_strings or action.choices or action.type):
            action.complete = how  # type: ignore[attr-defined]  # shtab reads this attribute


def _parser() -> tuple[_Command, argparse._SubParsersAction[_Command]]:
    """Return the parser, and where its commands are added."""
    parser = _Command(
        prog="anubis",
        description="Hardware acceptance testing: learn what is normal, judge nodes, keep history.",
        epilog="The tests themselves are run with: pytest --anubis suites/. Exit codes: 0 fine, "
        "1 negative verdict, 2 wrong usage or input, 20 judged, but neither accepted nor rejected, or an "
        "error of the program itself, 130 interrupted. A reader that stops early (head) changes none of "
        "them, and no file that is written. A file that would fill the memory is refused; the environment "
        "variable PYTEST_ANUBIS_MAX_INPUT, e.g. 4GiB, raises the limit.",
    )
    parser.add_argument("--version", action="version", version=f"anubis {__version__}")
    parser.add_argument(
        FLAG,
        action=PrintCompletion,
        choices=SHELLS,
        help="print the script that completes anubis in a shell, e.g. for "
        "~/.local/share/bash-completion/completions/anubis, and end",
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=_Command
    )
    return parser, commands


if __name__ == "__main__":
    sys.exit(main())
