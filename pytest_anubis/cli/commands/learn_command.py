"""``anubis learn``: learn baselines from rounds measured on this machine, or from collected runs."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.learning.class_learning import (
    NOT_ACCEPTED,
    ClassLearner,
    LearnResult,
    learned_class,
    naming_full_disk,
)
from pytest_anubis.cli.learning.doubts import undersampled_metrics
from pytest_anubis.cli.learning.learning_engines import add_engine, check_engine, engine_of
from pytest_anubis.cli.learning.next_commands import kept_line, longer_command, see_commands
from pytest_anubis.cli.learning.option_values import add_limits, check_names, is_named, loss_of
from pytest_anubis.cli.learning.rounds import (
    MIN_ROUNDS,
    MIN_ROUNDS_ON_CARDS,
    MIN_TIMED_ROUNDS,
    Rounds,
)
from pytest_anubis.cli.shared.arguments import (
    add_json,
    add_output,
    add_profile,
    add_pytest_args,
    add_split,
    add_store,
    add_verbose,
    explain,
)
from pytest_anubis.cli.shared.class_split import class_lines, split_classes
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.history_access import duration
from pytest_anubis.cli.shared.printing import say, write_json
from pytest_anubis.cli.shared.run_sources import add_sources, read_history, wanted_of
from pytest_anubis.passwords import shown_place
from pytest_anubis.report.text.numbers import count_text, duration_text
from pytest_anubis.store.best_probe import forget_best
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME
from pytest_anubis.store.run_filter import RunFilter
from pytest_anubis.traces.trace_names import is_trace

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.sample import Population
    from pytest_anubis.store.collected_runs import RunSet

SMOKE_TIME = 180.0
"""Default of ``--for`` for smoke, in seconds: installation, learning and a run take six minutes."""

DEFAULT_ROUNDS = 5
"""Rounds of the longer profiles: they show the noise, and each takes minutes or hours."""

DETECT = 0.1
"""Loss that every metric should find: a job that waits for its slowest node notices it."""

DEFAULT_STORE = ".anubis"
"""Default name of a store: copied from another machine it has this name, so its hidden folder is searched."""

SCHEMA = 1


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Learn what is normal, and write a baseline for each hardware class: from rounds of\n"
        "the tests that are run here, or from runs that were collected from many nodes.",
        """\
Exit codes: 0 every class has its baseline
  2 wrong usage or input, a round failed as a whole, or no criterion of a class could be learned
  20 other programs disturbed all measurements of speed, or a baseline was written, but
    - a test failed (the others have their criteria)
    - the baseline exceeds its stated error rate
    - values of some nodes are too good or wrong (a unit, work not done, a count of faults)
    - a file could not be read, or two runs of one id differ
    - other programs disturbed the machine so that a metric has no criterion
    - no metric of a component shows a loss of a half
    - no run recorded a metric that a mark declares
    - an operator must decide about a slower group of nodes (anubis baseline populations FILE)

