"""Load Ed25519 keys from PEM files, sign a sealed archive, and verify the signatures in it.

The package cryptography, which is optional, is imported only here and only when it is needed.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_anubis.codec import CodecError, read_bytes
from pytest_anubis.core.seal import MANIFEST, Flaw, FlawKind, Signed, Statement
from pytest_anubis.store.sealing.acceptance_bundle import (
    MAX_SIGNATURES,
    signature_names,
    signers_of,
)
from pytest_anubis.store.sealing.manifest_form import sha256_of, statement_of, text_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MAKE_KEYS = (
    "openssl genpkey -algorithm ed25519 -aes256 -out KEY.pem",
    "openssl pkey -in KEY.pem -pubout -out PUB.pem",
)
"""Commands that make a key (without -aes256: unencrypted), and the public key to give away."""

_MADE = " && ".join(MAKE_KEYS)
_MAX_KEY_BYTES = 16 << 10
_DER_HEAD = bytes.fromhex("302a300506032b6570032100")
"""Beginning of an Ed25519 public key in DER (RFC 8410), before its 32 bytes."""
_ANY_MESSAGE = b"\1" + bytes(63)
"""Signature of the identity point and scalar 0, which a key of small order accepts for many messages."""


class KeyFileError(ValueError):
    """A key cannot be used; the message is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A public key that the verifier named: its 32 bytes, and its file."""

    raw: bytes
    path: str

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key in DER, in hexadecimal digits: ``openssl pkey -pubin -outform DER``."""
        return fingerprint_of(self.raw)


def fingerprint_of(raw: bytes) -> str:
    """Return the fingerprint of the 32 bytes of a public key."""
    return hashlib.sha256(_DER_HEAD + raw).hexdigest()


def load_public_key(path: Path) -> PublicKey:
    """Return the public key of a PEM file.

    Raises:
        KeyFileError: It cannot be read, or is no Ed25519 public key.
    """
    from_pem, ed25519 = _cryptography()
    content = _pem_of(path)
    if b"PRIVATE KEY" in content:
        raise KeyFileError(
            f"{path}: this is a private key, which is for its owner alone; the public one is: "
            f"{MAKE_KEYS[1].replace('KEY.pem', str(path))}"
        )
    try:
        key = from_pem.load_pem_public_key(content)
    except Exception:  # of many kinds, and of several libraries
        raise KeyFileError(f"{path}: no public key in PEM; make keys with: {_MADE}") from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise KeyFileError(f"{path}: no Ed25519 key; make keys with: {_MADE}")
    raw = key.public_bytes_raw()
    # A key of small order takes this signature for one message in eight, so its owner could deny all others.
    if any(_is_valid(raw, _ANY_MESSAGE, bytes([number])) for number in range(256)):
        raise KeyFileError(f"{path}: no proper Ed25519 key; make keys with: {_MADE}")
    return PublicKey(raw=raw, path=str(path))


def load_private_key(path: Path, password: Callable[[], str]) -> Ed25519PrivateKey:
    """Return the private key of a PEM file; if it is encrypted, the password is asked for.

    Raises:
        KeyFileError: It cannot be read, is no Ed25519 private key, or the password is wrong.
    """
    from_pem, ed25519 = _cryptography()
    content = _pem_of(path)
    if b"PRIVATE KEY" not in content or b"OPENSSH" in content:
        raise KeyFileError(f"{path}: no private key in PEM; make keys with: {_MADE}")
    encrypted = b"ENCRYPTED" in content
    try:
        found = from_pem.load_pem_private_key(content, password().encode() if encrypted else None)
    except KeyFileError:
        raise
    except Exception:
        why = "wrong password, or a damaged key" if encrypted else "a damaged private key"
        raise KeyFileError(f"{path}: {why}") from None
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise KeyFileError(f"{path}: no Ed25519 key; make keys with: {_MADE}")
    key: Ed25519PrivateKey = found
    return key


