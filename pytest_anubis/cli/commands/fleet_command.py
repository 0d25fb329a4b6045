"""``anubis fleet``: run tests on hosts by ssh, say what collected journals decided, copy launchers' recipes.

Nothing is judged anew. `status`, `drain-list` and `plan` are in ``commands/fleet``.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.commands.fleet.plan_action import add_plan
from pytest_anubis.cli.commands.fleet.status_action import add_drain_list, add_status
from pytest_anubis.cli.shared.arguments import add_action, add_json, add_verbose, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import answer, say, terminal_width, write_file, write_json
from pytest_anubis.durations import seconds
from pytest_anubis.fleet import launching
from pytest_anubis.fleet.launching.host_list import Host, HostListError, read_hosts
from pytest_anubis.fleet.launching.ssh_hosts import SSH, Launch
from pytest_anubis.report.pages.judged_nodes import judged_nodes_page
from pytest_anubis.report.text.node_text import fleet_lines
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.store.node_standing import answered_runs

if TYPE_CHECKING:
    from pytest_anubis.fleet.launching.fleet_verdict import FleetVerdict

KINDS = ("slurm", "kubernetes", "container")

CODES = (
    "Exit codes: 0 every node is accepted; 1 a node is rejected; 20 no node is rejected, but one is "
    "undecided or sent no journal, or a file could not be read; 2 wrong usage or input."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    explain(parser, "Run the tests on many hosts, and show what they decided.", CODES)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    one = add_action(
        actions, "verdict", _verdict,
        "say what the journals in folders decided, the worst node first; nothing is judged anew",
        CODES,
    )  # fmt: skip
    one.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders with journals")
    one.add_argument(
        "--expect",
        metavar="HOSTS",
        help="nodes that must be there: names with commas, n[1-3,7] as Slurm has it, or @FILE",
    )
    _add_outputs(one)
    three = add_action(
        actions, "recipes", _recipes, "copy the files for a launcher, to be read and adapted"
    )
    three.add_argument("kind", choices=KINDS, help="which launcher")
    three.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where it is to be (default: here)",
    )
    add_json(three, "the files")
    two = add_action(
        actions, "run", _run, "run the tests on hosts by ssh, bring the journals here, say what they decided",
        CODES,
    )  # fmt: skip
    two.add_argument(
        "--hosts",
        required=True,
        metavar="HOSTS",
        help="file with one host a line, NAME or NAME DESTINATION (user@host, ssh://user@host:port); or "
        "names, n[1-3,7] too",
    )
    two.add_argument(
        "--chdir", required=True, metavar="DIR", help="folder on the hosts in which pytest starts"
    )
    two.add_argument(
        "-o", "--output", type=Path, default=Path("fleet-results"), metavar="DIR",
        help="folder here for journals and what the hosts printed (default: fleet-results)",
    )  # fmt: skip
    two.add_argument("--python", default="python3", help="Python on the hosts (default: python3)")
    two.add_argument(
        "--timeout", metavar="TIME", help="time limit of a host, e.g. 45m (default: none)"
    )
    two.add_argument(
        "--parallel", type=int, default=64, metavar="N", help="hosts at a time (default: 64)"
    )
    two.add_argument(
        "--ssh-config",
        type=Path,
        metavar="FILE",
        help="configuration for ssh in place of the user's",
    )
    _add_outputs(two)
    two.add_argument(
        "arguments", nargs="+", metavar="ARG",
        help="what follows 'pytest --anubis' on the hosts; write -- before it",
    )  # fmt: skip

    add_status(actions)
    add_drain_list(actions)
    add_plan(actions)


def _recipes(options: argparse.Namespace) -> int:
    target = options.folder / options.kind
    if target.exists():
        raise CommandError(f"{target} exists already; name another folder, or move it away")
    try:
        shutil.copytree(Path(launching.__file__).parent / "recipes" / options.kind, target)
    except (OSError, shutil.Error) as error:
        raise CommandError(f"{target}: cannot be written ({error})") from error
    paths = [str(path) for path in sorted(target.iterdir())]
    answer(options.json, {"files": paths}, *(f"written: {path}" for path in paths))
    return 0


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    add_json(parser, "the nodes' decisions")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page: all nodes, the worst first"
    )
    add_verbose(parser, "every node, and all that was found on it")


def run(options: argparse.Namespace) -> int:
    """Carry out the action; the exit code is the fleet's decision."""
    return int(options.action(options))


def _verdict(options: argparse.Namespace) -> int:
    expected = [host.name for host in _hosts("--expect", options.expect)] if options.expect else []
    return _answer(options, options.folders, expected, {})


def _run(options: argparse.Namespace) -> int:
    hosts = _hosts("--hosts", options.hosts)
    if options.parallel < 1:
        raise CommandError("--parallel: at least 1")
    try:
        limit = None if options.timeout is None else seconds(options.timeout)
    except ValueError as error:
        raise CommandError(f"--timeout: {error}") from error
    config = ["-F", str(options.ssh_config)] if options.ssh_config else []
    launch = Launch(
        hosts=hosts,
        folder=options.chdir,
        arguments=options.arguments,
        name=f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}",
        results=options.output,
        python=options.python,
        seconds=limit,
        parallel=options.parallel,
        ssh=(*SSH, *config),
    )
    say(
        f"{count_text(len(hosts), 'host')}, runs {launch.name}-*, results in {options.output}",
        flush=True,
    )
    try:
        ends = launch.run(partial(say, flush=True))
    except OSError as error:
        raise CommandError(f"{options.output}: cannot be written ({error.strerror})") from error
    why = {end.host.name: end.trouble for end in ends if end.trouble}
    found = [end.journal.parent for end in ends if end.journal is not None]
    return _answer(options, found, [host.name for host in hosts], why)


def _hosts(flag: str, text: str) -> list[Host]:
    try:
        return read_hosts(text)
    except HostListError as error:
        raise CommandError(f"{flag}: {error}") from error


def _answer(
    options: argparse.Namespace,
    places: Sequence[Path],
    expected: Sequence[str],
    why: Mapping[str, str],
) -> int:
    from pytest_anubis.fleet.launching.fleet_verdict import fleet_verdict
    from pytest_anubis.store.collected_runs import RunsError, RunSet, read_runs

    try:
        runs = read_runs(places) if places else RunSet()
    except RunsError as error:
        if not expected:
            raise
        runs = RunSet(warnings=(str(error),))
    answered = answered_runs(places, {run.node for run in runs.journals})
    found = fleet_verdict(runs, expected, why, answered=answered)
    if options.json != "-":
        say(*(f"note: {note}" for note in found.notes))
        say(*fleet_lines(found.rows, width=terminal_width(), verbosity=options.verbose))
    if options.html is not None:
        write_file(options.html, judged_nodes_page(found.rows, found.notes))
    if options.json:
        write_json(options.json, _document(found))
    return found.exit_code


def _document(found: FleetVerdict) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "node": row.verdict.node,
                "decision": row.verdict.decision.value,
                "headline": row.verdict.headline,
                "hardware_class": row.hardware_class,
                "components": list(row.verdict.components),
            }
            for row in found.rows
        ],
        "notes": list(found.notes),
        "exit_code": found.exit_code,
    }
