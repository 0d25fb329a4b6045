"""``anubis verify FILE --key PUB``: whether a sealed run is as it was signed, and what it decides."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from pytest_anubis.cli.shared.arguments import add_json, add_verbose, explain
from pytest_anubis.cli.shared.printing import answer, edge, write_file
from pytest_anubis.codec import CodecError
from pytest_anubis.core.seal import DOSSIER, Flaw, FlawKind, SealReport
from pytest_anubis.report.text.seal_text import cycle_lines, dossier_lines, flaw_line, report_lines
from pytest_anubis.report.text.summary_text import summary_lines
from pytest_anubis.store.sealing.acceptance_bundle import read_bundle
from pytest_anubis.store.sealing.seal_signatures import load_public_key


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Verify what 'anubis seal' wrote: that nothing in it was changed, removed or added, and who signed "
        "it. Then decide about the node anew, from the journal and the baseline in it alone; a seal that "
        "states anything else is refused. A signature proves who held the key, not that the machine measured "
        "honestly. For example: anubis verify n17.zip --key vendor.pem --key ours.pem",
        "Exit codes: 0 intact and accepted; 1 intact and rejected; 20 anything else: undecided, changed, "
        "unreadable, no signature by one of the keys, or one by another key; 2 wrong usage or input, such as "
        "a key that cannot be read.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the sealed archive")
    parser.add_argument(
        "--key",
        dest="keys",
        action="append",
        type=Path,
        required=True,
        metavar="PUB",
        help="public key in PEM that must have signed; can be given again, as each signature must be by one "
        "of these keys",
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write the dossier, made from the sealed journal here and now",
    )
    add_json(parser, "the decision, who signed, and what was changed")
    add_verbose(parser, "what failed, and the next step")


def run(options: argparse.Namespace) -> int:
    """Verify; return the exit code of the decision."""
    keys = [load_public_key(path) for path in options.keys]
    from pytest_anubis.cli.commands.sealing.seal_checking import CheckedSeal, check_seal

    try:
        checked = check_seal(read_bundle(options.file), keys)
    except (OSError, CodecError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        flaw = Flaw(kind=FlawKind.UNREADABLE, detail=str(why))
        checked = CheckedSeal(report=SealReport(flaws=(flaw,)), files={})
    report, found = checked.report, checked.run
    lines = report_lines(report, str(options.file))
    if report.verdict is not None and found is not None:
        record = found.record
        lines += cycle_lines(record)
        shown = summary_lines(
            report.verdict,
            found.verdicts,
            cards=record.cards,
            verbosity=options.verbose - 1,
            width=shutil.get_terminal_size().columns,
            wrapped=edge() is not None,
        )
        lines += [text for text, _ in shown]
    intact = found if not report.flaws else None
    document = _document(options.file, report)
    document["campaign"] = intact.record.campaign if intact else ""
    document["notes"] = [*dossier_lines(report), *cycle_lines(intact.record)] if intact else []
    answer(options.json, document, *lines)
    if options.html is not None and intact:
        write_file(options.html, intact.derived()[DOSSIER].decode())
    return report.exit_code


_STATED = ("run", "node", "hardware_class", "started", "baseline", "version")
"""Fields of the manifest that the JSON has under the same names."""


def _document(place: Path, report: SealReport) -> dict[str, Any]:
    """Return the JSON answer; the decision is None unless the seal is intact."""
    manifest = report.manifest if not report.flaws else None
    return {
        "schema": 1,
        "file": str(place),
        "intact": not report.flaws,
        "exit_code": report.exit_code,
        "decision": None if report.verdict is None else report.verdict.decision.value,
        "headline": "" if report.verdict is None else report.verdict.headline,
        "components": [] if report.verdict is None else list(report.verdict.components),
        **{name: getattr(manifest, name, None) for name in _STATED},
        "files": {} if manifest is None else {one.name: one.sha256 for one in manifest.files},
        "dossier_compared": report.compared,
        "signatures": [
            {
                "key": one.fingerprint,
                "file": one.given or None,
                "signer": one.statement.signer,
                "signed": one.statement.signed,
            }
            for one in report.signatures
        ],
        "flaws": [
            {"kind": one.kind.value, "name": one.name, "text": flaw_line(one)}
            for one in report.flaws
        ],
    }
