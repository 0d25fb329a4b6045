"""Verify baselines and certificates from a share by their SHA-256 digests, before a run uses any of them.

The digests are in ``SHA256SUMS``; ``--anubis-baseline=PATH@sha256:DIGEST`` pins that list, or the one file.

`run_context` uses it.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pytest_anubis.codec.regular_files import file_sha256, open_regular
from pytest_anubis.store.baselines.baseline_form import BaselineError

SUMS = "SHA256SUMS"
"""File in a folder of baselines with the digests of all of them, as ``sha256sum`` prints it."""

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(\S.*)")
_MAX_BYTES = 4 << 20  # of SHA256SUMS; a fleet has some hundred classes, a line each
_SHOWN = 12  # digits of a digest that are enough to compare it by eye


def verified(place: Path, pin: str) -> str:
    """Verify a folder of baselines, or one file, before it is used.

    A pin is the digest of the one file, or of the folder's ``SHA256SUMS``; empty: none. All ``.json`` files
    of a folder with such a list, also those in its folders, must be listed and unchanged, pin or not.

    Returns:
        A sentence about what was verified; empty if there was no digest to verify.

    Raises:
        BaselineError: Something differs, or cannot be read; one line.
    """
    try:
        if place.is_file():
            if not pin:
                return ""
            _same(place, file_sha256(place), pin)
            return f"{place} is sha256:{pin[:_SHOWN]}, as it was named"
        return _folder(place, pin)
    except OSError as error:
        raise BaselineError(
            f"{error.filename or place}: cannot be read ({error.strerror})"
        ) from error


def _folder(place: Path, pin: str) -> str:
    sums = place / SUMS
    if not sums.is_file():
        if pin:
            raise BaselineError(
                f"{place}: has no {SUMS}; write it: find . -name '*.json' -exec sha256sum {{}} + > {SUMS}"
            )
        return ""
    with open_regular(sums) as file:
        content = file.read(_MAX_BYTES)
    if pin:
        _same(sums, hashlib.sha256(content).hexdigest(), pin)
    listed = _listed(sums, content)
    for path in sorted(place.rglob("*.json")):
        name = path.relative_to(place).as_posix()
        if name not in listed:
            raise BaselineError(f"{path}: is not listed in {sums}; list it, or remove it")
        _same(path, file_sha256(path), listed[name])
    named = f", sha256:{pin[:_SHOWN]}, as it was named" if pin else ""
    return f"{place} holds what its {SUMS} lists{named}"


def _listed(sums: Path, content: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise BaselineError(
                f"{sums}: line {number} is not as sha256sum writes it; write the file anew"
            )
        found[match[2]] = match[1].lower()
    return found


def _same(path: Path, found: str, wanted: str) -> None:
    if found != wanted:
        raise BaselineError(
            f"{path}: is sha256:{found[:_SHOWN]}, not sha256:{wanted[:_SHOWN]} as it was named: it was "
            "changed or is another one; fetch it again, or name the digest of this one"
        )
