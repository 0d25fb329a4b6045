"""Write and read the archive of a sealed run: a ZIP file of one possible form, without compression.

The same files have exactly one archive. The reader finds the files by the archive's list, as every ZIP
program does, then compares all other bytes with those that the writer would have written. So no byte can
differ, follow, or lie between the files unseen, and programs cannot disagree about what is in it. Nothing is
unpacked to a disk, and nothing is decompressed.
"""

from __future__ import annotations

import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_anubis.codec.input_limits import LARGEST_DATA, most_bytes, too_large
from pytest_anubis.codec.json_files import read_bytes
from pytest_anubis.core.seal import CONTENTS, MANIFEST, Flaw, FlawKind

MAX_SIGNATURES = 16
"""Signatures of one archive: a vendor, an operator, some witnesses."""

_SIGNATURE = re.compile(r"signatures/([0-9a-f]{64})\.(?:json|sig)")
_MAX_ENTRIES = 2 * (1 + len(CONTENTS) + 2 * MAX_SIGNATURES)
"""Files of an archive that are looked at, so that some added ones can still be named."""
_MAX_ZIP = 0xFFFFFFFF  # bytes: beyond, a ZIP file has another form

# APPNOTE.TXT 6.3.10 of PKWARE: local header, entry of the list, end. Little-endian.
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_LISTED = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_LOCAL_MARK, _LISTED_MARK, _END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_VERSION, _ON_UNIX = 20, 3 << 8
_MIDNIGHT, _FIRST_DAY = 0, 0x21  # 1980-01-01, the first day of the format: an archive has no date
_MODE = stat.S_IFREG | 0o644

_LIST_DAMAGED = "the list of files at its end is damaged"


class BundleError(ValueError):
    """An archive cannot be written or read at all; the message is one line for people."""


def signature_names(fingerprint: str) -> tuple[str, str]:
    """Return the names of the statement of a key, and of its signature over it."""
    return f"signatures/{fingerprint}.json", f"signatures/{fingerprint}.sig"


