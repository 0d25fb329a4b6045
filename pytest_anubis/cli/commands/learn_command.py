"""``anubis learn``: run the benchmarks some rounds on this machine, or take collected runs, and learn."""

from __future__ import annotations

import argparse
import errno
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.learning.class_learning import golden_of, learned_class
from pytest_anubis.cli.learning.doubts import has_doubtful_values, is_doubtful, is_rejected, spoiled
from pytest_anubis.cli.learning.gaps import gaps_of, nothing_measured
from pytest_anubis.cli.learning.learned_json import (
    class_answer,
    gaps_answer,
    learned_document,
)
from pytest_anubis.cli.learning.learning_engines import add_engine, check_engine, engine_of
from pytest_anubis.cli.learning.next_commands import (
    judge_command,
    kept_lines,
    longer_command,
    see_commands,
)
from pytest_anubis.cli.learning.option_values import (
    add_limits,
    check_names,
    left_out,
    loss_of,
)
from pytest_anubis.cli.learning.rounds import LEAST_ROUNDS, Rounds
from pytest_anubis.cli.learning.true_costs import cost_lines
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
from pytest_anubis.cli.shared.command_error import CommandError, of_file
from pytest_anubis.cli.shared.history_access import duration
from pytest_anubis.cli.shared.learn_sources import holds_runs
from pytest_anubis.cli.shared.printing import say, write_file, write_json
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.cli.shared.run_sources import add_sources, read_history, wanted_of
from pytest_anubis.core.identity.machine_marks import identity_marks
from pytest_anubis.passwords import shown_place
from pytest_anubis.report.text.learned_text import criteria_lines, learned_lines
from pytest_anubis.report.text.numbers import count_text, duration_text
from pytest_anubis.report.text.power_text import next_line, power_lines
from pytest_anubis.report.text.text_table import clip
from pytest_anubis.store.baselines.baseline_files import BaselineError, seal
from pytest_anubis.store.baselines.kept_files import put_in_force
from pytest_anubis.store.best_probe import forget_best
from pytest_anubis.store.run_filter import RunFilter
from pytest_anubis.validator.deciding.ledger import uncovered_components
from pytest_anubis.validator.deciding.plain_checks import plain_checks

if TYPE_CHECKING:
    from pytest_anubis.core.baseline import Baseline
    from pytest_anubis.core.sample import Population
    from pytest_anubis.store.collected_runs import RunSet
    from pytest_anubis.store.samples.spilled_values import SpilledValues


SMOKE_TIME = 180.0
"""Seconds that learning the smoke set takes from start to end, unless somebody says otherwise or the fewest
rounds take longer: with the installation before it and the run after it that is within six minutes."""

DEFAULT_ROUNDS = 5
"""Rounds of the longer profiles: with them the noise is known, and each takes minutes or hours."""

DETECT = 0.1
"""Loss that every metric is to find: what a job that waits for its slowest node notices."""