def with_signature(
    files: Mapping[str, bytes], key: Ed25519PrivateKey, *, signer: str, signed: str
) -> dict[str, bytes]:
    """Return the files of an archive with one signature more over its manifest.

    It states the signer's name, which may be empty, and the time, ISO 8601, UTC.

    Raises:
        KeyFileError: This key has signed already, or too many have.
    """
    raw = key.public_key().public_bytes_raw()
    fingerprint = fingerprint_of(raw)
    known = signers_of(files)
    if fingerprint in known:
        raise KeyFileError(f"the key {fingerprint} has signed it already")
    if len(known) >= MAX_SIGNATURES:
        raise KeyFileError(f"{MAX_SIGNATURES} keys have signed it already, as many as there may be")
    statement = Statement(
        manifest=sha256_of(files[MANIFEST]), public_key=raw.hex(), signer=signer, signed=signed
    )
    text = text_of(statement)
    name_of_text, name_of_signature = signature_names(fingerprint)
    return {**files, name_of_text: text, name_of_signature: key.sign(text)}


def checked_signatures(
    files: Mapping[str, bytes], keys: Sequence[PublicKey]
) -> tuple[tuple[Signed, ...], list[Flaw]]:
    """Return all valid signatures in an archive, and all flaws; one by a key that is not trusted is in both.

    Each of the keys that the verifier trusts must have signed, and no other may have.
    """
    given = {key.fingerprint: key.path for key in keys}
    known = signers_of(files)
    found, flaws = list[Signed](), list[Flaw]()
    for fingerprint in known[:MAX_SIGNATURES]:
        signed = _signed(files, fingerprint)
        if isinstance(signed, Flaw):
            flaws.append(signed)
        elif fingerprint not in given:
            flaws.append(Flaw(kind=FlawKind.UNKNOWN_SIGNER, name=fingerprint))
            found.append(signed)
        else:
            found.append(dataclasses.replace(signed, given=given[fingerprint]))
    flaws += [
        Flaw(kind=FlawKind.ADDED, name=signature_names(fingerprint)[0])
        for fingerprint in known[MAX_SIGNATURES:]
    ]
    flaws += [
        Flaw(kind=FlawKind.NOT_SIGNED, name=path, detail=fingerprint)
        for fingerprint, path in given.items()
        if fingerprint not in known
    ]
    return tuple(found), flaws


def _signed(files: Mapping[str, bytes], fingerprint: str) -> Signed | Flaw:
    """Return the signature of a key if it is valid for the manifest, else what is wrong with it."""
    names = signature_names(fingerprint)
    for name in names:
        if name not in files:
            return Flaw(kind=FlawKind.MISSING, name=name)
    text, signature = (files[name] for name in names)
    try:
        statement = statement_of(text)
        raw = bytes.fromhex(statement.public_key)
    except (CodecError, ValueError):
        return Flaw(kind=FlawKind.CHANGED, name=names[0])
    if len(raw) != 32 or fingerprint_of(raw) != fingerprint:
        return Flaw(kind=FlawKind.FORGED, name=names[0])
    if not _is_valid(raw, signature, text):
        return Flaw(kind=FlawKind.FORGED, name=names[1])
    if statement.manifest != sha256_of(files.get(MANIFEST, b"")):
        return Flaw(kind=FlawKind.PASTED, name=MANIFEST, detail=fingerprint)
    return Signed(fingerprint=fingerprint, statement=statement)


def _is_valid(raw: bytes, signature: bytes, text: bytes) -> bool:
    _, ed25519 = _cryptography()
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(raw).verify(signature, text)
    except Exception:
        return False
    return True


def _pem_of(path: Path) -> bytes:
    """Return the content of a file with one key: of several, only the first would be used."""
    try:
        content = read_bytes(path, largest=_MAX_KEY_BYTES)
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror})") from error
    except CodecError:
        raise KeyFileError(f"{path}: no key in PEM; make keys with: {_MADE}") from None
    if content.count(b"-----BEGIN") > 1:
        raise KeyFileError(f"{path}: several keys; put each into a file of its own")
    return content


def _cryptography() -> tuple[Any, Any]:
    """Return the modules for PEM files and for Ed25519.

    Raises:
        KeyFileError: They are not installed.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise KeyFileError(
            "needs the package cryptography; install it with: pip install 'pytest-anubis[seal]'"
        ) from None
    return serialization, ed25519