def signers_of(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the fingerprints of all keys of which an archive has a statement or a signature, sorted."""
    return tuple(sorted({match[1] for name in files if (match := _SIGNATURE.fullmatch(name))}))


def bundle_bytes(files: Mapping[str, bytes]) -> bytes:
    """Return the archive of some files, whatever their order in the mapping.

    Raises:
        BundleError: They are too large.
    """
    most = min(most_bytes(LARGEST_DATA), _MAX_ZIP)
    if sum(map(len, files.values())) + 1024 * len(files) + 1024 > most:
        raise BundleError(too_large("the files are too large for one archive", most))
    return b"".join(piece for _, piece in _pieces(files))


def read_bundle(path: Path) -> bytes:
    """Return the bytes of an archive.

    Raises:
        OSError: The file cannot be read.
        CodecError: It is too large.
    """
    return read_bytes(path, largest=LARGEST_DATA)


def files_of_bundle(data: bytes) -> tuple[dict[str, bytes], tuple[Flaw, ...]]:
    """Return the files of an archive by name, and what is wrong with the archive itself.

    A file of a name that no archive has, or that is packed, a link or listed twice, is a flaw. Of two of one
    name the first is returned.
    """
    files: dict[str, bytes] = {}
    seen: set[str] = set()
    flaws: list[Flaw] = []
    try:
        for name, content, flaw in _listed(data):
            if not _is_ours(name):
                flaws.append(Flaw(kind=FlawKind.ADDED, name=name))
            elif name in seen:
                flaws.append(Flaw(kind=FlawKind.TWICE, name=name))
            elif flaw is not None:
                flaws.append(Flaw(kind=flaw, name=name))
            else:
                files[name] = content
            seen.add(name)
    except BundleError as error:
        near = _first_difference(data, _walked(data)) or ""
        return {}, (Flaw(kind=FlawKind.UNREADABLE, name=near, detail=str(error)),)
    if not flaws and (place := _first_difference(data, files)) is not None:
        flaws.append(Flaw(kind=FlawKind.REPACKED, name=place))
    return files, tuple(flaws)


def _is_ours(name: str) -> bool:
    return name == MANIFEST or name in CONTENTS or _SIGNATURE.fullmatch(name) is not None


def _listed(data: bytes) -> Iterator[tuple[str, bytes, FlawKind | None]]:
    """Yield name and content of each file in an archive's list, and what is wrong with it.

    Raises:
        BundleError: It is no archive, or its list is damaged.
    """
    count, at, end = _list_of(data)
    left = at  # bytes before the list: files that share bytes could fill the memory
    for _ in range(count):
        if at + _LISTED.size > end:
            raise BundleError(_LIST_DAMAGED)
        mark, _, _, flags, packed, _, _, _, size, whole, *more = _LISTED.unpack_from(data, at)
        name_size, extra_size, comment_size, _, _, attributes, start = more
        text = data[at + _LISTED.size : at + _LISTED.size + name_size]
        at += _LISTED.size + name_size + extra_size + comment_size
        if mark != _LISTED_MARK or at > end:
            raise BundleError(_LIST_DAMAGED)
        name = text.decode("utf-8", "backslashreplace")
        mode = attributes >> 16
        if flags or packed or size != whole or not stat.S_ISREG(mode):
            yield name, b"", FlawKind.REPACKED
            continue
        left -= size
        if left < 0:
            raise BundleError("its files overlap")
        content = _content(data, start, size)
        yield name, content or b"", FlawKind.CHANGED if content is None else None
    if at != end:
        raise BundleError(_LIST_DAMAGED)


def _list_of(data: bytes) -> tuple[int, int, int]:
    """Return how many files an archive's list has, where it begins, and where it ends.

    Raises:
        BundleError: As of `_listed`.
    """
    place = (
        len(data) - _END.size if data[-_END.size :].startswith(_END_MARK) else data.rfind(_END_MARK)
    )
    if not data.startswith(_LOCAL_MARK) and place < 0:
        raise BundleError("it is no sealed archive: seal a run with 'anubis seal'")
    if place < 0 or place + _END.size > len(data):
        raise BundleError("it was cut short, or its end is damaged")
    if place + _END.size < len(data):
        raise BundleError(f"{len(data) - place - _END.size} bytes follow its end")
    _, disk, first_disk, here, count, size, start, comment = _END.unpack_from(data, place)
    if disk or first_disk or comment or here != count or start + size != place:
        raise BundleError("its end is damaged, or another program wrote it")
    if count > _MAX_ENTRIES:
        raise BundleError(f"it has {count} files; {_MAX_ENTRIES} are looked at")
    return count, start, place


def _content(data: bytes, start: int, size: int) -> bytes | None:
    """Return the content of a file by the place of its header; None if it is not all there."""
    if start + _LOCAL.size > len(data):
        return None
    *_, name_size, extra_size = _LOCAL.unpack_from(data, start)
    begin = start + _LOCAL.size + name_size + extra_size
    content = data[begin : begin + size]
    return content if len(content) == size else None


def _walked(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive without a usable list, by their headers, to name what is damaged."""
    files: dict[str, bytes] = {}
    at = 0
    while data[at : at + 4] == _LOCAL_MARK and at + _LOCAL.size <= len(data):
        *_, size, _, name_size, extra_size = _LOCAL.unpack_from(data, at)
        begin = at + _LOCAL.size
        name = data[begin : begin + name_size].decode("utf-8", "backslashreplace")
        if not _is_ours(name) or name in files:
            break
        begin += name_size + extra_size
        files[name] = data[begin : begin + size]
        at = begin + size
    return files


def _first_difference(data: bytes, files: Mapping[str, bytes]) -> str | None:
    """Return the file at whose header an archive first differs from the one of these files.

    The name is empty for its end; None: it does not differ.
    """
    at = 0
    for name, piece in _pieces(files):
        if data[at : at + len(piece)] != piece:
            return name
        at += len(piece)
    return None if at == len(data) else ""


def _pieces(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes of an archive in order, each piece with the name of the file that it belongs to."""
    place = 0
    entries = []
    order = (MANIFEST, *CONTENTS)
    for name in (*filter(files.__contains__, order), *sorted(files.keys() - set(order))):
        content, text = files[name], name.encode("ascii")
        sizes = (zlib.crc32(content), len(content), len(content), len(text), 0)
        shared = (_VERSION, 0, 0, _MIDNIGHT, _FIRST_DAY, *sizes)
        local = _LOCAL.pack(_LOCAL_MARK, *shared) + text
        place_in_list = (0, 0, 0, _MODE << 16, place)  # comment, disk, kind, attributes, header
        listed = _LISTED.pack(_LISTED_MARK, _ON_UNIX | _VERSION, *shared, *place_in_list) + text
        entries.append((name, listed))
        place += len(local) + len(content)
        yield name, local
        yield name, content
    yield from entries
    size = sum(len(listed) for _, listed in entries)
    yield "", _END.pack(_END_MARK, 0, 0, len(entries), len(entries), size, place, 0)