NAMED = 100
"""Characters for the names of metrics in one line: more is read in the file."""
NOT_ACCEPTED = 20
"""Exit code of a baseline that was written and is less than it claims: as that of an undecided node."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    # Why nothing was learned and what helps is known after the rounds.
    parser.set_defaults(nothing="", helps=None)
    explain(
        parser,
        "Learn what is normal, and write a baseline for each hardware class: from rounds of the tests that "
        "are run here, or from runs that were collected from many nodes.",
        "Exit codes: 0 every class has its baseline; 2 wrong usage or input, a round that failed as a whole, "
        "or a class for which no criterion could be learned; 20 a test failed (the others have their "
        "criteria), others disturbed all that was measured, or a baseline was written, but it does not hold "
        "its stated error rate, values of some nodes are too good or wrong (a unit, work that was not done, "
        "a count of faults), a file could not be read or two runs of one id differ, others disturbed the "
        "machine so that a metric has no criterion, no metric of a component shows a loss of a half, no run "
        "recorded a metric that a mark declares, or somebody must decide about a slower group of nodes "
        "(anubis baseline populations FILE). "
        "What was measured while others disturbed the machine teaches nothing. Stop them, or allow what is "
        "always there: --pytest-args='--anubis-allow-process=NAME'. Of values that are not chosen by clear "
        "moments, as those of disks, --pytest-args='--anubis-quiet-limit=steal=9%' raises limits (see pytest "
        "--help).",
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
        help="measure here for so long, e.g. 5m or 1h: rounds of all tests, then of those that lack "
        f"power (default for smoke: {duration_text(SMOKE_TIME)})",
    )
    parser.add_argument(
        "--detect",
        type=loss_of,
        default=DETECT,
        metavar="LOSS",
        help="loss that every metric is to find: where one cannot, its tests run again while --for lasts, "
        f"and it is told in the end (default: {DETECT:.0%})".replace("%", "%%"),
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
    """Learn, write one baseline per hardware class, and say what came of it."""
    options.learned, options.failed = [], {}
    try:
        code = _run(options)
    except CommandError:
        if options.json is not None and options.learned:  # other classes have their baseline
            write_json(options.json, learned_document(options.learned, 2, failed=options.failed))
        raise
    if options.json is not None:
        document = learned_document(
            options.learned, code, nothing=options.nothing, failed=options.failed
        )
        write_json(options.json, document)
    return code


def _run(options: argparse.Namespace) -> int:
    if not 0 < options.alpha < 1:
        raise CommandError(f"--alpha {options.alpha:g}: must lie between 0 and 1")
    if bool(options.sources) == bool(options.history):
        raise CommandError("name tests to run here, or collected runs, or their history: --history")
    paths = [Path(source.partition("::")[0]) for source in options.sources]
    for path in paths:
        if not path.exists():
            raise CommandError(f"{path}: no such file or folder")
    runs = [holds_runs(path, options.store) for path in paths]
    if all(runs):
        if options.time is not None or options.rounds is not None:
            place = shown_place(options.history) or options.sources[0]
            raise CommandError(
                f"{place}: holds runs, and --for and --rounds measure here: name the files of "
                "the tests to measure, or leave the option out to learn from the runs"
            )
        check_engine(options, measuring=False)
        return _learn(options, paths, measured=False)
    check_engine(options, measuring=True)
    if wanted_of(options) != RunFilter():
        raise CommandError("--nodes, --metrics, --since and the like choose among runs, not tests")
    if any(runs):
        raise CommandError("give either tests to run here or collected runs, not both")
    rounds = Rounds(
        tests=options.sources,
        store=Path(options.store).resolve(),
        profile=options.profile,
        pytest_args=options.pytest_args,
        unwanted=options.without,
        failed=options.failed,
    )
    try:
        paths = _measure(options, rounds)
    except KeyboardInterrupt:
        for line in kept_lines(options, rounds.finished, LEAST_ROUNDS):
            say(line, file=sys.stderr)
        raise
    if rounds.disturbed:
        options.nothing = rounds.disturbed
        say(f"anubis learn: nothing can be learned: {rounds.disturbed}", file=sys.stderr)
        return NOT_ACCEPTED
    options.helps = rounds.what_helps
    code = _learn(options, paths, measured=True)
    for test, why in options.failed.items():
        say(f"failed, and has no more rounds: {test}: {why}; mend it, and learn again")
    return NOT_ACCEPTED if options.failed else code


def _measure(options: argparse.Namespace, rounds: Rounds) -> list[Path]:
    """Run the tests on this machine, each round a run with its own journal."""
    forget_best(rounds.store)
    if options.rounds is not None and options.time is not None:
        raise CommandError("--rounds and --for exclude each other: give a number or a time")
    asked = options.time is not None
    if options.rounds is None and options.time is None and options.profile == "smoke":
        options.time = SMOKE_TIME
    elif options.rounds is None and options.time is None:
        options.rounds = DEFAULT_ROUNDS
    if options.time is not None:
        preview = partial(_preview, options)
        return rounds.within(options.time, options.detect, preview, spoiled, asked=asked)
    return rounds.of_number(options.rounds, spoiled)


def _preview(options: argparse.Namespace, paths: Sequence[Path]) -> Baseline | None:
    """Learn from the rounds so far, for what they can show; None where nothing can be learned yet."""
    from pytest_anubis.store.collected_runs import RunsError, read_runs
    from pytest_anubis.validator import LearnError

    try:
        runs = read_runs(paths, learning=True)
        populations = [p for p in runs.populations if not left_out(p, options.without)]
        key = populations[0].hardware_class if populations else ""
        own = [p for p in populations if p.hardware_class == key]
        return learned_class(options, key, own, runs)
    except (RunsError, LearnError):
        return None  # the end of the command says what is wrong


def _learn(options: argparse.Namespace, paths: list[Path], *, measured: bool = False) -> int:
    from pytest_anubis.store.samples.spilled_values import SpilledValues

    try:
        # The cluster first: reading a fleet takes minutes, and an address is mistyped in seconds.
        with engine_of(options) as engine, SpilledValues() as storage:
            return _learn_from(options, paths, engine, storage, measured=measured)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise CommandError(
            f"{tempfile.gettempdir()}: no space left for the values; name another folder with TMPDIR"
        ) from error


def _learn_from(
    options: argparse.Namespace,
    paths: list[Path],
    engine: Executor | None,
    storage: SpilledValues,
    *,
    measured: bool,
) -> int:
    from pytest_anubis.cli.shared.collected_judging import read_collected

    if options.history:
        runs = read_history(options, learning=True, storage=storage)
    else:
        runs = read_collected(paths, wanted_of(options), learning=True, storage=storage)
    runs = split_classes(runs, options.split)
    say(*class_lines(runs))
    unread: dict[str, int] = {}
    for run in runs.runs:  # each day of a table has all lines about its node
        if run.unread:
            unread[run.node] = max(run.unread, unread.get(run.node, 0))
    if unread:
        lines, nodes = count_text(sum(unread.values()), "line"), count_text(len(unread), "node")
        what = f"{lines} about {nodes} could not be used, as 'anubis import' said"
        say(f"note: {what}: they teach nothing")
    by_class: dict[str, list[Population]] = {}
    if runs.populations:  # else it is reported below why there are none
        check_names(options, runs.populations)
    for population in runs.populations:
        if left_out(population, options.without):
            continue
        by_class.setdefault(population.hardware_class, []).append(population)
    chosen = partial(gaps_of, runs, partly=bool(wanted_of(options).metrics))
    if not by_class:
        gaps = chosen()
        say(*gaps.lines(verbose=options.verbose))
        raise nothing_measured(gaps, refused=bool(runs.refused))
    without, doubtful = [], 0
    for key, populations in sorted(by_class.items()):
        see = None if measured else see_commands(options)
        learn = partial(
            learned_class, options, key, populations, runs, engine=engine, storage=storage
        )
        several = len(by_class) > 1
        baseline, written = _learn_class(
            options, key, populations, runs, learn, several=several, see=see
        )
        if not baseline.criteria:
            if has_doubtful_values(baseline):
                doubtful += 1
                say(
                    f"{key}: no baseline: look at the values that the findings name, and learn again"
                )
            else:
                without.append(key)
            continue
        gaps = chosen(key)
        doubt = is_doubtful(baseline, populations, options) or bool(gaps.unset)
        doubt |= measured and is_rejected(Path(options.store), baseline.nodes)
        doubtful += doubt
        options.learned[-1] |= gaps_answer(gaps, doubtful=doubt)
        say(*gaps.lines(verbose=options.verbose), *written)
        if measured:
            say(
                next_line(
                    judge=judge_command(options),
                    learn=longer_command(options),
                    bare=bool(uncovered_components(baseline)),
                    mend=bool(gaps.unset),
                )
            )
    if without:
        more = f"; to measure longer: {shlex.join(longer_command(options))}" if measured else ""
        raise CommandError(
            f"{', '.join(without)}: no criterion could be learned; the findings above say why{more}"
        )
    lost = any(one.damaged for one in runs.refused)
    return NOT_ACCEPTED if doubtful or lost else 0


def _learn_class(
    options: argparse.Namespace,
    key: str,
    populations: list[Population],
    runs: RunSet,
    learn: Callable[..., Baseline],
    *,
    several: bool,
    see: Sequence[Sequence[str]] | None,
) -> tuple[Baseline, list[str]]:
    """Learn and write the baseline of one class, and tell of it; one without criteria is not written.

    Args:
        options: Those of the command.
        key: The class.
        populations: What there is of it.
        runs: Where it comes from.
        learn: Learns it.
        several: There are other classes, too.
        see: Commands that show nodes that are named; None where the rounds of this machine are learned from.

    Returns:
        The baseline, and lines that tell where it was written.
    """
    from pytest_anubis.cli.learning.kept_decisions import check_size, with_kept_decisions
    from pytest_anubis.validator import LearnError

    check_size(key, options.output, {node for one in populations for node in one.nodes})

    with Progress("learning") as progress:
        try:
            baseline = learn(progress=progress.count)
        except LearnError as error:
            raise CommandError(f"{key}: {error}") from error
    of_class = [run for run in runs.runs if run.hardware_class == key]
    marks = {mark for run in of_class for mark in identity_marks(run.inventory)}
    baseline = replace(
        baseline,
        inventory=golden_of(runs, key),
        checks=plain_checks(of_class),
        machine=tuple(sorted(marks)) if baseline.one_machine else (),
    )
    baseline, kept = with_kept_decisions(
        baseline, options.output, {one.benchmark for one in populations}
    )
    path = before = None
    try:  # before anything is said: whoever reads may have seen enough (``head``)
        if baseline.criteria:
            path, before = put_in_force(baseline, options.output)
    except (OSError, BaselineError) as error:
        raise of_file(error, done="written") from error
    options.learned.append(class_answer(baseline, path, before))
    say(*learned_lines(baseline, verbose=options.verbose, see=see or ()))
    if options.verbose:
        say(*criteria_lines(baseline, whole=True))
    if see is None:
        say(*power_lines(baseline, options.detect, verbose=options.verbose))
    say(*kept, *(cost_lines(of_class) if options.verbose else ()))
    if path is None:
        return baseline, []
    written = [f"written: {path}"]
    if before is not None:
        written.append(f"the one that was in force before is kept: {before}")
    if baseline.undecided:
        metrics = count_text(len(baseline.undecided), "metric")
        written.append(
            f"somebody must decide about slower groups of nodes in {metrics} "
            f"({clip(', '.join(baseline.undecided), NAMED)}): anubis baseline populations {path}"
        )
    if options.html is not None:
        page = options.html
        _write_page(
            page.with_name(f"{page.stem}-{path.stem}{page.suffix}") if several else page,
            baseline,
            populations,
        )
    return baseline, written


def _write_page(path: Path, baseline: Baseline, populations: list[Population]) -> None:
    from pytest_anubis.report.pages.learned_page import learn_page

    write_file(path, learn_page(seal(baseline), populations))  # under the name that its file has
