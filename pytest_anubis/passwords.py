"""Where a history is, as it may be shown: no password, however the place is written."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"

# What a URL's query may show; every other name may be one more way to write a secret.
_HARMLESS = frozenset(
    (
        *("host", "hostaddr", "port", "user", "dbname", "service", "application_name", "charset"),
        *("sslmode", "sslrootcert", "connect_timeout", "target_session_attrs", "tcp_user_timeout"),
        *("mode", "uri", "cache", "timeout", "options"),
    )
)
# User and hidden password, host or [address], port.
_AUTHORITY = re.compile(r"(?:[^:@/]*(?::\*\*\*)?@)?(?:\[[^\]]*\]|[^:@]*)(?::\d*)?")
# ``password=...`` among words, as libpq writes its connection strings.
_WORD = re.compile(
    r"(\w*(?:pass|pwd|secret)\w*\s*=\s*)('(?:\\.|[^'\\])*'?|[^\s&;]*)", re.IGNORECASE
)
_BETWEEN = re.compile(r"[@:/?#&;=\s]+")
_TELLING = 3
"""Letters from which on a piece of a password is looked for in other text: shorter ones stand anywhere."""


_DATABASE = re.compile(
    r"(?:^|/)(?:postgres(?:ql)?|mysql|mariadb|oracle|mssql|sqlite)(?:\+\w+)?:|\bpassword\s*=",
    re.IGNORECASE,
)


def is_mistaken(place: str) -> bool:
    """Return whether what would be a folder was meant to be a database, e.g. ``postgresql:/user@host``."""
    return "://" not in place and _DATABASE.search(place) is not None


def shown_place(place: str) -> str:
    """Return the place of a history without passwords: a URL, a folder, or what was meant to be one.

    What stands between the first ``:`` and the last ``@`` is taken for a password, so a password may hold
    any character; of the query only values known to be harmless are kept; and of a URL that cannot be
    understood nothing is kept but its scheme.
    """
    return _split(place)[0]


def without_passwords(text: str, place: str) -> str:
    """Return what a driver said about a place without the passwords of that place, or pieces of them."""
    shown, secrets = _split(place)
    text = text.replace(place, shown) if place else text
    forms = {form for secret in secrets for form in (secret, unquote(secret), unquote_plus(secret))}
    if any(len(form) < _TELLING and form in text for form in forms if form):
        return "what the driver said is left out, since it may show the password"
    pieces = forms | {piece for form in forms for piece in _BETWEEN.split(form)}
    for piece in sorted(pieces, key=len, reverse=True):
        if len(piece) >= _TELLING:
            text = text.replace(piece, HIDDEN)
    return text


def _split(place: str) -> tuple[str, list[str]]:
    """Return a place as it may be shown, and what was hidden."""
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
