"""Lines about a sealed run: what is wrong with its archive, who signed it, and what was not compared.

`anubis seal` and `anubis verify` print them. It checks nothing: `cli.commands.sealing` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_anubis import __version__
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.seal import BASELINE, Flaw, FlawKind, Manifest, SealReport, Signed
from pytest_anubis.report.text.numbers import moment_text
from pytest_anubis.report.text.safe_text import printable

_OF_FLAW: Mapping[FlawKind, Callable[[Flaw], str]] = {
    FlawKind.UNREADABLE: lambda flaw: f"unreadable: {flaw.detail}{_at(flaw)}",
    FlawKind.VERSION: lambda flaw: f"{flaw.name}: {flaw.detail}",
    FlawKind.CHANGED: lambda flaw: f"changed: {flaw.name}{_more(flaw)}",
    FlawKind.UNLISTED: lambda flaw: f"changed: {flaw.name} (its baseline is not listed)",
    FlawKind.OTHER_FILES: lambda flaw: f"changed: {flaw.name} (it lists other files)",
    FlawKind.MISSING: lambda flaw: f"missing: {flaw.name}",
    FlawKind.ADDED: lambda flaw: f"added: {flaw.name}",
    FlawKind.TWICE: lambda flaw: f"added: a second {flaw.name}",
    FlawKind.REPACKED: lambda flaw: (
        f"changed: the archive's own data about {flaw.name or 'its end'}; another program wrote it"
    ),
    FlawKind.FORGED: lambda flaw: f"invalid signature: {flaw.name} is not of the key that it names",
    FlawKind.PASTED: lambda flaw: (
        f"changed: {flaw.name} is not the one that the key {flaw.detail} signed; or the signature is of "
        "another archive"
    ),
    FlawKind.UNKNOWN_SIGNER: lambda flaw: (
        f"unknown signer: the key {flaw.name}; name its public key with --key if you trust it"
    ),
    FlawKind.NOT_SIGNED: lambda flaw: f"not signed by {flaw.name} (key {flaw.detail})",
    FlawKind.DIFFERS: lambda flaw: f"{flaw.name} is not what the journal gives{_more(flaw)}",
    FlawKind.UNDECIDABLE: lambda flaw: f"no decision: {flaw.detail}",
    FlawKind.VERDICT: lambda flaw: f"another verdict: {flaw.detail}",
    FlawKind.DECISION: lambda flaw: f"another verdict: {_decisions(flaw)}",
}


def _more(flaw: Flaw) -> str:
    return f" ({flaw.detail})" if flaw.detail else ""


def _at(flaw: Flaw) -> str:
    return f", first at {flaw.name}" if flaw.name else ""


def _decisions(flaw: Flaw) -> str:
    said, given = flaw.decisions or ("", "")
    return f"the seal says {said}, its journal {given}"


def flaw_line(flaw: Flaw) -> str:
    """Return what is wrong in one line."""
    line = _OF_FLAW[flaw.kind](flaw)
    if flaw.version:
        line += f"; this is version {__version__}: verify it with {flaw.version}, which sealed it"
    return printable(line)


def signature_line(signed: Signed) -> str:
    """Return who signed, when by the signer's own clock, and with which key."""
    said = signed.statement
    name = f" as {said.signer!r}" if said.signer else ""
    key = signed.given or "an unknown key"
    return printable(
        f"signed by {key}{name} on {moment_text(said.signed)}, key {signed.fingerprint}"
    )


def seal_line(manifest: Manifest) -> str:
    """Return what was sealed."""
    began = moment_text(manifest.started)
    # The short digest of the run could be that of two baselines of one author.
    whole = next((one.sha256 for one in manifest.files if one.name == BASELINE), "")
    baseline = f"baseline {manifest.baseline} (SHA-256 {whole})" if whole else "no baseline"
    return printable(
        f"intact: run {manifest.run} of {manifest.node}, begun {began}, {baseline}, sealed by "
        f"pytest-anubis {manifest.version}"
    )


def report_lines(report: SealReport, place: str) -> list[str]:
    """Return what verifying found: the flaws if there are any, else what is sealed, and who signed."""
    signers = [signature_line(one) for one in report.signatures]
    if report.flaws or report.manifest is None:
        flaws = [flaw_line(one) for one in report.flaws]
        return [*flaws, *signers, printable(f"not verified: {place}: trust nothing in it")]
    return [seal_line(report.manifest), *dossier_lines(report), *signers]


def dossier_lines(report: SealReport) -> list[str]:
    """Return a line if the dossier in an intact seal was not compared with its journal, else none."""
    if report.compared or report.manifest is None:
        return []
    return [
        printable(
            f"the dossier in it was NOT verified: made by version {report.manifest.version}; verify --html "
            "FILE writes one anew"
        )
    ]


def cycle_lines(record: RunRecord) -> list[str]:
    """Return a line about a run that is one cycle of a soak; none for others."""
    if not record.campaign:
        return []
    return [
        printable(f"note: one cycle of the soak {record.campaign}; its other cycles are not in it")
    ]
