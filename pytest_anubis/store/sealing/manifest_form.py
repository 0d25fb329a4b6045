"""Convert the manifest and the signers' statements of a sealed archive to and from JSON, with file digests.

`differences` names the files of an archive that are not as its manifest lists them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pytest_anubis.codec import CodecError, from_plain, parse_json, to_plain
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.seal import (
    BASELINE,
    CONTENTS,
    FORMAT,
    MANIFEST,
    SCHEMA,
    STATEMENT,
    Flaw,
    FlawKind,
    Manifest,
    SealedFile,
    Statement,
)

MAX_NAME = 100
"""Characters of a signer's name, and of a version."""

_MAX_BYTES = 64 << 10  # a manifest has about 1.5 KiB, a statement .4


class NewerSealError(ValueError):
    """The seal has a form that this version does not read; the message is one line for people."""


def text_of(value: Any) -> bytes:
    """Return plain data, or a value of ours, as JSON for people and programs: one text for one value."""
    text = json.dumps(to_plain(value, full=True), indent=1, sort_keys=True, allow_nan=False)
    return f"{text}\n".encode("ascii")


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of a file's content in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def listed_files(files: Mapping[str, bytes]) -> tuple[SealedFile, ...]:
    """Return the entries of a manifest about some files, in the order of `CONTENTS`."""
    return tuple(
        SealedFile(name=name, size=len(files[name]), sha256=sha256_of(files[name]))
        for name in CONTENTS
        if name in files
    )


def manifest_of(content: bytes) -> Manifest:
    """Return the manifest of a file.

    Raises:
        NewerSealError: Another version of pytest-anubis wrote it, in another form.
        CodecError: It is no manifest.
    """
    plain = parse_json(content, largest=_MAX_BYTES)
    if isinstance(plain, dict) and plain.get("format") == FORMAT:
        schema, version = plain.get("schema"), plain.get("version")
        if type(schema) is int and schema != SCHEMA:
            raise NewerSealError(
                f"its schema is {schema}, this version reads {SCHEMA}; verify it with the version that "
                f"sealed it, {str(version)[:20]}"
            )
    manifest = from_plain(Manifest, plain)
    if manifest.format != FORMAT or len(manifest.version) > MAX_NAME:
        raise CodecError(f"format is not {FORMAT}")
    return manifest


def statement_of(content: bytes) -> Statement:
    """Return the statement of a file, or raise `CodecError` if it is none."""
    statement = from_plain(Statement, parse_json(content, largest=_MAX_BYTES))
    if statement.format != STATEMENT:
        raise CodecError(f"format is not {STATEMENT}")
    if len(statement.signer) > MAX_NAME or moment(statement.signed) is None:
        raise CodecError("no name and date")
    return statement


def differences(manifest: Manifest, files: Mapping[str, bytes]) -> list[Flaw]:
    """Return how the files of an archive differ from those that its manifest lists."""
    flaws = []
    listed = {one.name: one for one in manifest.files}
    expected = [name for name in CONTENTS if name in listed or name != BASELINE]
    if bool(manifest.baseline) != (BASELINE in listed):
        flaws.append(Flaw(kind=FlawKind.UNLISTED, name=MANIFEST))
    if [one.name for one in manifest.files] != expected:
        flaws.append(Flaw(kind=FlawKind.OTHER_FILES, name=MANIFEST))
    for name, one in listed.items():
        content = files.get(name)
        if content is None:
            flaws.append(Flaw(kind=FlawKind.MISSING, name=name))
        elif len(content) != one.size or sha256_of(content) != one.sha256:
            flaws.append(Flaw(kind=FlawKind.CHANGED, name=name))
    flaws += [
        Flaw(kind=FlawKind.ADDED, name=name)
        for name in CONTENTS
        if name in files and name not in listed
    ]
    return flaws
