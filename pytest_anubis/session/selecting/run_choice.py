"""The Selector's choice for one run, made once in the main process for all processes.

`read_choice_inputs` reads the history and the risk model for it; `pruning` applies it. `controller`,
`live_run` and `start` use it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_anubis.codec import CodecError, from_plain, to_plain
from pytest_anubis.codec.moments import day_of
from pytest_anubis.core.events import BenchmarksChosen, BlockerFound
from pytest_anubis.core.history import Doubt, FleetHistory
from pytest_anubis.core.machine_marks import identity_marks
from pytest_anubis.core.standing.standing_verdict import node_doubt
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.report.pages.choice_report import choice_lines, explain_lines
from pytest_anubis.report.text.numbers import percent
from pytest_anubis.selector.choice.choice_plan import Plan
from pytest_anubis.selector.selector_error import SelectorError
from pytest_anubis.session.context import RunContext, Sink
from pytest_anubis.store.history import HISTORY_NAME
from pytest_anubis.store.node_standing import StandingError, newer_standing, read_standing
from pytest_anubis.validator.deciding.requirement import Requirement

if TYPE_CHECKING:
    from pytest_anubis.selector.choice.choice_inputs import (
        Choice,
        ChoiceInputs,
        ChoiceRequest,
        Offer,
    )
    from pytest_anubis.validator.deciding.run_decision import LeftOut


class Selection:
    """The choice of benchmarks for a run, made when the first process has collected.

    Args:
        inputs: History and model behind the choice, read before collection.
        earlier: The choice of the interrupted run that is resumed; it is kept.

    Attributes:
        lanes: Number of processes that serve devices at the same time.
        choice: The choice; None before it is made, or if there was nothing to choose from.
        record: The choice as plain data for the journal; None before.
    """

    def __init__(
        self,
        context: RunContext,
        inputs: ChoiceInputs,
        sink: Sink,
        earlier: Mapping[str, Any] | None = None,
    ) -> None:
        self.lanes = 1
        self.choice: Choice | None = None
        self.record: dict[str, Any] | None = None
        self._context = context
        self._inputs = inputs
        self._sink = sink
        self._earlier = earlier
        self._damaged = False
        self._ends: float | None = None  # end of the budget, by the monotonic clock
        self._offers: dict[str, Offer] = {}
        self._lock = threading.Lock()  # workers ask in the threads of their connections

    def answer(self, described: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the choice for one process, made at the first call.

        ``pruned`` maps left-out benchmarks to reasons, ``pinned`` names the benchmarks that always run, and
        ``left`` has the remaining seconds of the budget, None without one. If no choice is possible, the
        answer is ``error`` only.

        Args:
            described: The collected benchmarks, see `pruning.describe`.
        """
        with self._lock:
            if self.record is None and described:
                try:
                    self._choose(described)
                except SelectorError as error:
                    return {"error": f"--anubis-select: {error}"}
        record = self.record or {"pruned": (), "pinned": ()}
        return {
            "pruned": {item["benchmark"]: item["reason"] for item in record["pruned"]},
            "pinned": list(record["pinned"]),
            "left": None if self._ends is None else self._ends - time.monotonic(),
        }

    def _choose(self, described: Sequence[Mapping[str, Any]]) -> None:
        from pytest_anubis.selector.choice.choice_inputs import Offer, choose
        from pytest_anubis.selector.choice.choice_record import choice_record

        required = Requirement(self._context.settings.require)
        always = self._inputs.always
        offers = [
            Offer(
                benchmark=one["benchmark"],
                component=one["component"],
                declared=one["cost"],
                turns=-(-one["devices"] // max(1, self.lanes)),
                pinned=one["pinned"]
                or one["benchmark"] in always
                or (
                    bool(required.names) and required.covers(one["benchmark"], "", one["component"])
                ),
            )
            for one in described
        ]
        request = choice_request_of(self._context)
        kept = None
        if self._earlier is not None:
            seed, kept = self._earlier.get("seed"), _earlier_plan(self._earlier)
            if kept is not None and type(seed) is int and seed >= 0:
                request = replace(request, seed=seed)
            else:
                kept, self._damaged = None, True
        choice = choose(self._inputs, offers, request)
        if kept is not None:
            choice = replace(choice, plan=replace(choice.plan, **kept))
        self._offers = {offer.benchmark: offer for offer in offers}
        self.choice = choice
        pinned = [offer.benchmark for offer in offers if offer.pinned]
        self.record = to_plain(choice_record(choice, request, pinned=pinned))
        self._sink(BenchmarksChosen(choice=self.record))
        if choice.inputs.doubt and choice.plan.pruned:
            why = f"{choice.inputs.doubt}, and benchmarks were left out"
            self._sink(BlockerFound(text=f"{why}: run all of them (without --anubis-select)"))
        if request.mode == "budget" and request.budget is not None:
            self._ends = time.monotonic() + request.budget

    def lines(self, *, explain: bool) -> list[str]:
        """Return the choice for the terminal; no lines before it is made."""
        if self.record is None:
            return []
        lines = [f"anubis: {line}" for line in choice_lines(self.record)]
        if self._damaged:
            lines.append("anubis: the earlier choice in the journal is damaged: chosen anew")
        return lines + (explain_lines(self.record) if explain else [])

    def header(self) -> str:
        """Return the line that says what the choice is based on."""
        settings, inputs = self._context.settings, self._inputs
        risk = inputs.risk
        known = "unknown" if risk is None else f"{percent(risk)} ({inputs.basis})"
        if inputs.unreadable:
            known = "unknown, the history cannot be read"
        return (
            f"anubis: selecting by {settings.select}: risk of an incident in "
            f"{inputs.horizon / 3600:g} h {known}"
        )

    def left_out(self) -> LeftOut:
        """Return what the choice left out, for the decision about the node."""
        from pytest_anubis.validator.deciding.run_decision import LeftOut

        pruned = self.record["pruned"] if self.record is not None else ()
        verdicts = tuple(
            MetricVerdict(
                outcome=Outcome.NOT_TESTED,
                reason=Reason.PRUNED,
                text=f"left out by the Selector: {item['reason']}",
                benchmark=item["benchmark"],
                metric="",
                component=self._offers[item["benchmark"]].component
                if item["benchmark"] in self._offers
                else "",
                node=self._context.node,
            )
            for item in pruned
        )
        left = LeftOut(verdicts=verdicts, unneeded=self.unneeded())
        choice = self.choice
        if choice is None or not choice.plan.pruned:
            return left
        return replace(left, risk_after=choice.risk_after, interval_after=choice.interval_after)

    @property
    def left_all(self) -> bool:
        """True if a choice was made and it left out every benchmark."""
        return self.record is not None and not self.record["chosen"]

    def unneeded(self) -> str:
        """Return why nothing had to be measured; empty if something had to be."""
        if self.record is None or self.record["method"] != "nothing" or not self.left_all:
            return ""
        return choice_lines(self.record)[0]


def answered(selection: Selection, described: Any) -> dict[str, Any]:
    """Answer a worker whatever error occurs, because a worker without an answer would wait for ever."""
    try:
        return selection.answer(described)
    except Exception as error:
        return {"error": f"--anubis-select: the choice could not be made: {error!r}"}


def choice_request_of(context: RunContext) -> ChoiceRequest:
    """Return the settings of the Selector; the default seed is a hash of the run's name."""
    from pytest_anubis.selector.choice.choice_inputs import ChoiceRequest

    settings = context.settings
    drawn = int.from_bytes(hashlib.sha256(context.run_id.encode()).digest()[:4])
    return ChoiceRequest(
        mode=settings.select or "all",
        p0=settings.accepted_risk,
        budget=settings.budget,
        incident_cost=settings.incident_cost,
        explore=settings.explore,
        seed=drawn if settings.seed is None else settings.seed,
    )


def _earlier_plan(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the interrupted run's choice as fields of a plan; None if it is damaged."""
    names = ("chosen", "explored", "pruned", "method", "optimal", "reached", "cost", "full_cost")
    try:
        kept = from_plain(Plan, {name: event[name] for name in names}, where="selection")
    except (CodecError, KeyError):
        return None
    return {name: getattr(kept, name) for name in names}


def history_exists(place: Path | str) -> bool:
    """Return whether there may be a history: a folder needs its file, a database is assumed to have one."""
    try:
        return isinstance(place, str) or (place / HISTORY_NAME).exists()
    except (OSError, ValueError):
        return True  # opening it will give the error


def read_choice_inputs(context: RunContext) -> ChoiceInputs:
    """Read history and risk model for the choice; if the history is unreadable, nothing will be left out.

    Raises:
        pytest.UsageError: The risk model cannot be used, or the history is inconsistent; one line says why.
    """
    from pytest_anubis.selector.choice.choice_inputs import gather_inputs
    from pytest_anubis.selector.risk.forecast import RiskModel
    from pytest_anubis.store.history.bounded_use import use_history
    from pytest_anubis.store.history.database import History, HistoryError
    from pytest_anubis.store.history.fleet_history import read_fleet
    from pytest_anubis.store.history.machine_owners import name_here
    from pytest_anubis.store.history.risk_model_files import MODEL_NAME, read_model

    settings = context.settings
    path: Path = settings.store / MODEL_NAME
    now = time.time()

    def read(history: History) -> tuple[str, FleetHistory, str]:
        key, profile = context.hardware_class, settings.profile
        fleet = read_fleet(history, hardware_class=key, profile=profile)
        own = settings.inventory is None or context.own_inventory
        marks = identity_marks(context.inventory) if own else frozenset()
        return history.shown(), fleet, name_here(history, context.node, marks)

    place, fleet, unreadable = str(settings.store), FleetHistory(), ""
    node = context.node
    if history_exists(settings.history_place):  # opening one would make it
        try:
            place, fleet, node = use_history(settings.history_place, read)
        except HistoryError as error:
            unreadable = str(error)
    try:
        model = None
        # Without the history a model would take every node for new, and might consider it safe.
        if not unreadable and path.exists():
            model = RiskModel.from_plain(read_model(path))
    except HistoryError as error:
        raise pytest.UsageError(f"--anubis-select: {error}") from error
    except SelectorError as error:
        raise pytest.UsageError(f"--anubis-select: {path}: {error}") from error
    doubt = _own_doubt(context, now)
    try:
        inputs = gather_inputs(
            fleet, [node], now=now, horizon=settings.horizon, model=model, doubt=doubt
        )
    except SelectorError as error:
        raise pytest.UsageError(f"--anubis-select: {place}: {error}") from error
    return replace(inputs, unreadable=unreadable)


def _own_doubt(context: RunContext, now: float) -> Doubt | None:
    """Return what is open on the node by the runs in the store.

    The history may not have them yet, or may be an older one from a backup.
    """
    store, node = context.settings.store, context.node
    try:
        known = newer_standing(store, node, read_standing(store, node))
    except StandingError as error:
        return Doubt(why=str(error))
    if known is None:
        return None
    found = node_doubt(known.standing(holds_on(day_of(now))))
    if known.running in ("", context.run_id):
        return found
    return replace(found or Doubt(), why=f"run {known.running} has not ended")
