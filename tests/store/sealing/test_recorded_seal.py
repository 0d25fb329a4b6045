"""A seal that was recorded once stays readable, by us and by hand."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from pytest_anubis.cli.commands.sealing.seal_checking import check_seal
from pytest_anubis.core.seal import MANIFEST, FlawKind
from pytest_anubis.core.verdict import Decision
from pytest_anubis.store.journal.journal_events import SCHEMA
from pytest_anubis.store.sealing.acceptance_bundle import (
    bundle_bytes,
    files_of_bundle,
    signature_names,
)
from pytest_anubis.store.sealing.manifest_form import (
    listed_files,
    manifest_of,
    statement_of,
    text_of,
)
from pytest_anubis.store.sealing.seal_signatures import PublicKey
from tests.places import DATA

SEALED = DATA / "sealed.zip"
KEY = PublicKey(
    raw=bytes.fromhex("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"),
    path="recorded",
)


def test_a_recorded_seal_is_verified() -> None:
    report = check_seal(SEALED.read_bytes(), [KEY]).report
    (signed,) = report.signatures
    assert (signed.given, signed.statement.signer) == ("recorded", "Lab A")
    if report.flaws:  # a later version that reads no such journal names the one that does
        (flaw,) = report.flaws
        assert flaw.kind is FlawKind.UNDECIDABLE
        assert f"reads {SCHEMA}" in flaw.detail
        assert flaw.version == "0.2.0 (recorded)"
    else:
        assert report.verdict is not None
        assert (report.verdict.decision, report.compared) == (Decision.ACCEPTED, False)


def test_what_was_recorded_would_be_written_again() -> None:
    files, flaws = files_of_bundle(SEALED.read_bytes())
    assert flaws == ()
    assert bundle_bytes(files) == SEALED.read_bytes()
    manifest = manifest_of(files[MANIFEST])
    assert text_of(manifest) == files[MANIFEST]
    assert listed_files(files) == manifest.files
    statement = signature_names(KEY.fingerprint)[0]
    assert text_of(statement_of(files[statement])) == files[statement]


def test_a_seal_can_be_checked_without_us(tmp_path: Path) -> None:
    with zipfile.ZipFile(SEALED) as packed:
        packed.extractall(tmp_path)
    for one in manifest_of((tmp_path / MANIFEST).read_bytes()).files:
        content = (tmp_path / one.name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == one.sha256
    pem = tmp_path / "key.pub"
    pem.write_text(
        "-----BEGIN PUBLIC KEY-----\n"
        "MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n"
        "-----END PUBLIC KEY-----\n"
    )
    text, signature = (str(tmp_path / name) for name in signature_names(KEY.fingerprint))
    words = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(pem), "-rawin"]
    try:
        done = subprocess.run(
            [*words, "-in", text, "-sigfile", signature],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("needs openssl")
    assert done.returncode == 0, done.stderr
