"""``anubis baseline``: list, show, compare, promote, expire, backtest baselines; decide on slower groups."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.cli.learning.next_commands import first_command
from pytest_anubis.cli.learning.option_values import is_named
from pytest_anubis.cli.shared.arguments import (
    add_action,
    add_baseline,
    add_json,
    add_verbose,
    baseline_place,
    explain,
)
from pytest_anubis.cli.shared.baseline_changes import (
    backtest_lines,
    changes_lines,
    changes_of,
    changes_plain,
    key_of,
    key_plain,
)
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import answer, edge, say, write_json
from pytest_anubis.cli.shared.progress import Progress
from pytest_anubis.codec import to_plain
from pytest_anubis.core.baseline import EDITED, Baseline, Criterion, Finding
from pytest_anubis.core.metric import metric_name
from pytest_anubis.report.text.learned_text import (
    criteria_lines,
    details_lines,
    learned_lines,
    population_lines,
)
from pytest_anubis.report.text.shared_lines import baseline_line
from pytest_anubis.store.baselines.baseline_files import (
    BaselineError,
    find_baseline,
    load_baseline,
    save_baseline,
    seal,
)
from pytest_anubis.store.baselines.baseline_form import baseline_to_plain
from pytest_anubis.store.baselines.kept_files import free_place, keep_copy

if TYPE_CHECKING:
    from pytest_anubis.validator.limits.promises import Decision

ALL = "all"
"""In place of a metric's name: all metrics without a decision."""
SELF_CHECK_BEFORE = (
    "how many nodes of its own fleet it rejects was counted before this decision; learning the same runs "
    "again keeps the decision and counts anew"
)
MAX_CHANGES = 12
"""Criteria that promoting a baseline shows as changed; 'anubis baseline diff' shows all."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "List, show, compare, promote, expire, backtest and decide about baselines: what a class of hardware "
        "is held against.",
        "Exit codes: 0 done; 2 wrong usage or input, or a baseline that cannot be used.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    listing = add_action(actions, "list", _list, "list baselines, one line each")
    listing.add_argument(
        "folder", nargs="?", type=Path, default=Path("baselines"), help="default: baselines"
    )
    add_json(listing, "the list")
    show = add_action(actions, "show", _show, "show everything that one baseline says")
    show.add_argument("file", type=Path, help="e.g. baselines/CLASS.json")
    add_verbose(
        show, "every criterion with what it rests on, every node and sample that was left out"
    )
    add_json(show, "the baseline")
    diff = add_action(actions, "diff", _diff, "show what changed from one baseline to another")
    diff.add_argument("old", type=Path, help="baseline file")
    diff.add_argument("new", type=Path, help="baseline file")
    add_json(diff, "the differences")
    promote = add_action(
        actions,
        "promote",
        _promote,
        "check a reviewed (perhaps edited) baseline, seal it, put it into use",
    )
    promote.add_argument("file", type=Path, help="the reviewed file")
    promote.add_argument(
        "--to", type=Path, metavar="DIR", help="folder in use; default: the file's"
    )
    add_json(promote, "what is in use now, and what it replaced")
    expire = add_action(actions, "expire", _expire, "take a baseline out of use, and keep its file")
    expire.add_argument("file", type=Path, help="e.g. baselines/CLASS.json")
    add_json(expire, "where it is kept")
    groups = add_action(
        actions,
        "populations",
        _populations,
        "show slower groups of nodes that need a decision, and decide",
    )
    groups.add_argument("file", type=Path, help="e.g. baselines/CLASS.json")
    groups.add_argument(
        "--both",
        action="append",
        default=[],
        metavar="METRIC",
        help="accept both groups of this metric in every benchmark that has it ('BENCHMARK METRIC': in "
        "this one), or of all that are undecided (all); can be given again",
    )
    groups.add_argument(
        "--faster",
        action="append",
        default=[],
        metavar="METRIC",
        help="accept only the faster group of this metric, named or meant by 'all' as in --both: the slower "
        "one fails; can be given again",
    )
    add_json(groups, "the groups, and what was decided about each")
    back = add_action(
        actions, "backtest", _backtest, "show which past verdicts a new baseline would change"
    )
    back.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="folders, journals, imports"
    )
    back.add_argument(
        "--new", type=Path, metavar="FILE", help="the new baseline, which is not in force yet"
    )
    add_baseline(back, more=": the one in force")
    add_json(back, "what would change")


def run(options: argparse.Namespace) -> int:
    """Carry out the action."""
    try:
        return int(options.action(options) or 0)
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from error


def _list(options: argparse.Namespace) -> None:
    if not options.folder.is_dir():
        raise CommandError(
            f"{options.folder}: no such folder; learn a baseline with 'anubis learn'"
        )
    paths = sorted(options.folder.glob("*.json"))
    if not paths:
        none = f"{options.folder}: no baselines yet; learn one with '{first_command('learn')}'"
        say(none)
    broken = 0
    rows = []
    for path in paths:
        try:
            rows.append((path, load_baseline(path)))
        except BaselineError as error:
            say(f"cannot be used: {error}")
            broken += 1
    lines = (f"{path.name}: {baseline_line(baseline)}" for path, baseline in rows)
    answer(options.json, {"baselines": [_summary(*row) for row in rows]}, *lines)
    if broken:
        raise CommandError(f"{broken} of {len(paths)} baselines cannot be used; see above")


def _summary(path: Path, baseline: Baseline) -> dict[str, Any]:
    """Return what the list shows of one baseline."""
    return {
        "file": str(path),
        "hardware_class": baseline.hardware_class,
        "digest": baseline.digest,
        "criteria": len(baseline.criteria),
        "nodes": len(baseline.nodes),
        "runs": len(baseline.runs),
        "error_rate": baseline.error_rate,
        "created": baseline.created,
    }


def _the_file(path: Path) -> Path:
    """Return a baseline's file; a folder means the only baseline in it."""
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.json"))
    if len(found) != 1:
        raise CommandError(f"{path}: a folder of {len(found)} baselines; name one of them")
    return found[0]


