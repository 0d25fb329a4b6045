"""The run on the controller (or in the only process): writes the journal, decides, sets the exit status."""

from __future__ import annotations

import datetime
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_anubis.codec import to_plain
from pytest_anubis.codec.encodable_text import all_encodable
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.events import (
    BlockerFound,
    DamageFound,
    Event,
    InternalErrorFound,
    Judged,
    NodeDecided,
    Resumed,
    RunFinished,
    RunStarted,
    WorkerDied,
)
from pytest_anubis.core.run import COMPLETED
from pytest_anubis.core.run_state import RunState, undecided_by
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.core.waiving import WaiversRead
from pytest_anubis.report.export.drain_reason import drain_reason
from pytest_anubis.report.text.numbers import duration_text
from pytest_anubis.session.context import RunContext, discard, judge_key, warn
from pytest_anubis.session.running.ends_of_tests import EndsOfTests
from pytest_anubis.session.running.exit_guard import decided_key, vouched_key
from pytest_anubis.session.running.resume import Earlier, unjudged
from pytest_anubis.session.selecting.run_choice import Selection
from pytest_anubis.settings import without_password
from pytest_anubis.store.history.closed_defects import closed_defects
from pytest_anubis.store.history.waiting_runs import keep
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_file import Journal
from pytest_anubis.store.node_standing import keep_begun, keep_ended, killed_here, latest_run

if TYPE_CHECKING:
    from pytest_anubis.core.history import Defect
    from pytest_anubis.core.sample import Population


