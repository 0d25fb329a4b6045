"""The controller's side of a run in workers: their channels, their deadlines and their deaths.

With ``--anubis`` xdist always distributes. Without ``-n`` the tests run one after the other in a single
worker, because only another process survives a crash.

`start` uses it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_anubis.codec import to_plain
from pytest_anubis.core.events import (
    Judged,
    LaneGivenUp,
    PlanPredicted,
    RunTimed,
    WorkerDied,
)
from pytest_anubis.core.measurement import ExpectedTest
from pytest_anubis.core.run_state import RunState
from pytest_anubis.core.verdict import Decision
from pytest_anubis.distributed.containment.crash_evidence import HardwareEvidence, card_addresses
from pytest_anubis.distributed.containment.crash_report import (
    Crash,
    benchmark_frames,
    crash_text,
    crash_verdict,
)
from pytest_anubis.distributed.containment.hang_reports import HangReports
from pytest_anubis.distributed.containment.processes import (
    how_it_died,
    is_gone,
    kill_tree,
    memory_kills,
    wait_gone,
)
from pytest_anubis.distributed.containment.watchdog import START_SECONDS, Deadline, Watchdog
from pytest_anubis.distributed.dispatch.certificates import (
    CertificateError,
    granted,
    load_certificates,
)
from pytest_anubis.distributed.dispatch.prediction import Plan, plan_lines
from pytest_anubis.distributed.dispatch.tasks import Certificates, Lane, Task, of_host
from pytest_anubis.distributed.workers import worker as far_side
from pytest_anubis.distributed.workers.device_binding import LANE, binding
from pytest_anubis.distributed.workers.lane_allotment import set_workers
from pytest_anubis.distributed.workers.lane_places import LanePlaces
from pytest_anubis.distributed.workers.worker_messages import WorkerMessages
from pytest_anubis.distributed.workers.xdist_scheduler import AnubisScheduling, ended_in_order
from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.session.context import RunContext, Sink, add_part
from pytest_anubis.session.selecting.run_choice import Selection, answered, history_exists
from pytest_anubis.settings import without_password
from pytest_anubis.store.scratch_folders import ScratchFolder


class Controller:
    """Plugin that sets workers up, receives their messages, and handles their deaths."""

    def __init__(
        self,
        config: pytest.Config,
        context: RunContext,
        state: RunState,
        sink: Sink,
        lanes: Sequence[Lane],
        places: LanePlaces,
        *,
        certificates: Certificates,
        costs: Mapping[str, float],
        selection: Selection | None,
    ) -> None:
        self._config = config
        self._selection = selection
        if selection is not None:
            selection.lanes = sum(bool(lane.devices) for lane in lanes)
        self._context = context
        self._state = state
        self._sink = sink
        self._lanes = {lane.name: lane for lane in lanes}
        self._places = places
        self._plain = to_plain(replace(context, settings=without_password(context.settings)))
        self._certificates = certificates
        self._costs = costs
        self._scheduler: AnubisScheduling | None = None
        self._watchdog = Watchdog(self._gave_up)
        self._messages = WorkerMessages(
            context.settings, sink, self._watchdog, costs, apart=places.apart
        )
        self._evidence = HardwareEvidence(card_addresses(context))
        overran = self._messages.overran
        self._hangs = HangReports(context.node, state, sink, self._evidence, overran)
        add_part(config, self._hangs, "anubis-hangs")
        self._memory = memory_kills()
        self._folder = ScratchFolder()
        self._session: pytest.Session | None = None
        self._nodes: dict[str, Any] = {}
        self._pids: dict[str, int] = {}
        self._leaving: list[int] = []  # processes of workers that have ended in order
        self._crashes: dict[str, Crash] = {}  # worker -> its crash
        self._crash_reports: dict[str, int] = {}  # test -> number of crashes
        self._plan: Plan | None = None
        self._lines: list[str] = []  # errors, printed at the end of the run
        self._notes: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Take over the counting of failures, because xdist would end the run as interrupted."""
        self._session = session
        self._dsession().maxfail = 0

    @pytest.hookimpl
    def pytest_configure_node(self, node: Any) -> None:
        """Give the worker the facts of the run, a channel, and a deadline for its start."""
        name = node.gateway.id
        self._nodes[name] = node
        channel = node.gateway.newchannel()
        lane = self.lane_of(node)
        channel.setcallback(lambda message: self._receive(name, lane, channel, message))
        idle = self._scheduler is not None and lane in self._scheduler.given_up
        node.anubis_channel = channel
        node.workerinput |= {
            far_side.CONTEXT: self._plain,
            far_side.CHANNEL: channel,
            far_side.IDLE: idle,
            far_side.NEAR: self._places.near(lane),
            far_side.STACK_FILE: "",
        }
        spec = node.gateway.spec
        if spec.popen and not spec.via:  # a process on this machine, which we can kill
            stack_file = self._folder.path / f"{name}.txt"
            node.workerinput[far_side.STACK_FILE] = str(stack_file)
            self._pids[name] = pid = node.gateway._rinfo().pid
            self._watchdog.process(name, pid, stack_file)
        self._watchdog.begins(name, Deadline(START_SECONDS, "for starting and collecting"))

    def _receive(self, name: str, lane: str, channel: Any, message: Any) -> None:
        """Handle a worker's message; answer its question for the choice of benchmarks."""
        if message[0] != "candidates" or self._selection is None:
            self._messages.receive(name, lane, message)
            return
        channel.send(("selection", answered(self._selection, message[1])))

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config) -> AnubisScheduling:
        """Place tests by device and resource, whatever ``--dist`` says."""
        self._scheduler = AnubisScheduling(
            config, tuple(self._lanes.values()), self, self._certificates, self._costs
        )
        return self._scheduler

    # For the scheduler.

    def lane_of(self, node: Any) -> str:
        """Return the name of the lane that a worker serves."""
        return str(node.gateway.spec.env[LANE])

    def tasks_of(self, node: Any) -> Sequence[Task] | None:
        """Return the tasks that a worker has described, None if it has not yet."""
        return self._messages.tasks.get(node.gateway.id)

    def release(self, node: Any, last: int | None) -> None:
        """Let a worker run the test that it holds, and then end."""
        node.anubis_channel.send(("last", last))
        node.shutdown()

    def stopping(self) -> bool:
        """Return whether xdist has ordered all workers to end."""
        return bool(self._dsession().shuttingdown)

    def starts_alone(self) -> None:
        """Wait until the processes of finished workers have ended; kill those that do not end."""
        wait_gone(self._leaving)
        for pid in self._leaving:
            if not is_gone(pid):
                kill_tree(pid)
        self._leaving.clear()

    def lane_given_up(self, node: Any, lane: str) -> None:
        """Let the lane's next worker do nothing, because its workers died too often."""
        devices, bindings = self._context.devices, self._context.bindings
        node.gateway.spec.env.update(binding(self._lanes[lane], devices, bindings, hidden=True))
        text = f"lane {lane} is given up: its workers died again and again"
        if text not in self._lines:
            self._lines.append(text)
            self._sink(LaneGivenUp(lane=lane))

    def planned(self, plan: Plan) -> None:
        """Write the plan to the journal and the terminal."""
        self._plan = plan
        slots = tuple(
            ExpectedTest(test=s.test, lane=s.lane, start=round(s.start, 3), end=round(s.end, 3))
            for s in plan.slots
        )
        self._sink(PlanPredicted(tests=slots, wall=plan.wall, serial=plan.serial))
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self._selection is not None:
            explain = self._context.settings.explain
            for line in self._selection.lines(explain=explain):
                terminal.write_line(printable(line))
        if terminal is not None and (verbosity := self._config.get_verbosity()) >= 0:
            for line in plan_lines(plan, every=verbosity > 0):
                terminal.write_line(printable(line))

    # Failures and deaths.

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self) -> None:
        """Stop in order after the failures that ``-x`` or ``--maxfail`` allow; crashes count too."""
        session = self._session
        if session is not None and session.shouldfail and self._scheduler is not None:
            self._scheduler.stop()

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """Find out how a worker ended.

        Raises:
            pytest.exit.Exception: A test called `pytest.exit`, which ends the run.
            pytest.UsageError: The worker ended because of a mistake in a mark.
        """
        leaving = self._messages.leaving
        if leaving is not None:
            self._messages.leaving = None
            raise pytest.exit.Exception(*leaving)
        if self._messages.usage:
            raise pytest.UsageError(self._messages.usage)
        name = node.gateway.id
        pid = self._pids.get(name)
        overdue = self._watchdog.gone(name)
        if ended_in_order(node):
            if pid is not None:
                self._leaving.append(pid)
            return
        kills = memory_kills()
        crash = Crash(
            worker=name,
            overdue=overdue,
            death=how_it_died(pid) if pid is not None and overdue is None else None,
            memory=kills is not None and self._memory is not None and kills > self._memory,
            said=str(error).strip().rpartition("\n")[2],
        )
        self._memory = kills
        self._crashes[name] = crash
        lane = self.lane_of(node)
        test = self._messages.running(name)
        self._sink(WorkerDied(worker=name, lane=lane, test=test, text=crash.cause))

    @pytest.hookimpl(tryfirst=True)
    def pytest_handlecrashitem(
        self, crashitem: str, report: pytest.TestReport, sched: AnubisScheduling
    ) -> None:
        """Fill in the report of a crashed test: cause, earlier measurements, and evidence."""
        name = report.node.gateway.id
        crash = replace(self._crashes.get(name, Crash(worker=name)), test=crashitem)
        task = self._messages.known.get(crashitem, Task(test=crashitem))
        component = self._messages.components.get(crashitem, "")
        times = self._crash_reports[crashitem] = self._crash_reports.get(crashitem, 0) + 1
        evidence = list(self._evidence.against(task.device))
        if times > 1 and not of_host(task):  # on a host the test's own code is the likelier cause
            evidence.append(f"it ended like this on {task.device} {times} times in a row")
        kept, attempts = self._state.measured(crashitem), self._state.attempts(crashitem)
        report.longrepr = crash_text(crash, kept, evidence, self._evidence.blind, attempts=attempts)
        report.location = (report.location[0], None, crashitem.partition("::")[2] or crashitem)
        report.duration = self._messages.seconds(name)
        report.anubis = {  # type: ignore[attr-defined]  # read by the session's plugins
            "benchmark": task.benchmark,
            "component": component,
            "device": task.device,
        }
        if crash.overdue is not None and crash.overdue.stack:
            report.sections.append(("where it hung", benchmark_frames(crash.overdue.stack)))
        verdict = crash_verdict(crash, task, component, evidence, node=self._context.node)
        if verdict is not None:
            self._sink(Judged(verdict=verdict))
        elif self._worth_repeating(task, sched):
            sched.mark_test_pending(crashitem)

    def _worth_repeating(self, task: Task, sched: AnubisScheduling) -> bool:
        """Return whether to repeat a crashed test on its accelerator, to tell a fault from a mishap."""
        stop = self._session is not None and self._config.getvalue("maxfail")
        return not of_host(task) and not stop and sched.can_repeat(task)

    def _gave_up(self, name: str) -> None:
        """Continue without a worker that cannot be killed, since its pipe will never close."""
        node = self._nodes[name]
        node._down = True  # else xdist would count it again if it ended after all
        node.notify_inproc("errordown", node=node, error="it hangs in the kernel")

    # The end.

    # Before the run writes the exit status to the journal.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Correct the exit status; xdist's is 0 if every worker died before its first test."""
        self._watchdog.stop()
        self._evidence.close()
        self._folder.close()
        self._record_time()
        crashes = sum(self._crash_reports.values()) + self._hangs.count
        only = exitstatus == pytest.ExitCode.TESTS_FAILED and crashes == session.testsfailed
        if only and self._context.settings.mode == "measure":  # else the verdicts decide
            session.exitstatus = Decision.UNDECIDED.exit_code
        never = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        left_all = self._selection is not None and self._selection.left_all
        if never and self._plan is None and not left_all:
            self._lines.append("no worker came as far as running a test: nothing was measured")
            session.exitstatus = Decision.UNDECIDED.exit_code

    def _record_time(self) -> None:
        began = self._messages.began
        if self._plan is None or began is None:
            return
        ended = self._messages.ended
        wall = round((time.monotonic() if ended is None else ended) - began, 3)
        predicted = round(self._plan.wall, 3)
        self._sink(RunTimed(wall=wall, predicted=predicted))
        if self._config.get_verbosity() > 0:
            self._notes.append(f"predicted {predicted:.1f} s, took {wall:.1f} s")

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the deaths and errors of workers."""
        for crash in self._crashes.values():
            terminalreporter.write_line(
                printable(f"anubis: worker {crash.worker}: {crash.cause}"), red=True
            )
        for line in (*self._lines, *self._messages.troubles):
            terminalreporter.write_line(printable(f"anubis: {line}"), red=True)
        for line in self._notes:
            terminalreporter.write_line(printable(f"anubis: {line}"))

    def _dsession(self) -> Any:
        return self._config.pluginmanager.get_plugin("dsession")


def register(
    config: pytest.Config,
    context: RunContext,
    state: RunState,
    sink: Sink,
    selection: Selection | None = None,
) -> None:
    """Distribute the run, with a worker for every lane; with ``--collect-only`` and ``--pdb`` do nothing.

    Raises:
        pytest.UsageError: The certificates of this hardware class cannot be used, or a part is blocked.
    """
    if any(config.getoption(option, False) for option in ("collectonly", "usepdb")):
        return
    try:
        certificates = granted(
            load_certificates(context.settings.baselines, context.hardware_class)
        )
    except CertificateError as error:
        raise pytest.UsageError(str(error)) from error
    lanes = set_workers(config, context.devices, overlapping=bool(certificates))
    places = LanePlaces(context, lanes, card_addresses(context), sink=sink)
    add_part(config, places, "anubis-lanes")
    controller = Controller(
        config,
        context,
        state,
        sink,
        lanes,
        places,
        certificates=certificates,
        costs=_measured_costs(context),
        selection=selection,
    )
    add_part(config, controller, "anubis-controller")


def _measured_costs(context: RunContext) -> dict[str, float]:
    """Return the seconds of each benchmark in earlier runs; nothing if no history can be read."""
    place = context.settings.history_place
    if not history_exists(place):
        return {}
    from pytest_anubis.store.history.bounded_use import use_history
    from pytest_anubis.store.history.database import HistoryError

    key, profile = context.hardware_class, context.settings.profile
    try:
        return use_history(place, lambda history: history.durations(key, profile=profile))
    except HistoryError:
        return {}  # filing this run will report the error
