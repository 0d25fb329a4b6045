"""Decide about a sealed run anew, from the bytes of its journal and its baseline alone."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.cli.shared.collected_judging import judge_collected
from pytest_anubis.cli.shared.run_lookup import completed
from pytest_anubis.codec.moments import day_of, moment
from pytest_anubis.core.baseline import Baseline
from pytest_anubis.core.metric import first_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.seal import BASELINE, DOSSIER, INVENTORY, JOURNAL, WAIVERS
from pytest_anubis.core.verdict import (
    Decision,
    MetricVerdict,
    NodeVerdict,
    Outcome,
    Reference,
    Waiver,
)
from pytest_anubis.core.waiving import holds_on
from pytest_anubis.report.pages.dossier import run_page
from pytest_anubis.store.baselines.baseline_files import BaselineError, baseline_of_bytes
from pytest_anubis.store.collected_runs import RunReader
from pytest_anubis.store.journal.journal_events import JournalError
from pytest_anubis.store.journal.journal_reading import state_of
from pytest_anubis.store.sealing.manifest_form import text_of

MAX_BLAMED = 8
"""Components and devices named in one line."""


class SealingError(ValueError):
    """A run has no decision that can be sealed; the message is one line for people."""


class VerdictError(SealingError):
    """The journal says another decision than its values and the baseline give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRun:
    """A run with the decision that its journal and its baseline give, and no other.

    Attributes:
        record: The run, with its verdict also if it was cut short.
        verdict: That verdict.
        baseline: What it was judged by; None if it had none.
    """

    record: RunRecord
    verdict: NodeVerdict
    baseline: Baseline | None

    def derived(self) -> dict[str, bytes]:
        """Return the files of a seal that follow from journal and baseline, for people to read."""
        page = run_page(self.record, self.baseline)
        return {
            WAIVERS: text_of(self.record.waivers),
            INVENTORY: text_of(self.record.inventory),
            DOSSIER: page.encode("utf-8", "backslashreplace"),
        }


def journal_record(journal: bytes, place: str) -> RunRecord:
    """Return the run of a journal that has a decision to be sealed.

    Raises:
        SealingError: It is no journal, or nothing was judged.
    """
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


def decided(record: RunRecord, journal: bytes, baseline: bytes | None) -> SealedRun:
    """Decide about a run from its values and its baseline, and compare that with what the journal says.

    Waivers count as on the day on which the run began, and the run is judged alone, as `anubis judge` does.

    Args:
        record: The run, from `journal_record`.
        journal: Its journal.
        baseline: The content of the baseline's file; None if the run had none.

    Raises:
        VerdictError: The decision differs.
        SealingError: The baseline is another one, or nothing can be decided.
    """
    known = _baseline(record, baseline)
    began = moment(record.started)
    if began is None:
        raise SealingError("the journal does not say when the run began")
    reader = RunReader(learning=False)
    reader.journal(Path(JOURNAL), record, hashlib.sha256(journal).hexdigest())
    judged = judge_collected(
        reader.result(),
        {} if known is None else {known.hardware_class: known},
        fail_on="marginal" if record.settings.get("fail_on") == "marginal" else "fail",
        require_all=record.settings.get("require_all") is True,
        waivers=_waivers(record, day_of(began)),
    )
    whole = completed(record, known)
    verdict = whole.node_verdict
    if verdict is None or len(judged.nodes) != 1:
        raise SealingError("nothing in it can be judged")
    (anew,) = judged.nodes
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
    if verdict.decision is Decision.REJECTED:
        said = _blamed(verdict, whole.effective_verdicts)
        found = _blamed(anew, judged.details[0].verdicts)
        if said != found:
            raise VerdictError(
                f"the journal blames {_named(said - found)}, its values and baseline alone blame "
                f"{_named(found - said)}"
            )
    return SealedRun(record=whole, verdict=verdict, baseline=known)


def _blamed(verdict: NodeVerdict, verdicts: Iterable[MetricVerdict]) -> set[str]:
    """Return the components that a rejection blames, and each with the devices that failed in it."""
    failed = (one for one in verdicts if one.outcome is Outcome.FAIL)
    places = (f"{one.component} on {one.device}" for one in failed if one.component and one.device)
    return {*verdict.components, *places}


def _named(blamed: Collection[str]) -> str:
    """Return what one side alone blames."""
    return first_of(sorted(blamed), MAX_BLAMED) or "nothing else"


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
