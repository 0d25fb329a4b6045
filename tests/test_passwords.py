"""No password is shown, however somebody wrote it."""

from __future__ import annotations

import pytest

from pytest_anubis.passwords import is_mistaken, shown_place, without_passwords

# Every password here has this word in it.
WORD = "s3cret"


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("", ""),
        ("/srv/fleet", "/srv/fleet"),
        ("sqlite:////srv/fleet/history.sqlite", "sqlite:////srv/fleet/history.sqlite"),
        ("postgresql://me@h:5432/d?sslmode=require", "postgresql://me@h:5432/d?sslmode=require"),
        ("postgresql://me@[::1]:5432/d", "postgresql://me@[::1]:5432/d"),
        ("postgresql://me@/d?host=/run/pg&host=h2:1", "postgresql://me@/d?host=/run/pg&host=h2:1"),
        ("postgresql://me:s3cret@h/d", "postgresql://me:***@h/d"),
        ("postgresql://me:a/s3cret@h/d", "postgresql://me:***@h/d"),
        ("postgresql://me:a@s3cret@h/d", "postgresql://me:***@h/d"),
        ("postgresql://me:a?b=s3cret#@h/d?user=me", "postgresql://me:***@h/d?user=me"),
        ("postgresql://me:%733cret@h/d", "postgresql://me:***@h/d"),
        ("postgresql://h/d?user=me&password=s3cret", "postgresql://h/d?user=me&password=***"),
        ("postgresql://h/d?password=a:s3cret@b", "postgresql://h/d?password=***"),
        ("postgresql://h/d?pass%77ord=s3cret", "postgresql://h/d?pass%77ord=***"),
        ("postgresql://h/d?PassWord=s3cret", "postgresql://h/d?PassWord=***"),
        ("postgresql://h/d?passfile=/home/s3cret", "postgresql://h/d?passfile=***"),
        ("postgresql://h/d?sslpassword=s3cret&s3cret", "postgresql://h/d?sslpassword=***&***"),
        ("mssql+pyodbc://?odbc_connect=PWD%3Ds3cret", "mssql+pyodbc://?odbc_connect=***"),
        ("postgresql://me@h:s3cret/d", "postgresql://***"),  # no port: the URL means something else
        ("postgresql://h:s3cret", "postgresql://***"),
        ("postgresql:/me:s3cret@h/d", "postgresql:***@h/d"),
        ("/srv/postgresql:/me:s3cret@h/d", "/srv/postgresql:***@h/d"),
        ("host=h password='s3cret and more' user=me", "host=h password=*** user=me"),
        ("host=h password = s3cret", "host=h password = ***"),
    ],
)
def test_a_place_is_shown_without_its_password(place: str, shown: str) -> None:
    assert shown_place(place) == shown
    assert WORD not in shown_place(place)
    assert shown_place(shown) == shown
    said = f"cannot use {place!r}: s3cret is not known, nor s3cret@h"
    if place != shown:
        assert WORD not in without_passwords(said, place)
    else:
        assert without_passwords(said, place) == said


def test_what_a_driver_says_loses_pieces_of_the_password_and_nothing_else() -> None:
    place = "postgresql://me:ab@s3cret%2Fword@h/d"
    said = without_passwords("failed to resolve host 's3cret%2Fword@h': me at h", place)
    assert said == "failed to resolve host '***@h': me at h"
    assert without_passwords("no s3cret/word", place) == "no ***/***"
    # So short a password may be part of any word: nothing is kept.
    assert "xy" not in without_passwords("xylophones and xy", "postgresql://me:xy@h/d")


@pytest.mark.parametrize(
    ("place", "mistaken"),
    [
        ("postgresql:/me@h/d", True),
        ("/here/postgresql+psycopg:me@h", True),
        ("host=h password=x", True),
        ("postgresql://h/d", False),
        (".anubis", False),
        ("/data/me@host:22/x", False),
    ],
)
def test_a_url_that_would_become_a_folder_is_noticed(place: str, mistaken: bool) -> None:
    assert is_mistaken(place) is mistaken