def _loaded(path: Path) -> Baseline:
    return load_baseline(_the_file(path))


def _show(options: argparse.Namespace) -> None:
    baseline = _loaded(options.file)
    if options.json is not None:
        write_json(options.json, baseline_to_plain(baseline))
    if options.json == "-":
        return
    say(baseline_line(baseline))
    for name, value in sorted(baseline.attributes.items()):
        say(f"  {name}: {value}")
    say(*learned_lines(baseline, verbose=options.verbose))
    say(*criteria_lines(baseline, whole=options.verbose, width=edge()))
    if options.verbose:
        say(*details_lines(baseline))
    say(f"runs: {', '.join(baseline.runs) or 'none named'}")


def _diff(options: argparse.Namespace) -> None:
    paths = [_the_file(path) for path in (options.old, options.new)]
    old, new = map(load_baseline, paths)
    lines = [f"old: {baseline_line(old)}", f"new: {baseline_line(new)}"]
    if old.hardware_class != new.hardware_class:
        lines.append(f"different hardware classes: {old.hardware_class} and {new.hardware_class}")
    changes = changes_of(old, new)
    lines += changes_lines(changes)
    summaries = {"old": _summary(paths[0], old), "new": _summary(paths[1], new)}
    answer(options.json, summaries | changes_plain(changes), *lines)


def _promote(options: argparse.Namespace) -> None:
    written = _with_edited_finding(load_baseline(options.file, sealed=False))
    folder = options.to or options.file.parent
    before = find_baseline(folder, written.hardware_class) if folder.is_dir() else None
    old = None
    kept = None
    lines = []
    if before is not None and before.samefile(options.file):
        lines = _edited_in_place(options.file)
    elif before is not None:
        old = _before(before)
        if old is None or old.digest != seal(written).digest:
            kept = keep_copy(before)
    target = save_baseline(dataclasses.replace(written, digest=""), folder)
    used = load_baseline(target)
    lines += [f"in use: {target}: {baseline_line(used)}"]
    if folder.resolve() != Path("baselines").resolve():
        lines += [
            f"pytest --anubis reads baselines/ by itself: give it --anubis-baseline={target}, or promote "
            "with --to baselines"
        ]
    plain: dict[str, Any] = {"in_use": _summary(target, used), "replaced": kept and str(kept)}
    if old is not None:
        changes = changes_of(old, used)
        plain["changes"] = changes_plain(changes)
        lines += changes_lines(changes, MAX_CHANGES)
    lines = lines if kept is None else [f"replaced, kept as {kept}", *lines]
    answer(options.json, plain, *lines)


