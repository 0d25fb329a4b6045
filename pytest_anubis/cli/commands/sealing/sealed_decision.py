"""Decide anew about a run to be sealed or verified, from the bytes of its journal and its baseline alone.

A journal that says another decision is refused (`VerdictError`). `seal_checking` and `seal_command` use it.
"""

from __future__ import annotations

import dataclasses
import io
from dataclasses import dataclass

from pytest_anubis.cli.commands.sealing.sealed_evidence import (
    first_difference,
    inventories_of,
    unstated_fault,
)
from pytest_anubis.cli.shared.run_lookup import completed
from pytest_anubis.codec import CodecError
from pytest_anubis.codec.moments import day_of, moment
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.seal import BASELINE, DOSSIER, INVENTORY, WAIVERS
from pytest_anubis.core.standing.standing_of import XFAIL
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reference,
    Waiver,
)
from pytest_anubis.core.waiving import WaiversRead, holds_on
from pytest_anubis.hardware.inventory.inventory_reading import InventoryError
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.store.baselines.baseline_files import BaselineError, baseline_of_bytes
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_reading import state_of
from pytest_anubis.store.sealing.manifest_form import text_of
from pytest_anubis.validator.deciding.run_decision import decide_anew


class SealingError(ValueError):
    """A run has no decision that can be sealed; the message is one line for people."""


class VerdictError(SealingError):
    """The journal says another decision than its values and the baseline give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRun:
    """A run with the decision that its journal and its baseline give, and no other."""

    record: RunRecord  # the run, with its decision made anew, also if it was cut short
    verdict: NodeVerdict  # that decision
    verdicts: tuple[MetricVerdict, ...]  # what it rests on, without what simply passed
    baseline: Baseline | None  # what it was judged by; None if it had none

    def derived(self) -> dict[str, bytes]:
        """Return the files of a seal that follow from journal and baseline, for people to read."""
        page = run_page(self.record, self.baseline)
        marked = [dataclasses.replace(XFAIL, test=test) for test in sorted(self.record.waived)]
        return {
            WAIVERS: text_of((*self.record.waivers, *marked)),
            INVENTORY: text_of(self.record.inventory),
            DOSSIER: page.encode("utf-8", "backslashreplace"),
        }


def journal_record(journal: bytes, place: str) -> RunRecord:
    """Return the run of a journal that has a decision to be sealed."""
    try:
        record = state_of(io.BytesIO(journal), place).record()
    except JournalError as error:
        raise SealingError(str(error)) from None
    if record.settings.get("mode") != "judge":
        raise SealingError(
            f"{place}: the run only measured, so there is no decision to seal; run it without "
            "--anubis-mode=measure"
        )
    return record


def decided(record: RunRecord, baseline: bytes | None) -> SealedRun:
    """Decide about a run from its values and the content of its baseline's file, if it had one.

    The decision must be what the journal says. Waivers count as on the day on which the run began, and the
    run is decided alone, without earlier ones.

    Raises:
        VerdictError: The decision differs.
        SealingError: The baseline is another one, or nothing can be decided.
    """
    known = _baseline(record, baseline)
    try:
        fault = unstated_fault(record, inventories_of(record), known)
    except (CodecError, InventoryError) as error:
        raise SealingError(str(error)) from None
    if fault:
        hint = (
            "; only the inventory of a resumed run's first part is known: measure anew"
            if len(record.parts) > 1
            else ""
        )
        raise VerdictError(
            f"its inventory gives {fault}, and the journal has no such verdict{hint}"
        )
    whole = completed(record, known)
    fresh = _anew(record, known)
    verdict, anew = whole.node_verdict, fresh.node_verdict
    if verdict is None or anew is None:
        raise SealingError("nothing in it can be judged")
    if anew.decision is not verdict.decision:
        why = next((f": {one}" for one in map(str, anew.blocking)), "")
        past = any(
            one.outcome is Outcome.FAIL and one.reference is Reference.SELF
            for one in whole.verdicts
        )
        hint = "; it was compared with earlier runs, which a seal of one run lacks" if past else ""
        raise VerdictError(
            f"the journal says {verdict.decision}, its values and baseline alone give {anew.decision}{why}"
            f"{hint}"
        )
    if anew.decision is Decision.ACCEPTED and record.replayed:
        raise VerdictError(
            "the journal says ACCEPTED, but it used a recorded inventory, not known to be of the machine "
            "that measured"
        )
    other = _other_blame(verdict, anew) or first_difference(
        whole.effective_verdicts, fresh.effective_verdicts
    )
    if other:
        raise VerdictError(other)
    return SealedRun(
        record=dataclasses.replace(whole, node_verdict=anew),
        verdict=anew,
        verdicts=tuple(v for v in fresh.effective_verdicts if v.outcome is not Outcome.PASS),
        baseline=known,
    )


def _anew(record: RunRecord, baseline: Baseline | None) -> RunRecord:
    """Return a run as its values and its baseline decide it, with its waivers as of its day."""
    began = moment(record.started)
    if began is None:
        raise SealingError("the journal does not say when the run began")
    waivers = WaiversRead(waivers=_waivers(record, day_of(began)))
    settings = record.parts[-1] or record.settings
    return decide_anew(
        dataclasses.replace(record, events=(*record.events, waivers)),
        baseline,
        fail_on="marginal" if settings.get("fail_on") == "marginal" else "fail",
        require_all=settings.get("require_all") is True,
        profile=record.profile,
    )


def _other_blame(verdict: NodeVerdict, anew: NodeVerdict) -> str:
    """Return the first component that one side alone blames, in words; empty if both blame the same."""
    said, found = set(verdict.components), set(anew.components)
    if said == found:
        return ""
    one = min(said ^ found)
    if one in said:
        return f"the journal blames {one}, its values and baseline alone do not"
    return f"its values and baseline alone blame {one}, the journal does not"


def _waivers(record: RunRecord, day: str) -> tuple[Waiver, ...]:
    """Return the run's waivers as of its day; one that the run itself took for expired stays so."""
    holds = holds_on(day)
    return tuple(
        dataclasses.replace(one, expired=one.expired or not holds(one)) for one in record.waivers
    )


def _baseline(record: RunRecord, content: bytes | None) -> Baseline | None:
    if content is None:
        if record.baseline:
            raise SealingError(f"the baseline that judged the run, {record.baseline}, is not in it")
        return None
    try:
        found = baseline_of_bytes(content, BASELINE, hardware_class=record.hardware_class)
    except BaselineError as error:
        raise SealingError(str(error)) from None
    if found.digest != record.baseline:
        raise SealingError(
            f"{BASELINE}: its digest is {found.digest}, and the run was judged by "
            f"{record.baseline or 'none'}"
        )
    return found
