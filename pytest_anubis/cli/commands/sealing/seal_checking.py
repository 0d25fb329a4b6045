"""Verify the bytes of a sealed archive: its form, its signatures, its files, and the decision in it.

`anubis verify` calls it, and `anubis seal` before it adds a signature to an archive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_anubis import __version__
from pytest_anubis.cli.commands.sealing.sealed_decision import (
    SealedRun,
    SealingError,
    VerdictError,
    decided,
    journal_record,
)
from pytest_anubis.codec import CodecError
from pytest_anubis.core.seal import (
    BASELINE,
    DOSSIER,
    JOURNAL,
    MANIFEST,
    Flaw,
    FlawKind,
    Manifest,
    SealReport,
)
from pytest_anubis.store.sealing.acceptance_bundle import files_of_bundle
from pytest_anubis.store.sealing.manifest_form import (
    NewerSealError,
    differences,
    manifest_of,
)
from pytest_anubis.store.sealing.seal_signatures import PublicKey, checked_signatures


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSeal:
    """What verifying found, with the files of the archive, and the run if it was decided."""

    report: SealReport
    files: Mapping[str, bytes]
    run: SealedRun | None = None


def check_seal(data: bytes, keys: Sequence[PublicKey] | None) -> CheckedSeal:
    """Verify an archive that the keys, and no others, must have signed.

    Without keys any signature counts, before another one is added.
    """
    files, odd = files_of_bundle(data)
    flaws = list(odd)
    if any(flaw.kind is FlawKind.UNREADABLE for flaw in flaws):
        return CheckedSeal(report=SealReport(flaws=tuple(flaws)), files=files)
    signatures, wrong = checked_signatures(files, keys or ())
    if keys is None:
        wrong = [flaw for flaw in wrong if flaw.kind is not FlawKind.UNKNOWN_SIGNER]
    flaws += wrong
    manifest = _manifest(files, flaws)
    signed_other = any(flaw.kind is FlawKind.PASTED for flaw in flaws)
    # A manifest that no valid signature covers, only pasted ones, proves nothing about the files.
    if manifest is not None and not (signed_other and not signatures):
        flaws += differences(manifest, files)
    if flaws or manifest is None:
        once = tuple(dict.fromkeys(flaws))
        report = SealReport(manifest=manifest, signatures=signatures, flaws=once)
        return CheckedSeal(report=report, files=files)
    run = _decided(files, manifest, flaws)
    return CheckedSeal(
        report=SealReport(
            manifest=manifest,
            signatures=signatures,
            flaws=tuple(flaws),
            verdict=run.verdict if run is not None and not flaws else None,
            compared=manifest.version == __version__,
        ),
        files=files,
        run=run,
    )


def _manifest(files: Mapping[str, bytes], flaws: list[Flaw]) -> Manifest | None:
    """Return the manifest, or None and a further flaw."""
    if MANIFEST not in files:
        flaws.append(Flaw(kind=FlawKind.MISSING, name=MANIFEST))
        return None
    try:
        return manifest_of(files[MANIFEST])
    except NewerSealError as error:
        flaws.append(Flaw(kind=FlawKind.VERSION, name=MANIFEST, detail=str(error)))
    except CodecError as error:
        flaws.append(Flaw(kind=FlawKind.CHANGED, name=MANIFEST, detail=str(error)))
    return None


def _decided(files: Mapping[str, bytes], manifest: Manifest, flaws: list[Flaw]) -> SealedRun | None:
    """Return the run with its decision; add a flaw for everything that the seal states differently."""
    version = "" if manifest.version == __version__ else manifest.version
    try:
        record = journal_record(files[JOURNAL], JOURNAL)
        run = decided(record, files.get(BASELINE))
    except SealingError as error:
        kind = FlawKind.VERDICT if isinstance(error, VerdictError) else FlawKind.UNDECIDABLE
        flaws.append(Flaw(kind=kind, detail=str(error), version=version))
        return None
    decisions = manifest.decision, run.verdict.decision
    if decisions[0] is not decisions[1]:
        flaws.append(Flaw(kind=FlawKind.DECISION, decisions=decisions, version=version))
    for name in ("run", "node", "hardware_class", "started", "baseline"):
        if getattr(manifest, name) != getattr(record, name):
            flaws.append(Flaw(kind=FlawKind.DIFFERS, name=MANIFEST, detail=name))
    flaws += [
        Flaw(kind=FlawKind.DIFFERS, name=name)
        for name, content in run.derived().items()
        # Pages of two versions differ.
        if files[name] != content and (name != DOSSIER or manifest.version == __version__)
    ]
    return run