def _with_edited_finding(written: Baseline) -> Baseline:
    """Add to a baseline that was edited since it was sealed a finding that says so.

    A later reader sees that its limits were not learned as they are.
    """
    if not written.digest or written.digest == seal(written).digest:
        return written
    text = f"edited by hand after {written.digest} was sealed, and promoted"
    finding = Finding(kind=EDITED, text=text)
    findings = (*(one for one in written.findings if one.kind != EDITED), finding)
    return dataclasses.replace(written, findings=findings)


def _edited_in_place(path: Path) -> list[str]:
    """Return a line if a file was edited in place, so that its earlier content is unknown."""
    try:
        load_baseline(path)
    except BaselineError:
        return [
            f"{path} was edited where it lies, so what it was before cannot be shown; edit a copy and "
            f"promote that with --to {path.parent}"
        ]
    return []


def _before(path: Path) -> Baseline | None:
    """Return the baseline that is replaced; None if it cannot be read, which the new one mends."""
    try:
        return load_baseline(path, sealed=False)
    except BaselineError:
        return None


def _expire(options: argparse.Namespace) -> None:
    if not options.file.is_file():
        raise CommandError(f"{options.file}: no such baseline")
    target = free_place(options.file)
    options.file.rename(target)
    answer(options.json, {"kept": str(target)}, f"out of use, kept as {target}")


def _populations(options: argparse.Namespace) -> None:
    """List the groups; with decisions, write them into the file and seal it again."""
    from pytest_anubis.cli.learning.kept_decisions import with_decisions

    path = _the_file(options.file)
    baseline = load_baseline(path)
    groups = [criterion for criterion in baseline.criteria if criterion.second is not None]
    lines = []
    if not groups:
        lines = [f"{path.name}: no metric has a slower group to decide about"]
    if ALL in options.both and ALL in options.faster:
        raise CommandError(f"{ALL}: named with --both and with --faster; name it once")
    named = [name for name in (*options.both, *options.faster) if name != ALL]
    unknown = sorted(name for name in named if not any(is_named(one, [name]) for one in groups))
    if unknown:
        raise CommandError(
            f"{', '.join(unknown)}: no undecided group of that name in {path.name}; without options "
            "this command lists them"
        )

    def decide(criterion: Criterion) -> Decision:
        if criterion.second is None:
            return ""
        rest = not criterion.second.decided and not is_named(criterion, named)
        both, faster = (
            is_named(criterion, names) or (rest and ALL in names)
            for names in (options.both, options.faster)
        )
        if both and faster:
            name = metric_name(criterion.benchmark, criterion.metric.name)
            raise CommandError(f"{name}: named with --both and with --faster; name it once")
        return "both" if both else "faster" if faster else ""

    changed, decided = with_decisions(baseline, decide)
    groups = [criterion for criterion in changed.criteria if criterion.second is not None]
    lines += population_lines(groups)
    if decided:
        path = save_baseline(dataclasses.replace(changed, digest=""), path.parent)
        lines.append(f"written: {path}: {baseline_line(load_baseline(path))}")
        if baseline.self_check is not None:
            lines.append(SELF_CHECK_BEFORE)
    plain = {
        "file": str(path),
        "groups": [key_plain(key_of(one)) | {"second": to_plain(one.second)} for one in groups],
    }
    answer(options.json, plain, *lines)


def _backtest(options: argparse.Namespace) -> int:
    from pytest_anubis.store.collected_runs import read_runs
    from pytest_anubis.validator.deciding.run_decision import failed_checks
    from pytest_anubis.validator.judging.backtest import backtest

    if options.new is None:
        raise CommandError("--new FILE: name the new baseline; --baseline is the one in force")
    place = baseline_place(options)
    new = _loaded(options.new)
    path = find_baseline(place, new.hardware_class)
    if path is None:
        raise CommandError(
            f"no baseline of {new.hardware_class} is in force in {place}; name it with --baseline"
        )
    old = load_baseline(path, hardware_class=new.hardware_class)
    with Progress("reading") as progress:
        runs = read_runs(options.runs, progress=progress.say)
    classes = ("", new.hardware_class)
    ours = [p for p in runs.populations if p.hardware_class in classes]
    if not ours:
        raise CommandError(f"no run of hardware class {new.hardware_class} among those given")
    mine = [run for run in runs.journals if run.hardware_class in classes]
    result = backtest(ours, old, new, failed_checks(mine, runs.unmeasured))
    # The lines are cut, the JSON is complete.
    plain = to_plain(result) | {"old": _summary(path, old), "new": _summary(options.new, new)}
    answer(options.json, plain, *backtest_lines(result))
    return 0
