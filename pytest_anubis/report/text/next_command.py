"""The command to type next after a run that came to no decision, with the reason for it."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Sequence

from pytest_anubis.core.asking.next_step import SHIPPED, learning, with_options
from pytest_anubis.core.asking.open_questions import (
    inapplicable,
)
from pytest_anubis.core.blocker import Hindrance
from pytest_anubis.core.measurement import LOOKS_SPENT, NOT_INSTALLED
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import SKIPPED, Decision, MetricVerdict, NodeVerdict, Reason
from pytest_anubis.core.waiving import noise_options
from pytest_anubis.report.text.safe_text import plain_line
from pytest_anubis.report.text.shared_lines import MAX_WHY, STEP_WORDS, other_reasons
from pytest_anubis.report.text.text_table import clip

LONGER = "--for 9m"
"""Three times the default time of `smoke`: limits shrink at best with the square root of the time."""
DEFAULT_PROFILE = "smoke"
"""The profile that need not be typed."""
MAX_FOLDERS = 3
"""Folders of tests in a command; more are not one benchmark set."""

_AGAIN = (Reason.DISTURBED, Reason.BROKEN_OFF)
"""Reasons of open verdicts that measuring again resolves."""
_ONE_MACHINE = "one machine"


def next_of(run: RunRecord) -> str:
    """Return the next command for a run, as `next_line` does; empty for a run without a decision."""
    if run.node_verdict is None:
        return ""
    required = run.settings.get("require")
    line = next_line(
        run.node_verdict,
        run.effective_verdicts,
        profile=str(run.settings.get("profile", "")),
        typed=run.tests,
        root=run.root,
        required=[str(one) for one in required] if isinstance(required, list | tuple) else (),
    )
    return with_options(line, noise_options(run.parts))


def next_line(
    node: NodeVerdict,
    verdicts: Sequence[MetricVerdict],
    *,
    profile: str = DEFAULT_PROFILE,
    typed: str = "",
    root: str = "",
    required: Sequence[str] = (),
) -> str:
    """Return the next command for an undecided node.

    The first of these that applies decides:

    1. A test broke or hung: it is run alone, since nothing can be learned from it.
    2. A loss waits for confirmation: measure again, since learning would take the loss for normal.
    3. No test ran for want of a tool: the tool is installed first.
    4. There is no baseline, or none for a component: learn, since measuring again does not help.
    5. Only a disturbance is left: measure again.

    Benchmarks of the baseline that did not run are added to the tests, since one run must have all of them.

    Args:
        node: The decision.
        verdicts: All verdicts: they say where the tests are, and how many machines the baseline covers.
        profile: The run's; empty if unknown.
        typed: The tests as they were typed, quoted; empty: the folders of those that have verdicts.
        root: Path from the working directory to the folder in which the tests' ids begin; may be empty.
        required: The metrics, benchmarks or components required; empty: everything.

    Returns:
        ``next: COMMAND``, perhaps with when to type it; empty for other nodes, or if no tests are known.
    """
    tests = _with_absent(typed or _places(verdicts, root), node, root)
    if node.decision is not Decision.UNDECIDED or not tests:
        return ""
    step = _after_mending(node, verdicts, profile, root) or _open_loss(verdicts, profile, tests)
    if step:
        return step
    kinds = {one.kind for one in node.blocking}
    unlearned = Hindrance.NO_BASELINE in kinds
    uncovered = Hindrance.UNCOVERED in kinds
    again = any(one.reason in _AGAIN for one in node.blocking)
    if not (unlearned or uncovered or again) or (
        unlearned and _nothing_ran(verdicts) and not _tools_first(verdicts)
    ):
        return _after_installing(verdicts, tests, profile) or _all_in_one(
            node, tests, profile, required
        )
    if not (unlearned or uncovered):
        return f"next: pytest --anubis {tests}{_profiled(profile)} (when the machine is quiet)"
    of_profile = _profiled(profile, " --profile ")
    if unlearned:
        return f"next: {_tools_first(verdicts)}{learning(tests)}{of_profile}"
    if not _of_one_machine(verdicts):
        return ""  # a fleet's baseline is learned from its runs, whose folder is not known here
    return f"next: {learning(tests)}{of_profile or f' {LONGER}'} (when the machine is quieter than it was)"


def _profiled(profile: str, option: str = " --anubis-profile=") -> str:
    return "" if profile in ("", DEFAULT_PROFILE) else f"{option}{profile}"


def _all_in_one(node: NodeVerdict, tests: str, profile: str, required: Sequence[str]) -> str:
    """Return the command that runs all of the baseline's benchmarks at once; empty if none was absent."""
    others = [one for one in node.blocking if one.benchmark not in node.absent]
    if len(others) == len(node.blocking):
        return ""
    more = "".join(f" {shlex.quote(f'--anubis-require={name}')}" for name in required)
    mended = any(one.kind is not Hindrance.ABSENT for one in others)
    return f"next: pytest --anubis {tests}{_profiled(profile)}{more}" + (
        " (after you fix the other points above)" if mended else ""
    )


