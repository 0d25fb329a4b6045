"""Read text that other programs wrote, in UTF-8 or UTF-16, and recognise files that are no text.

`csv_rows`, `import_result` and `table` use it.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TextIO

from pytest_anubis.codec.codec_error import CodecError

_WIDE = "utf-16"
_NO_TEXT = {
    b"PK\x03\x04": "a workbook (Excel, OpenDocument) or another archive: save the sheet as CSV UTF-8",
    b"\xd0\xcf\x11\xe0": "an Excel workbook: save the sheet as CSV UTF-8",
    b"PAR1": "a Parquet file: give it the ending .parquet, and import it as a table",
    b"\x1f\x8b": "compressed: unpack it",
}
"""First bytes of files that are no text -> what they are, and what to do."""


def decoded(data: bytes) -> str:
    """Decode a text as UTF-16 if it begins with its mark, else as UTF-8; invalid bytes are replaced.

    Raises:
        CodecError: The first bytes are those of another kind of file.
    """
    return data.decode(_encoding(data[:4]), "replace")


def open_text(path: Path, *, errors: str = "replace", newline: str | None = None) -> TextIO:
    """Open a text file with the encoding that `decoded` finds.

    Args:
        path: The file.
        errors: Treatment of invalid UTF-8, as of `open`; in UTF-16 it is replaced.
        newline: As of `open`.

    Raises:
        OSError: It cannot be read.
        CodecError: As of `decoded`.
    """
    file = path.open("rb")
    try:
        encoding = _encoding(file.read(4))
        file.seek(0)
    except (OSError, CodecError):
        file.close()
        raise
    errors = "replace" if encoding == _WIDE else errors
    return io.TextIOWrapper(file, encoding=encoding, errors=errors, newline=newline)


def _encoding(begin: bytes) -> str:
    if begin[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return _WIDE
    what = next((what for key, what in _NO_TEXT.items() if begin.startswith(key)), "")
    if what or b"\0" in begin:
        raise CodecError(what or "no text in UTF-8: save it as that")
    return "utf-8-sig"
