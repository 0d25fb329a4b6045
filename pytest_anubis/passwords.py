"""Hide the passwords in places of a history (URLs, libpq strings), for every message and file.

`is_mistaken` recognises a misspelt database, which would be taken for a folder.

SQLAlchemy's ``render_as_string(hide_password=True)`` does not suffice: it shows secrets in the query, splits
passwords that contain ``@`` or ``/`` wrongly, and does not know libpq strings.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"

# Names of a URL's query whose values are shown; any other name may hold a secret.
_HARMLESS = frozenset(
    (
        *("host", "hostaddr", "port", "user", "dbname", "service", "application_name", "charset"),
        *("sslmode", "sslrootcert", "connect_timeout", "target_session_attrs", "tcp_user_timeout"),
        *("mode", "uri", "cache", "timeout", "options"),
    )
)
# User with hidden password, host or [address], port.
_AUTHORITY = re.compile(r"(?:[^:@/]*(?::\*\*\*)?@)?(?:\[[^\]]*\]|[^:@]*)(?::\d*)?")
# ``password=...`` in a connection string of libpq.
_WORD = re.compile(
    r"(\w*(?:pass|pwd|secret)\w*\s*=\s*)('(?:\\.|[^'\\])*'?|[^\s&;]*)", re.IGNORECASE
)
_BETWEEN = re.compile(r"[@:/?#&;=\s]+")
_MIN_PIECE = 3
"""Fewest letters of a piece of a password that is searched for in other text; shorter ones occur anywhere."""

_DATABASE = re.compile(
    r"(?:^|/)(?:postgres(?:ql)?|mysql|mariadb|oracle|mssql|sqlite)(?:\+\w+)?:|\bpassword\s*=",
    re.IGNORECASE,
)


def is_mistaken(place: str) -> bool:
    """Return whether a folder's name looks like a misspelt database, e.g. ``postgresql:/user@host``."""
    return "://" not in place and _DATABASE.search(place) is not None


def shown_place(place: str) -> str:
    """Return the place of a history without passwords: a URL, a folder, or a misspelt one of these.

    A password may contain any character, so everything between the first ``:`` and the last ``@`` is hidden.
    The query keeps only values known to be harmless. An unreadable URL keeps only its scheme.
    """
    return _split(place)[0]


def without_passwords(text: str, place: str) -> str:
    """Return a driver's message about a place without the passwords of that place, or pieces of them."""
    shown, secrets = _split(place)
    text = text.replace(place, shown) if place else text
    forms = {form for secret in secrets for form in (secret, unquote(secret), unquote_plus(secret))}
    if any(len(form) < _MIN_PIECE and form in text for form in forms if form):
        return "what the driver said is left out, since it may show the password"
    pieces = forms | {piece for form in forms for piece in _BETWEEN.split(form)}
    for piece in sorted(pieces, key=len, reverse=True):
        if len(piece) >= _MIN_PIECE:
            text = text.replace(piece, HIDDEN)
    return text


def _split(place: str) -> tuple[str, list[str]]:
    """Return a place without its secrets, and the secrets."""
    scheme, mark, rest = place.partition("://")
    if not mark:
        scheme, rest = "", place
    secrets: list[str] = []
    head, at, tail = rest.rpartition("@")
    user, colon, password = head.partition(":")
    if at and colon:
        secrets.append(password)
        rest = f"{user}:{HIDDEN}@{tail}"
    if not mark:
        secrets += [match[2].strip("'") for match in _WORD.finditer(rest)]
        return _WORD.sub(rf"\1{HIDDEN}", rest), secrets
    before, question, query = rest.partition("?")
    if _AUTHORITY.fullmatch(before.partition("/")[0]) is None:
        return f"{scheme}://{HIDDEN}", [*secrets, *_BETWEEN.split(place.partition("://")[2])]
    words = []
    for word in query.split("&"):
        name, _, value = word.partition("=")
        if not value or unquote_plus(name).lower() not in _HARMLESS:
            secrets.append(value or name)
            word = f"{name}={HIDDEN}" if value else HIDDEN
        words.append(word)
    return f"{scheme}://{before}{question}{'&'.join(words) if question else ''}", secrets
