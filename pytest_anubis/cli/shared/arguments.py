"""Options that several commands share, each declared once.

Places that are read and places that are written have different names: ``--baseline`` is always read, ``-o``
always written.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.history_access import probability
from pytest_anubis.core.verdict import ALLOWED_MISSING

DEFAULT_BASELINE = Path("baselines")

FINE_OR_WRONG = "Exit codes: 0 done, 2 wrong usage or input."


def explain(parser: argparse.ArgumentParser, text: str, codes: str = FINE_OR_WRONG) -> None:
    """Set a command's help: what it does, and what its exit codes mean."""
    if "\n" in codes:  # a list, whose lines are kept
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = text
    parser.epilog = codes


def add_action(
    actions: Any, name: str, run: Callable[..., Any], text: str, codes: str = FINE_OR_WRONG
) -> argparse.ArgumentParser:
    """Declare an action that `run` carries out, and return its parser.

    `text` is its help, without capital and full stop; `codes` says what its exit codes mean.
    """
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=codes
    )
    action.set_defaults(action=run)
    return action


def add_noun(nouns: Any, name: str, text: str) -> Any:
    """Declare a noun of a command, and return its actions, which are declared next."""
    noun = nouns.add_parser(name, help=text)
    explain(noun, text[0].upper() + text[1:] + ".")
    return noun.add_subparsers(metavar="ACTION", required=True)


def add_store(parser: argparse.ArgumentParser) -> None:
    """Declare ``--store``."""
    parser.add_argument(
        "--store",
        type=Path,
        default=Path(".anubis"),
        metavar="DIR",
        help="folder that keeps runs and history (default: .anubis)",
    )


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Declare ``--profile``."""
    parser.add_argument(
        "--profile",
        choices=("smoke", "standard", "soak"),
        default="smoke",
        help="sizes and durations of the benchmarks: seconds, minutes or hours (default: smoke)",
    )


def add_verbose(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare ``-v``; `text` is its help."""
    parser.add_argument("-v", "--verbose", action="count", default=0, help=text)


def add_output(parser: argparse.ArgumentParser, *, more: str = "") -> None:
    """Declare ``-o``, the folder of baselines that is written to; `more` ends its help."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=DEFAULT_BASELINE,
        metavar="DIR",
        help=f"folder of baselines to write to (default: {DEFAULT_BASELINE}){more}",
    )


def add_baseline(parser: argparse.ArgumentParser, *, more: str = "") -> None:
    """Declare ``--baseline``, which `baseline_place` reads; `more` ends its help."""
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="PATH",
        help=f"folder of baselines, or one baseline file (default: {DEFAULT_BASELINE}){more}",
    )


def baseline_place(options: argparse.Namespace) -> Path:
    """Return where the baselines in force are: the named place, else the default, which may be missing."""
    named: Path | None = options.baseline
    if named is not None and not named.exists():
        raise CommandError(f"--baseline {named}: no such file or folder; name one that is there")
    return named or DEFAULT_BASELINE


def add_require(parser: argparse.ArgumentParser, *, more: str = "") -> None:
    """Declare ``--require``."""
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="NAME",
        help="component, benchmark or metric that a node must have run to be accepted, whatever else it did "
        "not run ('any': whatever it ran); can be given again; default: what its runs required "
        f"(--anubis-require), else all of the baseline{more}",
    )


def add_strictness(parser: argparse.ArgumentParser, *, more: str = "") -> None:
    """Declare the options that make the decision on collected runs milder or stricter.

    `strictness_words` repeats them; `more` ends each help text.
    """
    parser.add_argument(
        "--fail-on",
        choices=("fail", "marginal"),
        default="fail",
        help=f"mildest verdict that rejects a node (default: fail){more}",
    )
    parser.add_argument(
        "--waivers",
        type=Path,
        metavar="FILE",
        help="TOML file of the failures that somebody answers for, as of today; default: those that the runs "
        f"themselves had (--anubis-waivers){more}",
    )
    parser.add_argument(
        "--require-all",
        action="store_true",
        help=f"what has no criterion blocks acceptance too{more}",
    )
    parser.add_argument(
        "--other-machine",
        action="store_true",
        help=f"let the baseline of one machine accept other machines too{more}",
    )
    parser.add_argument(
        "--allow-missing",
        type=probability,
        default=ALLOWED_MISSING,
        metavar="SHARE",
        help="share of a node's values that tables may lack without keeping it from being accepted, where "
        f"their benchmarks have other values of it (default: {100 * ALLOWED_MISSING:g}%%){more}",
    )


def strictness_words(options: argparse.Namespace) -> list[str]:
    """Return the options of `add_strictness` and `add_require` as words of a command line."""
    words = [word for name in options.require for word in ("--require", name)]
    words += ["--fail-on", options.fail_on] if options.fail_on != "fail" else []
    words += ["--waivers", str(options.waivers)] if options.waivers is not None else []
    words += ["--require-all"] if options.require_all else []
    words += ["--other-machine"] if options.other_machine else []
    share = options.allow_missing
    return words + (["--allow-missing", f"{share:g}"] if share != ALLOWED_MISSING else [])


def add_nodes_file(parser: argparse.ArgumentParser) -> None:
    """Declare ``--nodes-file``, a table of what nodes have in common."""
    parser.add_argument(
        "--nodes-file",
        type=Path,
        metavar="FILE.csv",
        help="table of the nodes, whose columns (rack, batch, ...) group "
        "the nodes; default: nodes.csv in the folders that are named, and what 'anubis history nodes "
        "import' put into the history",
    )


def add_split(parser: argparse.ArgumentParser) -> None:
    """Declare ``--split``, which `class_split.split_classes` reads."""
    parser.add_argument(
        "--split",
        action="append",
        default=[],
        metavar="NAME",
        help="split the hardware classes of collected runs by a version or setting of their nodes, as "
        "findings name it, e.g. 'driver nvidia'; can be given again (runs that were taken with "
        "--anubis-split are split already)",
    )


def add_json(
    parser: argparse.ArgumentParser, what: str, *, bare: bool = False, inherited: bool = False
) -> None:
    """Declare ``--json``, which writes `what` into a file or, as ``-``, to the standard output.

    With `bare` the option prints without a value, too; with `inherited` a parent parser has it, too.
    """
    more: dict[str, Any] = {"nargs": "?", "const": "-"} if bare else {}
    more |= {"default": argparse.SUPPRESS} if inherited else {}
    help_text = f"write {what} as JSON; - prints it"
    parser.add_argument("--json", metavar="FILE", help=help_text, **more)


def add_pytest_args(parser: argparse.ArgumentParser) -> None:
    """Declare ``--pytest-args``."""
    parser.add_argument(
        "--pytest-args",
        type=_shell_words,
        default="",
        action=_Joined,
        metavar="ARGS",
        help="further arguments of pytest, e.g. --pytest-args='-k gemm'; may be given several times",
    )


def _shell_words(text: str) -> str:
    """Return words for a shell unchanged, or raise if a quotation has no end."""
    try:
        shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    return text


class _Joined(argparse.Action):
    """Joins the words of an option that is given several times, so that suggested words can be appended."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, f"{before} {values}".strip())
