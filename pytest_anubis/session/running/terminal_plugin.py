"""The output on pytest's terminal: header, dead workers, verdict with explanation.

`LiveProgress` writes its lines by `write_apart`. `live_progress` and `start` use it.
"""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from pytest_anubis.core.asking.open_questions import asked_questions
from pytest_anubis.core.events import WorkerDied
from pytest_anubis.core.machine_marks import identity_marks, machine_mismatch
from pytest_anubis.report.text.duty_text import duty_lines
from pytest_anubis.report.text.failure_text import fitted_failure
from pytest_anubis.report.text.next_command import next_of
from pytest_anubis.report.text.numbers import count_text
from pytest_anubis.report.text.run_progress import death_line
from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.report.text.shared_lines import baseline_line, inventory_line, resume_hint
from pytest_anubis.report.text.summary_text import (
    elsewhere_lines,
    not_for_this_machine,
    summary_lines,
    untested_text,
    without_folders,
    wrapped_lines,
)
from pytest_anubis.report.text.text_table import clip, width_of, wrap
from pytest_anubis.session.running.live_run import Run
from pytest_anubis.session.running.report_outcomes import first_line
from pytest_anubis.session.selecting.pruning import conflicting_option

_SKIPPED = "Skipped: "
"""Beginning of a skip's reason in pytest's reports."""

_NO_ENTRIES = SimpleNamespace(reprentries=())


