"""Lines about a sealed run: what is wrong with its archive, who signed it, and what was not compared.

`anubis seal` and `anubis verify` print them. It checks nothing: `cli.commands.sealing` does.
"""

from __future__ import annotations

from collections.abc import Mapping

from pytest_anubis import __version__
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.seal import BASELINE, Flaw, FlawKind, Manifest, SealReport, Signed
from pytest_anubis.report.text.numbers import moment_text
from pytest_anubis.report.text.safe_text import printable

_WORDS: Mapping[FlawKind, str] = {
    FlawKind.UNREADABLE: "unreadable: {detail}{at}",
    FlawKind.VERSION: "{name}: {detail}",
    FlawKind.CHANGED: "changed: {name}{more}",
    FlawKind.UNLISTED: "changed: {name} (its baseline is not listed)",
    FlawKind.OTHER_FILES: "changed: {name} (it lists other files)",
    FlawKind.MISSING: "missing: {name}",
    FlawKind.ADDED: "added: {name}",
    FlawKind.TWICE: "added: a second {name}",
    FlawKind.REPACKED: "changed: the archive's own data about {part}; another program wrote it",
    FlawKind.FORGED: "invalid signature: {name} is not of the key that it names",
    FlawKind.PASTED: "changed: {name} is not the one that the key {detail} signed; or the signature is of "
    "another archive",
    FlawKind.UNKNOWN_SIGNER: "unknown signer: the key {name}; name its public key with --key if you trust it",
    FlawKind.NOT_SIGNED: "not signed by {name} (key {detail})",
    FlawKind.DIFFERS: "{name} is not what the journal gives{more}",
    FlawKind.UNDECIDABLE: "no decision: {detail}",
    FlawKind.VERDICT: "another verdict: {detail}",
    FlawKind.DECISION: "another verdict: the seal says {said}, its journal {given}",
}


def flaw_line(flaw: Flaw) -> str:
    """Return what is wrong in one line."""
    said, given = flaw.decisions or ("", "")
    line = _WORDS[flaw.kind].format(
        name=flaw.name,
        detail=flaw.detail,
        part=flaw.name or "its end",
        more=f" ({flaw.detail})" if flaw.detail else "",
        at=f", first at {flaw.name}" if flaw.name else "",
        said=said,
        given=given,
    )
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