Measurements that other programs disturb teach nothing. Stop these programs, or allow those that
always run: --pytest-args='--anubis-allow-process=NAME'. For disks and other values that are not
chosen by clear moments, raise limits: --pytest-args='--anubis-quiet-limit=steal=9%' (see pytest --help).""",
    )
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="TESTS|RUN",
        help="tests to run here (suites/), or runs collected elsewhere (folders, journals, imports)",
    )
    add_sources(parser)
    add_engine(parser)
    parser.add_argument(
        "--for",
        dest="time",
        type=duration,
        metavar="TIME",
        help=f"measure here for about this time, e.g. 5m or 1h, at least {MIN_TIMED_ROUNDS} rounds "
        f"({MIN_ROUNDS_ON_CARDS} with accelerators); stops early once every metric finds --detect (default "
        f"for smoke: {duration_text(SMOKE_TIME)})",
    )
    parser.add_argument(
        "--detect",
        type=loss_of,
        default=DETECT,
        metavar="LOSS",
        help="loss that every metric should find: tests of metrics that cannot find it run again while --for "
        f"lasts; those that still cannot are named at the end (default: {DETECT:.0%})".replace(
            "%", "%%"
        ),
    )
    parser.add_argument(
        "--rounds",
        type=int,
        help="rounds to run here, instead of --for (default for standard and soak: "
        f"{DEFAULT_ROUNDS})",
    )
    add_profile(parser)
    add_output(parser)
    add_store(parser)
    add_limits(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="page with every metric's CDFs")
    add_json(parser, "what was learned")
    add_verbose(parser, "every criterion, finding and sample that was left out has its line")
    add_split(parser)
    add_pytest_args(parser)


def run(options: argparse.Namespace) -> int:
    """Learn, write one baseline per hardware class, and return the exit code."""
    result = _result(options)
    if options.json is not None and (result.classes or not result.error):
        document = {
            "schema": SCHEMA,
            "exit_code": result.exit_code,
            "nothing": result.nothing,
            "failed": [{"test": test, "why": why} for test, why in result.failed.items()],
            "classes": list(result.classes),
        }
        write_json(options.json, document)
    if result.error:
        raise CommandError(result.error)
    return result.exit_code


def _result(options: argparse.Namespace) -> LearnResult:
    if not 0 < options.alpha < 1:
        raise CommandError(f"--alpha {options.alpha:g}: must lie between 0 and 1")
    if bool(options.sources) == bool(options.history):
        raise CommandError("name tests to run here, or collected runs, or their history: --history")
    paths = [Path(source.partition("::")[0]) for source in options.sources]
    for path in paths:
        if not path.exists():
            raise CommandError(f"{path}: no such file or folder")
    runs = [takes_runs(path, options.store) for path in paths]
    if all(runs):
        if options.time is not None or options.rounds is not None:
            place = shown_place(options.history) or options.sources[0]
            raise CommandError(
                f"{place}: has runs, and --for and --rounds measure here: name the files of "
                "the tests to measure, or leave the option out to learn from the runs"
            )
        check_engine(options, measuring=False)
        return _learn(options, paths, see=see_commands(options))
    check_engine(options, measuring=True)
    if wanted_of(options) != RunFilter():
        raise CommandError("--nodes, --metrics, --since and the like choose among runs, not tests")
    if any(runs):
        raise CommandError("give either tests to run here or collected runs, not both")
    return _measure_and_learn(options)


def _measure_and_learn(options: argparse.Namespace) -> LearnResult:
    """Run rounds of the tests on this machine, and learn from them."""
    if options.rounds is not None and options.time is not None:
        raise CommandError("--rounds and --for exclude each other: give a number or a time")
    seconds: float | None = options.time
    if seconds is None and options.rounds is None and options.profile == "smoke":
        seconds = SMOKE_TIME
    count = DEFAULT_ROUNDS if options.rounds is None else options.rounds
    rounds = Rounds(
        tests=options.sources,
        store=Path(options.store).resolve(),
        profile=options.profile,
        pytest_args=options.pytest_args,
        unwanted=options.without,
    )
    forget_best(rounds.store)
    try:
        if seconds is None:
            paths = rounds.of_number(count, undersampled_metrics)
        else:
            learn, asked = partial(_preview, options), options.time is not None
            paths = rounds.within(seconds, options.detect, learn, undersampled_metrics, asked=asked)
    except KeyboardInterrupt:
        say(kept_line(options, rounds.finished, MIN_ROUNDS), file=sys.stderr)
        raise
    if rounds.disturbed:
        say(f"anubis learn: nothing can be learned: {rounds.disturbed}", file=sys.stderr)
        return LearnResult(exit_code=NOT_ACCEPTED, nothing=rounds.disturbed, failed=rounds.failed)
    longer = longer_command(options, seconds=seconds, rounds=count)
    result = replace(_learn(options, paths, rounds=rounds, longer=longer), failed=rounds.failed)
    if result.error or not rounds.failed:
        return result
    for test, why in rounds.failed.items():
        say(f"failed, and has no more rounds: {test}: {why}; mend it, and learn again")
    return replace(result, exit_code=NOT_ACCEPTED)


def _preview(options: argparse.Namespace, paths: Sequence[Path]) -> Baseline | None:
    """Learn from the rounds so far, for what they can show; None if nothing can be learned yet."""
    from pytest_anubis.store.collected_runs import RunsError, read_runs
    from pytest_anubis.validator import LearnError

    try:
        runs = read_runs(paths, learning=True)
        populations = [p for p in runs.populations if not is_named(p, options.without)]
        key = populations[0].hardware_class if populations else ""
        own = [p for p in populations if p.hardware_class == key]
        return learned_class(options, key, own, runs)
    except (RunsError, LearnError):
        return None  # the end of the command says what is wrong


def _learn(
    options: argparse.Namespace,
    paths: list[Path],
    *,
    rounds: Rounds | None = None,
    longer: Sequence[str] = (),
    see: Sequence[Sequence[str]] = (),
) -> LearnResult:
    """Learn every hardware class of some runs, print the lines of each, and write its baseline.

    `rounds` are those on this machine, None if the runs were collected; `longer` and `see` are commands to be
    suggested.
    """
    from pytest_anubis.cli.shared.collected_judging import read_collected
    from pytest_anubis.store.samples.spilled_values import SpilledValues

    # Connect to the cluster first: an address is mistyped in seconds, and reading a fleet takes minutes.
    with naming_full_disk(), engine_of(options) as engine, SpilledValues() as spilled:
        if options.history:
            runs = read_history(options, learning=True, storage=spilled)
        else:
            runs = read_collected(paths, wanted_of(options), learning=True, storage=spilled)
        runs = split_classes(runs, options.split)
        say(*class_lines(runs), *_unread_lines(runs))
        learner = ClassLearner(
            options=options,
            runs=runs,
            rounds=rounds,
            longer=longer,
            see=see,
            engine=engine,
            spilled=spilled,
        )
        return learner.learn_all(_wanted_populations(options, runs))


def _unread_lines(runs: RunSet) -> list[str]:
    """Return a note on lines of imported tables that could not be used."""
    unread: dict[str, int] = {}
    for run in runs.runs:  # each day of a table has all lines about its node
        if run.unread:
            unread[run.node] = max(run.unread, unread.get(run.node, 0))
    if not unread:
        return []
    lines = count_text(sum(unread.values()), "line")
    nodes = count_text(len(unread), "node")
    what = f"{lines} about {nodes} could not be used, as 'anubis import' said"
    return [f"note: {what}: they teach nothing"]


def _wanted_populations(options: argparse.Namespace, runs: RunSet) -> dict[str, list[Population]]:
    """Return the populations to learn from, by hardware class."""
    if runs.populations:  # without any, a later line says why
        check_names(options, runs.populations)
    by_class: dict[str, list[Population]] = {}
    for population in runs.populations:
        if not is_named(population, options.without):
            by_class.setdefault(population.hardware_class, []).append(population)
    return by_class


def takes_runs(path: Path, store: Path) -> bool:
    """Decide whether to learn from a path's runs, not to measure its tests; print the choice if it has both.

    Runs below the tests in `store`, this machine's own, are earlier measurements and no reason not to measure
    again. Runs elsewhere were brought here to be learned from.
    """
    if not path.is_dir():
        return path.suffix != ".py" and not is_trace(path.name)
    from pytest_anubis.store.run_files import PARQUET
    from pytest_anubis.store.samples.columnar_files import SUFFIX, is_columns

    files = list(_project_files(path, store))
    runs = [one for one in files if one.name == JOURNAL_NAME or one.suffix == SUFFIX]
    inside = path.resolve().is_relative_to(store.resolve())
    if inside or not any(one.match("test_*.py") or is_trace(one.name) for one in files):
        exported = not any(one.suffix == ".py" for one in files) and any(
            one.suffix in PARQUET and one.parent == path for one in files
        )
        return bool(runs) or exported or any(path.rglob(JOURNAL_NAME))
    # Tests come with data of their own, so only the arrays of an import count as runs.
    runs = [one for one in runs if one.name == JOURNAL_NAME or is_columns(one)]
    if not runs:
        return False
    own = (store.resolve(), (path / store.name).resolve())
    brought = [one for one in runs if not any(one.resolve().is_relative_to(place) for place in own)]
    if brought:
        say(
            f"{path}: has {count_text(len(brought), 'run')} and tests: anubis learns from the runs; to "
            "measure here, name the files of the tests"
        )
        return True
    places = {one.parent.parent if one.name == JOURNAL_NAME else one.parent for one in runs}
    say(
        f"{path}: has tests, and {count_text(len(runs), 'run')} of this machine: tests are measured again; "
        f"to learn from the runs: anubis learn {shlex.join(map(str, sorted(places)))}"
    )
    return False


def _project_files(folder: Path, store: Path) -> Iterator[Path]:
    """Yield the files below a folder, without virtual environments and hidden folders other than stores.

    pytest collects nothing there either, and libraries bring their own tests and data.
    """
    kept = {store.name, DEFAULT_STORE}
    for name, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [one for one in folders if not one.startswith(".") or one in kept]
        yield from (Path(name, file) for file in files)