class Terminal:
    """Plugin that shows the run's baseline and result."""

    def __init__(self, config: pytest.Config, run: Run) -> None:
        self._config = config
        self._run = run
        run.say = self._print_death

    def _print_death(self, died: WorkerDied) -> None:
        """Print which worker died, and of what."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or self._config.get_verbosity() < -1:
            return
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        # Output in the main thread is captured like a test's; workers report in another thread.
        here = threading.current_thread() is threading.main_thread()
        with capture.global_and_fixture_disabled() if here and capture else nullcontext():
            write_apart(self._config, reporter, death_line(died))

    def pytest_report_header(self) -> list[str]:
        """Print what this node is compared with."""
        context = self._run.context
        lines = [
            f"anubis: {context.node}, hardware class {context.hardware_class}, "
            f"profile {context.settings.profile}"
        ]
        taken = inventory_line(context.inventory, context.settings.inventory or "")
        lines += [f"anubis: {taken}"] if taken else []
        if context.judging and context.settings.inventory and not context.own_inventory:
            lines.append(
                "anubis: this inventory is not known to be of the machine that measures: for health checks "
                "and the fleet this run accepts nothing; leave --anubis-inventory out"
            )
        lines += [f"anubis: {note}" for note in context.hidden]
        if context.settings.mode == "measure":
            lines.append("anubis: measuring only, nothing is judged")
        elif context.baseline is not None:
            lines.append(f"anubis: {baseline_line(context.baseline)}")
            lines += [f"anubis: {context.baseline_source}"] if context.baseline_source else []
            strange = machine_mismatch(
                context.baseline, context.node, identity_marks(context.inventory)
            )
            if strange and not context.settings.other_machine:
                lines.append(f"anubis: nothing can be accepted: {strange}")
        else:
            lines.append(f"anubis: {context.baseline_note}")
        settings = context.settings
        if context.waivers:
            expired = sum(waiver.expired for waiver in context.waivers)
            over = f", {expired} of them expired" if expired else ""
            lines.append(f"anubis: {count_text(len(context.waivers), 'waiver')}{over}")
        if settings.select:
            other = conflicting_option(self._config)
            if other:
                lines.append(f"anubis: the Selector gives way to {other}: nothing is left out")
            elif self._run.selection is not None:
                lines.append(self._run.selection.header())
        return self._wrapped(lines)

    def _wrapped(self, lines: list[str]) -> list[str]:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        width = _edge(reporter) if reporter is not None else None
        return [part for line in lines for part in wrap(printable(line), width, indent="  ")]

    def pytest_report_collectionfinish(self) -> list[str]:
        """With tests in this process: print the Selector's choice, and which deadlines are not enforced."""
        lines = []
        planned = self._run.state.planned
        costly = sum(plan.cost is not None for plan in planned.values())
        asked = self._run.context.settings.in_process
        step = "leave out --anubis-in-process" if asked else "-n0 runs them in a worker"
        if costly and not self._config.option.collectonly:
            verb = "declares a cost" if costly == 1 else "declare costs"
            lines.append(
                f"anubis: {costly} of {len(planned)} tests {verb}, but deadlines are not enforced in "
                f"this process; {step}"
            )
        elif self._run.context.settings.timeout is not None:
            lines.append(
                f"anubis: --anubis-timeout: deadlines are not enforced in this process; {step}"
            )
        selection = self._run.selection
        if selection is not None:
            lines += selection.lines(explain=self._run.context.settings.explain)
        return self._wrapped(lines)

    def _fold_skips(self, reporter: pytest.TerminalReporter) -> None:
        """Fold pytest's list of skips (``-ra``): one line for inapplicable tests, one for undecided tests.

        All other readers of these reports have already used the single reasons.
        """
        apart: list[pytest.TestReport] = []
        undecided: list[pytest.TestReport] = []
        for report in reporter.stats.get("skipped", []):
            if not isinstance(report.longrepr, tuple):
                continue
            if getattr(report, "anubis", {}).get("undecided"):
                undecided.append(report)
            elif not_for_this_machine(first_line(report)):
                apart.append(report)
        for reports, why in (
            (apart, f"not run here: {untested_text([first_line(report) for report in apart])}"),
            (undecided, "measured, not judged (-v says why of each)"),
        ):
            if len(reports) < 2:
                continue
            folder = os.path.commonpath([str(report.longrepr[0]) for report in reports])  # type: ignore[index]
            for report in reports:
                report.longrepr = (folder, None, _SKIPPED + why)  # type: ignore[assignment]  # pytest's own form of it

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Fit the tables in failures to the terminal, last, after all other readers of the reports."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or self._config.get_verbosity() > 0:
            return
        width = _columns(reporter)
        if width is None:
            return
        wrapped = _edge(reporter) is not None
        for report in reporter.stats.get("failed", []):
            rows = getattr(report, "anubis", {}).get("shown", {}).get("rows")
            for entry in getattr(report.longrepr, "reprtraceback", _NO_ENTRIES).reprentries:
                if rows:
                    entry.lines = fitted_failure(entry.lines, rows, width, wrapped=wrapped)

    def _shorten(self, reporter: pytest.TerminalReporter) -> None:
        """Fit the one-line summary of each failure, which pytest prints next, to the terminal."""
        log = bool(os.environ.get("CI") or os.environ.get("BUILD_NUMBER"))
        whole = log or self._config.get_verbosity() > 1
        if whole and not self._config.option.force_short_summary:
            return  # pytest cuts nothing either
        for word in ("failed", "error"):
            for report in reporter.stats.get(word, []):
                room = self._config.get_terminal_writer().fullwidth - len(f"{word}  - ")
                crash = getattr(report.longrepr, "reprcrash", None)
                lines = getattr(report, "anubis", {}).get("shown", {}).get("lines")
                if lines and crash is not None:
                    crash.message = self._line_of(report, lines, room)
                    continue
                # pytest cuts it too, but counts escape sequences as columns.
                if not self._config.get_terminal_writer().hasmarkup:
                    continue
                room -= width_of(self._typed(report.nodeid))
                if crash is not None:
                    crash.message = clip(crash.message.partition("\n")[0], room)
                elif isinstance(report.longrepr, str):
                    report.longrepr = clip(report.longrepr.partition("\n")[0], room)

    def _line_of(self, report: pytest.TestReport, lines: list[str], room: int) -> str:
        """Return the longest line that fits after a test's name; the name may lose its folders for it."""
        name = self._typed(report.nodeid)
        fits = _longest(lines[:-1] or lines, room - width_of(name))
        if not fits and self._config.get_verbosity() <= 0 and report.nodeid.endswith(name):
            # All but the shortest line are worth more than the folders, which -v shows.
            report.nodeid = report.nodeid.removesuffix(name)
            name = without_folders(name)
            report.nodeid += name
            fits = _longest(lines, room - width_of(name))
        return fits or clip(lines[-1], room - width_of(name))

    def _typed(self, test: str) -> str:
        """Return a node id as pytest shows it, relative to the folder in which it was started."""
        path, colons, name = test.partition("::")
        here = self._config.invocation_params.dir
        if here == self._config.rootpath:
            return test
        return os.path.relpath(self._config.rootpath / path, here) + colons + name

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the verdict."""
        verbosity = self._config.get_verbosity()
        if verbosity <= 0:
            self._fold_skips(terminalreporter)
        self._shorten(terminalreporter)
        run = self._run
        if run.internal_error:
            text = f"anubis: {run.internal_error}; everything measured is in {run.record_path}"
            terminalreporter.write_line(printable(text), red=True)
        verdict = run.state.node_verdict
        if verdict is None:
            if run.record_path and run.context.settings.mode == "measure":
                terminalreporter.write_line("anubis: measured, not judged: nothing is accepted")
            # If the profile has no test at all, this says why.
            others = elsewhere_lines(run.state.elsewhere, run.context.settings.profile)[:1]
            for line in self._verbose_lines() or (others if verbosity >= 0 else ()):
                terminalreporter.write_line(f"anubis: {line}")
            if run.record_path and (verbosity >= 0 or run.incomplete or run.broken):
                terminalreporter.write_line(f"anubis: {_recorded(run)}")
                self._write_way_on(terminalreporter)
            return

        terminalreporter.section("anubis", sep="-")
        record = run.state.record()
        lines = summary_lines(
            verdict,
            record.effective_verdicts,
            questions=asked_questions(record.planned, record.effective_verdicts, record.results),
            results=record.results,
            cards=record.cards,
            verbosity=verbosity,
            width=shutil.get_terminal_size().columns,
            wrapped=_edge(terminalreporter) is not None,
        )
        for text, style in lines:
            terminalreporter.write_line(text, **{style: True} if style else {})
        more = [(line, "") for line in self._verbose_lines()]
        more += [(f"benchmark written wrongly: {line}", "yellow") for line in run.usage_errors()]
        for text, style in wrapped_lines(more, _edge(terminalreporter)):
            terminalreporter.write_line(printable(text), **{style: True} if style else {})
        if verbosity >= 0 and not record.cut_short and (step := next_of(record)):
            terminalreporter.write_line(printable(step), bold=True)
        self._write_way_on(terminalreporter)
        terminalreporter.write_line(_recorded(run))

    def _verbose_lines(self) -> list[str]:
        """Return the lines for ``-v``: benchmarks of other profiles, and the share of measuring time."""
        state, profile = self._run.state, self._run.context.settings.profile
        if self._config.get_verbosity() <= 0:
            return []
        duties = duty_lines(tuple(state.results.values()), tuple(state.planned.values()))
        return [*elsewhere_lines(state.elsewhere, profile), *duties]

    def _write_way_on(self, reporter: pytest.TerminalReporter) -> None:
        """Print how to resume a run that was broken off."""
        run = self._run
        if run.state.record().cut_short:
            reporter.write_line(printable(f"anubis: {resume_hint(run.context.run_id)}"))


def _longest(lines: list[str], room: int) -> str:
    """Return the first line that fits; empty if none does."""
    return next((line for line in lines if width_of(line) <= room), "")


def _edge(reporter: pytest.TerminalReporter) -> int | None:
    """Return the columns after which a terminal breaks lines; None for a file, which keeps long lines."""
    return shutil.get_terminal_size().columns if reporter.isatty else None


def _columns(reporter: pytest.TerminalReporter) -> int | None:
    """Return the columns that a table may have; None if unlimited."""
    given = os.environ.get("COLUMNS", "").isdecimal()
    return shutil.get_terminal_size().columns if given else _edge(reporter)


def write_apart(config: pytest.Config, reporter: pytest.TerminalReporter, text: str) -> None:
    """Write a whole line during a run, after a line break if pytest's dots are in the current line."""
    reporter.ensure_newline()  # it does not know of dots with -q, nor of workers' dots
    if config.get_terminal_writer().width_of_current_line > 0:
        reporter.write("\n")
    reporter.write_line(printable(text))
    reporter.flush()


def _recorded(run: Run) -> str:
    line = f"run recorded in {run.record_path}"
    return printable(f"{line}, not completely: {run.incomplete}" if run.incomplete else line)
