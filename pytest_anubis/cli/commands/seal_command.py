"""``anubis seal RUN --key KEY -o FILE``: one signed archive of a run, for those who must trust it later."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from pytest_anubis import __version__
from pytest_anubis.cli.shared.arguments import (
    add_baseline,
    add_json,
    add_store,
    baseline_place,
    explain,
)
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import answer
from pytest_anubis.cli.shared.run_lookup import find_journal, is_collection
from pytest_anubis.cli.shared.run_sources import history_place, listed
from pytest_anubis.codec import CodecError, read_bytes
from pytest_anubis.codec.input_limits import LARGEST_DATA
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.seal import BASELINE, JOURNAL, MANIFEST, Manifest
from pytest_anubis.report.text.numbers import bytes_text
from pytest_anubis.report.text.safe_text import printable
from pytest_anubis.report.text.seal_text import cycle_lines, dossier_lines, flaw_line
from pytest_anubis.store.atomic import write_atomically
from pytest_anubis.store.baselines.baseline_files import (
    LARGEST_BASELINE,
    find_baseline,
    load_baseline,
)
from pytest_anubis.store.journal.journal_file import is_written
from pytest_anubis.store.journal.journal_reading import journal_file
from pytest_anubis.store.run_filter import RunFilter
from pytest_anubis.store.sealing.acceptance_bundle import bundle_bytes, signers_of
from pytest_anubis.store.sealing.manifest_form import (
    MAX_NAME,
    listed_files,
    manifest_of,
    text_of,
)
from pytest_anubis.store.sealing.seal_signatures import (
    MAKE_KEYS,
    KeyFileError,
    load_private_key,
    with_signature,
)

PASSWORD = "PYTEST_ANUBIS_SEAL_PASSWORD"
"""Environment variable with the password of an encrypted key."""

MAX_FLAWS = 3
"""Flaws named in one line."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Write one archive of a run (journal, baseline, waivers, inventory, dossier, and a manifest of their "
        "SHA-256), signed with an Ed25519 key. The decision is made anew from journal and baseline; a run "
        "whose journal says anything else is refused. For example: anubis seal latest --key KEY.pem --signer "
        "'ACME lab' -o n17.zip. 'anubis verify' reads it. Keys are made with openssl: "
        f"{'; '.join(MAKE_KEYS)}",
        "Exit codes: 0 sealed, whatever the run's verdict; 2 wrong usage or input, or a run that cannot be "
        f"sealed. The password of an encrypted key is asked for, or taken from {PASSWORD}.",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="RUN",
        help="folder, journal or id of the run; default: the latest run",
    )
    parser.add_argument(
        "--key", type=Path, required=True, metavar="KEY", help="private key in PEM that signs"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="archive to write; a file that is there is never overwritten",
    )
    parser.add_argument(
        "--signer",
        default="",
        metavar="NAME",
        help="name that the signature states, signed with it",
    )
    parser.add_argument(
        "--add-signature",
        type=Path,
        metavar="FILE",
        help="sign an archive that is there already, such as the other side's, once more; it is verified "
        "first, and written to -o, else in its own place",
    )
    parser.add_argument(
        "--history",
        default="",
        metavar="DIR|URL",
        help="take the run out of this history (a database URL, or the folder of a store)",
    )
    parser.add_argument(
        "--nodes",
        action="append",
        default=[],
        metavar="NAME",
        help="node of the run, where the history has one of this id of several nodes",
    )
    add_baseline(parser, more="; it must be the one that judged the run")
    add_json(parser, "what was sealed, and who signed")
    add_store(parser)