class Run:
    """Plugin that follows the run, writes its journal, and decides at the end.

    Attributes:
        state: State of the run, made by its events.
        internal_error: One line if the decision could not be made.
        record_path: The journal; empty while there is none.
        incomplete: The part of the record that is not on the disk; empty if all is.
        broken: What broke the run off, in pytest's words; empty if nothing did.
        selection: The Selector's choice of benchmarks; None if it takes no part.
        looked_at: Checks besides the tests, as in `RunStarted`; set before the session starts.
        say: Takes each death of a worker at once, for the terminal; does nothing by default.
    """

    def __init__(
        self, config: pytest.Config, context: RunContext, earlier: Earlier | None = None
    ) -> None:
        self._config = config
        self._earlier = earlier
        self.context = context
        self.state = RunState() if earlier is None else earlier.state
        self.internal_error = ""
        self.record_path: str = ""
        self.incomplete = ""
        self.selection: Selection | None = None
        self.looked_at: tuple[str, ...] = ()
        self.say: Callable[[WorkerDied], None] = discard
        self._journal: Journal | None = None
        self._lock = threading.Lock()  # events of workers arrive in the receiver's thread
        self._ends = EndsOfTests(self.state, self.sink)
        self.broken = ""
        self._closed = False

    def sink(self, event: Event) -> None:
        """Write one event to the journal, then apply it to the state; its texts are made encodable."""
        event = all_encodable(event)
        with self._lock:
            # After a run was broken off its workers still send events, which the closed journal lacks.
            if self._journal is not None and not (self._closed and self.broken):
                self._journal.write(event)
            self.state.apply(event)
        if isinstance(event, WorkerDied):
            self.say(event)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Open the journal and write the start of the run, unless tests are only collected."""
        if self._config.option.collectonly:
            return
        context, earlier = self.context, self._earlier
        try:
            if earlier is not None:
                self._journal = Journal.open_existing(earlier.path)
            else:
                self._journal = Journal.create(context.settings.store, context.run_id)
        except JournalError as error:
            raise pytest.UsageError(f"--anubis-store: {error}") from error
        self.record_path = str(self._journal.path)
        if earlier is not None:
            self._continue(earlier)
        else:
            self.sink(self._started())
        if context.judging:
            self._queue_killed_runs()
            resumed = earlier is not None
            began = moment(self.state.record().started) if resumed else time.time()
            self._note(
                keep_begun(
                    context.settings.store,
                    context.node,
                    context.run_id,
                    began=began or 0.0,
                    resumed=resumed,
                )
            )
        if sys.flags.optimize:
            self._block(
                "Python runs with -O (PYTHONOPTIMIZE): assert statements check nothing; unset it"
            )
        if context.judging and context.behind > 0:
            self._block(
                f"the clock of this machine is {duration_text(context.behind)} behind its baseline: "
                "set it (timedatectl), then run again; if it is right, the baseline was learned by a clock "
                "that was ahead: learn it anew"
            )
        waivers = context.waivers if context.judging else ()
        # A resumed run may have different waivers, or none.
        if waivers or self.state.record().waivers:
            self.sink(WaiversRead(waivers=waivers))
        for note in context.hidden:
            self.sink(BlockerFound(text=f"{note} and not tested", found_anew=True))

    def _queue_killed_runs(self) -> None:
        """Queue killed runs of this node, so that this run files them in the history as well."""
        settings = self.context.settings
        for one in killed_here(settings.store, self.context.node):
            if one.running != self.context.run_id:
                place = settings.history_place
                self._note(keep(settings.store, one.running, place, why="the run was killed"))

    def _continue(self, earlier: Earlier) -> None:
        """Continue the earlier part, and judge again what a changed baseline or setting affects."""
        context = self.context
        self.sink(
            Resumed(
                started=self._now(),
                done=len(earlier.done),
                interrupted=earlier.interrupted,
                baseline=context.baseline.digest if context.baseline else "",
                settings=to_plain(without_password(context.settings)),
                looked_at=self.looked_at,
                changed=earlier.changed,
            )
        )
        if context.judging:
            for one in unjudged(earlier, self.state.record()):
                self.sink(Judged(verdict=self._config.stash[judge_key](one)))

    def _started(self) -> RunStarted:
        context = self.context
        return RunStarted(
            run=context.run_id,
            campaign=context.campaign,
            node=context.node,
            started=self._now(),
            hardware_class=context.hardware_class,
            attributes=context.attributes,
            profile=context.settings.profile,
            # Without a baseline there is no acceptance; learning may use such a run.
            purpose="acceptance" if context.judging and context.baseline else "measure",
            inventory=context.inventory,
            settings=to_plain(without_password(context.settings)),
            baseline=context.baseline.digest if context.baseline else "",
            devices=context.devices,
            tests=context.tests,
            root=context.root,
            looked_at=self.looked_at,
            behind=round(context.behind, 3),
            after=latest_run(context.settings.store, context.node) if context.judging else "",
        )

    def _block(self, text: str) -> None:
        """Record a reason that prevents acceptance."""
        self.sink(BlockerFound(text=text))

    def pytest_report_header(self) -> list[str]:
        """Print what a resumed run does not repeat."""
        if self._earlier is None:
            return []
        cut = ", ".join(self._earlier.interrupted) or "none"
        count = len(self._earlier.done)
        done = "1 test is" if count == 1 else f"{count} tests are"
        return [
            f"anubis: going on with run {self.context.run_id}: {done} done, interrupted: {cut}",
            *(
                f"anubis: differs from the earlier part: {what}; what was measured then is judged anew"
                for what in self._earlier.changed
            ),
        ]

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record that Ctrl-C or ``pytest.exit`` ends the run early."""
        text = str(excinfo.value).strip().split("\n", 1)[0]
        self.broken = f"interrupted ({excinfo.typename}{f': {text}' if text else ''})"

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record that pytest, a plugin or a conftest failed outside of any test."""
        text = str(excinfo.value).strip().split("\n", 1)[0]
        self.broken = f"internal error ({excinfo.typename}{f': {text}' if text else ''})"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record how tests end."""
        self._ends.report(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record what cannot be collected; with ``--continue-on-collection-errors`` the rest runs."""
        self._ends.collected(report)

    # First, because reports and terminal show the exit status.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Decide, close the journal, file the run."""
        if self._journal is None or self._withdrawn(self._journal, int(exitstatus)):
            return
        if not self.broken and exitstatus not in COMPLETED:
            self.broken = f"exit status {int(exitstatus)}"
        self._ends.finish_all()
        state = self.state
        pruned = self.selection is not None and self.selection.left_all
        # Also if no file could be collected, since pytest's 1 would mean that a node was rejected.
        judged = state.planned or pruned or state.judged or self._ends.failed
        if self.context.settings.mode == "judge" and judged:
            if exitstatus == pytest.ExitCode.TESTS_FAILED and not self._ends.failed:
                self._block("pytest ended with a failure, but no test of this run failed")
            self._decide_guarded(session)
        elif not self.broken and state.missing:
            session.exitstatus = Decision.UNDECIDED.exit_code
        if self.broken and session.exitstatus in COMPLETED:  # pytest.exit may have set it
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        elif self.usage_errors() and not self.broken and not self.internal_error:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        status = int(session.exitstatus)
        self.sink(RunFinished(exit_status=status, ended=self._now(), broken_off=self.broken))
        self._close(session, self._journal)
        self._vouch(int(session.exitstatus))
        self._keep_standing()
        self._file()

    def _withdrawn(self, journal: Journal, status: int) -> bool:
        """Remove the journal of a run that was refused before its first test; return whether it was."""
        state, refused = self.state, status == pytest.ExitCode.USAGE_ERROR and not self._earlier
        if not refused or state.results or state.interrupted or state.judged or self._ends.failed:
            return False
        journal.withdraw()
        self._journal, self.record_path = None, ""
        self._keep_standing()
        return True

    def _close(self, session: pytest.Session, journal: Journal) -> None:
        """Close the journal; if the disk lost a part of it, take an acceptance back."""
        if lost := self._unrecorded():  # after the end of the run, which the journal records as 0
            self.sink(DamageFound(text=lost))
        journal.close()
        self._closed = True
        lost = self._unrecorded()
        if not lost:
            return
        self.incomplete = lost
        if int(session.exitstatus) == 0:
            session.exitstatus = Decision.UNDECIDED.exit_code
        verdict = self.state.node_verdict
        if verdict is not None and verdict.decision is Decision.ACCEPTED:
            self.state.node_verdict = undecided_by(verdict, lost)

    def take_back(self, end: RunFinished) -> NodeVerdict | None:
        """Record that the run broke off after an acceptance; return the new verdict, None without one."""
        verdict = self.state.node_verdict
        if self._journal is None or verdict is None or verdict.decision is not Decision.ACCEPTED:
            return None
        try:
            with Journal.open_existing(self._journal.path) if self._closed else self._journal as on:
                on.write(end)
        except JournalError as error:
            self._note(str(error))
        self._closed = True
        self.state.apply(end)
        self._keep_standing()
        self._file()
        return self.state.node_verdict

    def _vouch(self, status: int) -> None:
        """Confirm a status of 0 for the exit guard, if the journal is closed and accepts a judged node."""
        verdict = self.state.node_verdict
        accepted = verdict is not None and verdict.decision is Decision.ACCEPTED
        wanted = accepted or self.context.settings.mode == "measure"
        self._config.stash[decided_key] = status
        self._config.stash[vouched_key] = status == 0 and wanted and not self.incomplete

    def _unrecorded(self) -> str:
        """Return the part of the record that is not on the disk; empty if all is."""
        return "" if self._journal is None else self._journal.unrecorded

    def _decide_guarded(self, session: pytest.Session) -> None:
        """Decide; record an error in our code or a hook, so that the measurements are not lost."""
        try:
            self._decide(session)
        except Exception as error:
            decided = self.state.node_verdict is not None
            what = "a pytest_anubis_verdict hook" if decided else "the decision"
            first = str(error).split("\n", 1)[0]
            line = f"internal error: {what} failed: {type(error).__name__}: {first}"
            self.internal_error = line
            self.sink(InternalErrorFound(text=line, traceback=traceback.format_exc()))
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR

    def _decide(self, session: pytest.Session) -> None:
        from pytest_anubis.validator.deciding.run_decision import decide_run

        context, settings, selection = self.context, self.context.settings, self.selection
        if lost := self._unrecorded():
            self._block(lost)
        decision = decide_run(
            self.state.record(),
            context.baseline,
            fail_on=settings.fail_on,
            require_all=settings.require_all,
            history=self._history,
            left_out=None if selection is None else selection.left_out(),
            broken_off=f"the run was broken off: {self.broken}" if self.broken else "",
        )
        for verdict in decision.added:
            self.sink(Judged(verdict=verdict))
        node_verdict = decision.node_verdict
        self.sink(NodeDecided(verdict=node_verdict))
        if node_verdict.decision is Decision.ACCEPTED and (lost := self._unrecorded()):
            node_verdict = undecided_by(node_verdict, lost)
            self.sink(NodeDecided(verdict=node_verdict))
        # By now every failure and crash has a verdict, so this status covers pytest's 1.
        if not self.broken:
            session.exitstatus = node_verdict.decision.exit_code
        self._config.hook.pytest_anubis_verdict(
            config=self._config,
            verdict=node_verdict,
            verdicts=list(self.state.record().effective_verdicts),
        )

    def _history(self) -> Sequence[Population]:
        from pytest_anubis.store.earlier_runs import earlier_populations

        context = self.context
        return earlier_populations(
            context.settings.store,
            node=context.node,
            hardware_class=context.hardware_class,
            profile=context.settings.profile,
            before=context.run_id,
        )

    def usage_errors(self) -> list[str]:
        """Return one line for every benchmark with a mistake in its code."""
        return [f"{r.test}: {r.misuse}" for r in self.state.results.values() if r.misuse]

    def closed_defects(self) -> Sequence[Defect]:
        """Return the class's earlier defects that operators have closed, as far as they can be read."""
        return closed_defects(self.context.settings.history_place, self.state.record())

    def _keep_standing(self) -> None:
        """Store the verdict for health checks; a run without one keeps the known verdict."""
        context, verdict, record = self.context, self.state.node_verdict, self.state.record()
        if context.judging:
            reason = (
                drain_reason(verdict, record.effective_verdicts, context.run_id) if verdict else ""
            )
            self._note(keep_ended(context.settings.store, record, ended=time.time(), reason=reason))

    def _now(self) -> str:
        """Return the present time, corrected if the clock is behind the baseline."""
        present = datetime.datetime.fromtimestamp(time.time() + self.context.behind, datetime.UTC)
        return present.isoformat(timespec="milliseconds")

    def _note(self, problem: str) -> None:
        if problem:
            warn(self._config, problem)

    def _file(self) -> None:
        """File the run in the history; a failure is only reported, because the journal has everything."""
        settings = self.context.settings
        try:
            from pytest_anubis.store.history.run_filing import file_finished

            problem = file_finished(
                settings.history_place,
                settings.store,
                self.state.record(),
                journal=self.record_path,
            )
        except KeyboardInterrupt:  # the verdict is written, so this ends only the waiting
            problem = "this run is not in the history: interrupted; 'anubis push' files it"
        except Exception as error:  # SQLAlchemy itself may be broken
            problem = f"this run is not in the history: {type(error).__name__}"
        self._note(problem)