def _with_absent(tests: str, node: NodeVerdict, root: str) -> str:
    """Return tests and the files, or the folders of many files, of required benchmarks that did not run."""
    blocked = {one.benchmark for one in node.blocking}
    due = [name for name in node.absent if "::" in name and name in blocked]
    if not tests or not due or tests == SHIPPED:
        return tests
    typed = shlex.split(tests)
    files = {_as_typed(name.partition("::")[0], root) for name in due}
    missed = {file for file in files if not _within(file, typed)}
    if len(missed) > MAX_FOLDERS:
        missed = {_as_typed(name, root) for name in _folders(due)}
    kept = [one for one in typed if not _within(one, missed)]
    places = [*kept, *sorted(missed)]
    return shlex.join(places) if len(places) <= max(MAX_FOLDERS, len(typed)) else ""


def _after_mending(
    node: NodeVerdict, verdicts: Sequence[MetricVerdict], profile: str, root: str
) -> str:
    """Return the command to run once a broken test or file is repaired; empty if none broke."""
    broken = next((verdict for verdict in verdicts if verdict.broken), None)
    lost = (one.benchmark for one in node.blocking if one.kind is Hindrance.UNCOLLECTED)
    file = next(lost, "").partition("::")[0]
    if broken is None and not file:
        return ""
    more = _profiled(profile)
    if broken is None:
        return f"next: pytest --anubis {shlex.quote(_as_typed(file, root))}{more} (once it can be collected)"
    first = "where it ended" if broken.reason is Reason.NOT_REPORTED else "what stood in its way"
    test = shlex.quote(_as_typed(broken.benchmark.partition("[")[0], root))
    return f"next: pytest --anubis {test}{more} (alone, after a look at {first})"


def _after_installing(verdicts: Sequence[MetricVerdict], tests: str, profile: str) -> str:
    """Return the command to run once the cause is gone that kept tests from running; empty if all ran."""
    # Tests that are not for this machine do not count.
    reasons = (v.text for v in verdicts if v.reason in SKIPPED and not inapplicable(v.text))
    missed = list(dict.fromkeys(filter(None, reasons)))
    if not missed:
        return ""
    why = clip(plain_line(missed[0]).partition(STEP_WORDS)[0], MAX_WHY) + other_reasons(
        len(missed) - 1
    )
    return f"next: pytest --anubis {tests}{_profiled(profile)} (once this is seen to: {why})"


def _nothing_ran(verdicts: Sequence[MetricVerdict]) -> bool:
    """Return whether no test measured anything, so that learning would measure as little."""
    tests = [v for v in verdicts if "::" in v.benchmark]
    return bool(tests) and all(v.reason in SKIPPED for v in tests)


def _open_loss(verdicts: Sequence[MetricVerdict], profile: str, tests: str) -> str:
    """Return the command that confirms a loss whose measurement was cut short; empty if there is none."""
    lost = [v for v in verdicts if v.reason is Reason.DISTURBED and v.reference.is_baseline]
    if not lost:
        return ""
    when = "" if any(LOOKS_SPENT in v.disturbance for v in lost) else " (when the machine is quiet)"
    return f"next: pytest --anubis {tests}{_profiled(profile)}{when}"


def _tools_first(verdicts: Sequence[MetricVerdict]) -> str:
    """Return the tools to install first; empty if a test ran or lacked something else.

    Tests that do not apply to this machine are ignored.
    """
    applicable = [v for v in verdicts if v.benchmark and not inapplicable(v.text)]
    if not all(v.reason in SKIPPED and v.text.startswith(NOT_INSTALLED) for v in applicable):
        return ""
    names = (v.text.removeprefix(NOT_INSTALLED).partition(" (")[0] for v in applicable)
    tools = ", ".join(dict.fromkeys(names))
    return f"install {tools} (-v says how), then " if tools else ""


def _of_one_machine(verdicts: Sequence[MetricVerdict]) -> bool:
    """Return whether no verdict was judged by the baseline of a fleet."""
    held = [v.population for v in verdicts if v.reference.is_baseline and v.population]
    return all(_ONE_MACHINE in population for population in held)


def _places(verdicts: Sequence[MetricVerdict], root: str) -> str:
    """Return the folders of the tests as they are typed; empty if there are none or too many."""
    places = {_as_typed(name, root) for name in _folders(v.benchmark for v in verdicts)}
    return shlex.join(sorted(places)) if len(places) <= MAX_FOLDERS else ""


def _within(test: str, places: Iterable[str]) -> bool:
    """Return whether a file, folder or test lies in one of several places, all as they are typed."""
    path = posixpath.normpath(test.partition("::")[0])
    wider = {"." if path[:1] not in "./" else path, path}
    wider |= {path[:end] for end, letter in enumerate(path) if letter == "/"}
    return any(posixpath.normpath(one) in wider for one in places if "::" not in one)


def _as_typed(name: str, root: str) -> str:
    """Return a file, folder or test with the path to its root; a folder keeps its slash."""
    if not root:
        return name
    path, colons, test = name.partition("::")
    end = "/" if path.endswith("/") else ""
    return posixpath.normpath(f"{root}/{path}") + end + colons + test


def _folders(benchmarks: Iterable[str]) -> set[str]:
    """Return the top folders of benchmarks, with a slash; the file of a benchmark without a folder."""
    files = (name.partition("::")[0] for name in benchmarks if "::" in name)
    return {f"{name.partition('/')[0]}/" if "/" in name else name for name in files}
