"""Files of keys: one proper key each, or one line."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from pytest_anubis.store.sealing.seal_signatures import (
    KeyFileError,
    load_private_key,
    load_public_key,
)

ORDER_EIGHT = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
"""A point of small order: for some messages a constant is its signature."""


def public(raw: bytes) -> bytes:
    key = Ed25519PublicKey.from_public_bytes(raw)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_a_file_of_two_keys_is_refused(tmp_path: Path) -> None:
    keys = [Ed25519PrivateKey.generate() for _ in range(2)]
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(public(one.public_key().public_bytes_raw()) for one in keys))
    with pytest.raises(KeyFileError, match="several keys"):
        load_public_key(both)
    both.write_bytes(
        b"".join(
            one.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) for one in keys
        )
    )
    with pytest.raises(KeyFileError, match="several keys"):
        load_private_key(both, str)


@pytest.mark.parametrize("raw", [(1).to_bytes(32, "little"), bytes(32), bytes.fromhex(ORDER_EIGHT)])
def test_a_key_of_small_order_is_refused(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "key.pub"
    path.write_bytes(public(raw))
    with pytest.raises(KeyFileError, match="no proper Ed25519 key"):
        load_public_key(path)


def test_a_file_that_is_too_large_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "key.pub"
    path.write_bytes(b" " * 20_000)
    with pytest.raises(KeyFileError, match="no key in PEM"):
        load_public_key(path)