def run(options: argparse.Namespace) -> int:
    """Seal a run, or sign a seal once more."""
    if len(options.signer) > MAX_NAME or not options.signer.isprintable():
        raise CommandError(f"--signer: one line of text, {MAX_NAME} characters at most")
    adds: Path | None = options.add_signature
    output: Path | None = options.output or adds
    if output is None:
        raise CommandError("name the archive to write: -o FILE")
    if options.output is not None and os.path.lexists(output):
        raise CommandError(f"{output} exists already; name another file, or move it away")
    if adds is not None and (options.name or options.history):
        raise CommandError("--add-signature takes no run: it signs the one in the archive")
    key = load_private_key(options.key, lambda: _password(options.key))
    files, notes = _sealed(options) if adds is None else _opened(adds)
    signed = datetime.now(UTC).isoformat(timespec="seconds")
    files = with_signature(files, key, signer=options.signer, signed=signed)
    content = bundle_bytes(files)
    try:
        write_atomically(output, content)
    except OSError as error:
        raise CommandError(f"{output}: cannot be written ({error.strerror})") from error
    manifest, keys = manifest_of(files[MANIFEST]), signers_of(files)
    document = {
        "schema": 1,
        "file": str(output),
        "bytes": len(content),
        "run": manifest.run,
        "node": manifest.node,
        "decision": manifest.decision.value,
        "keys": list(keys),
    }
    answer(
        options.json,
        document,
        f"{'sealed' if adds is None else 'signed'}: {output} ({bytes_text(len(content))}): run "
        f"{manifest.run} of {manifest.node}, {manifest.decision}",
        *(f"signed by the key {fingerprint}" for fingerprint in keys),
        *notes,
        "the public key must reach the reader by another way than the archive",
    )
    return 0


def _sealed(options: argparse.Namespace) -> tuple[dict[str, bytes], list[str]]:
    """Return the files of the seal of a run, without signatures, and notes on it."""
    from pytest_anubis.cli.commands.sealing.sealed_decision import decided, journal_record

    journal, place = _journal(options)
    record = journal_record(journal, place)
    files = {JOURNAL: journal}
    if record.baseline:
        files[BASELINE] = _baseline(options, record)
    found = decided(record, files.get(BASELINE))
    files |= found.derived()
    manifest = Manifest(
        version=__version__,
        run=record.run,
        node=record.node,
        hardware_class=record.hardware_class,
        started=record.started,
        decision=found.verdict.decision,
        baseline=record.baseline,
        files=listed_files(files),
    )
    return {MANIFEST: text_of(manifest), **files}, cycle_lines(record)


def _journal(options: argparse.Namespace) -> tuple[bytes, str]:
    """Return the journal of the named run, byte by byte, and its place in words."""
    name = options.name or "latest"
    if options.history:
        from pytest_anubis.store.fleet.stored_runs import read_stored_journal

        wanted = RunFilter(nodes=listed(options.nodes))
        return read_stored_journal(history_place(options.history), name, wanted)
    if name != "latest" and is_collection(name):
        raise CommandError(
            f"{name}: only one run with its journal can be sealed, no import, table or folder of several"
        )
    path = journal_file(find_journal(name, options.store))
    if is_written(path):
        raise CommandError(f"{path}: its run goes on; seal it when it has ended")
    return _content(path, LARGEST_DATA), str(path)


def _baseline(options: argparse.Namespace, record: RunRecord) -> bytes:
    """Return the file of the baseline that judged a run."""
    place = baseline_place(options)
    path = find_baseline(place, record.hardware_class) if place.exists() else None
    if path is None:
        raise CommandError(
            f"{place}: the baseline that judged the run, {record.baseline}, is not there; name it with "
            "--baseline"
        )
    found = load_baseline(path, hardware_class=record.hardware_class)
    if found.digest != record.baseline:
        raise CommandError(
            f"{path}: this is {found.digest}, and {record.baseline} judged the run; name that one with "
            "--baseline"
        )
    return _content(path, LARGEST_BASELINE)


def _opened(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the files of an archive to be signed once more, and notes on it."""
    from pytest_anubis.cli.commands.sealing.seal_checking import check_seal

    checked = check_seal(_content(path, LARGEST_DATA), None)
    if checked.run is None or checked.report.flaws:
        flaws = "; ".join(map(flaw_line, checked.report.flaws[:MAX_FLAWS]))
        raise CommandError(f"{path}: not signed: {flaws}")
    return dict(checked.files), [
        *dossier_lines(checked.report),
        *cycle_lines(checked.run.record),
    ]


def _content(path: Path, largest: int) -> bytes:
    try:
        return read_bytes(path, largest=largest)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror})") from error
    except CodecError as error:
        raise CommandError(f"{path}: {error}") from error


def _password(key: Path) -> str:
    """Return the password of an encrypted key, from the environment or the terminal."""
    known = os.environ.get(PASSWORD)
    if known is not None:
        return known
    if not sys.stdin or not sys.stdin.isatty():
        raise KeyFileError(f"{key}: encrypted; put its password into {PASSWORD}")
    return getpass.getpass(f"password of {printable(str(key))}: ", stream=sys.stderr)
