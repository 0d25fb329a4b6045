"""Text and verdict for a test whose worker has died, used by the controller and for hangs."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.distributed.containment.processes import Death
from pytest_anubis.distributed.containment.watchdog import Overdue
from pytest_anubis.distributed.dispatch.tasks import Task
from pytest_anubis.report.text.numbers import count_text, value_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The death of a worker."""

    worker: str
    test: str = ""  # node id of its running test, empty if there was none
    overdue: Overdue | None = None  # deadline for which the watchdog killed it, None if it did not
    death: Death | None = None  # how its process ended, None if unknown
    memory: bool = False  # the kernel killed processes for lack of memory meanwhile
    said: str = ""  # message of xdist

    @property
    def cause(self) -> str:
        """One phrase: what happened to the process."""
        late = self.overdue
        if late is not None:
            limit = f"{late.deadline.seconds:g} s ({late.deadline.source})"
            if late.survived:
                return f"hung: no end within {limit}; {late.survived}"
            if late.stubborn:
                return f"hung in the kernel: no end within {limit}, and it could not be killed"
            return f"hung: no end within {limit}; the process was killed"
        if self.death is None:
            return f"its process was lost ({self.said or 'reason unknown'})"
        if self.memory and self.death.signal == 9:
            return "the kernel killed its process for want of memory (SIGKILL, out of memory)"
        return f"its process died: {self.death}"

    @property
    def next_step(self) -> str:
        """What to do about it."""
        late = self.overdue
        if late is not None and late.stubborn:
            return "look for the driver's last words in the kernel log, then power-cycle the node"
        again = f"run it alone again: pytest --anubis {shlex.quote(self.test)}"
        if late is not None:
            return (
                f"look where it hung, then {again}; if it hangs on one device only, that device's "
                "driver, card or link does not answer: reset or exchange it"
            )
        if self.memory and self.death is not None and self.death.signal == 9:
            return f"free memory, or give the test less to do, then {again}"
        return f"look at the kernel log, then {again}"


def crash_text(
    crash: Crash,
    kept: Sequence[Measurement],
    evidence: Sequence[str],
    blind: str = "",
    *,
    attempts: Sequence[Measurement] = (),
) -> str:
    """Return the report's text, whose first line is a summary."""
    lines = [crash.cause]
    lines += [f"evidence: {phrase}" for phrase in evidence]
    if not evidence:
        lines.append("no evidence against the hardware was found: INCONCLUSIVE")
        if blind:
            lines.append(f"it could not be looked for everywhere: {blind}")
    for one in kept:
        last = f", last {value_text(one.values[-1], one.metric.unit)}" if one.values else ""
        lines.append(
            f"measured before: {one.metric.name}, {count_text(len(one.values), 'value')}{last}"
        )
    if attempts:
        count = count_text(sum(len(one.values) for one in attempts), "value")
        lines.append(f"set aside, of moments that were not clear or a lead-in: {count}")
    elif not kept:
        lines.append("it had measured nothing")
    lines.append(f"next step: {crash.next_step}")
    return "\n".join(lines)


def benchmark_frames(stack: str) -> str:
    """Return the frames of the benchmark in a dump of all threads, without those of pytest and execnet.

    Args:
        stack: Output of `faulthandler`: threads separated by empty lines, innermost frame first.
    """
    kept = []
    for thread in stack.split("\n\n"):
        lines = thread.splitlines()
        own = list(itertools.takewhile(lambda line: "_pytest/" not in line, lines))
        if own and not any("execnet/gateway_base" in line for line in own):
            kept.append("\n".join(own))
    return "\n\n".join(kept)


def crash_verdict(
    crash: Crash, task: Task, component: str, evidence: Sequence[str], *, node: str
) -> MetricVerdict | None:
    """Return FAIL if there is evidence against the hardware, else None."""
    if not evidence:
        return None
    return MetricVerdict(
        outcome=Outcome.FAIL,
        reason=Reason.TEST_FAILED,
        text=f"{crash.cause}, and {evidence[0]}",
        benchmark=task.benchmark,
        metric="",
        component=component,
        node=node,
        device=task.device,
        test=task.test,
        evidence=tuple(evidence),
        action=crash.next_step,
    )
