"""Recognises errors of a test that are mistakes in its code, such as a misspelt name; used by `call_phase`.

Such errors say nothing about the hardware, because Python and pytest raise them before the line does
anything: an unknown fixture or name, a call with wrong arguments, a syntax error, a fixture with two yields.
The last line that ran must be the test's own, this package's, or pytest's where it refuses a test or fixture.
Errors that a library raises, or that are raised while another error is handled, still count against the
hardware. The fixture that an error comes from is found by the frames of its traceback. `failed_cleanups`
excuses a test for what shared fixtures leave.
"""

from __future__ import annotations

import builtins
import inspect
import os
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from traceback import walk_tb
from types import ModuleType, TracebackType
from typing import Any

import pytest

from pytest_anubis.core.measurement import MISTAKE
from pytest_anubis.session.error_causes import text_of

Fixture = pytest.FixtureDef[Any]


def fixture_of(trace: TracebackType | None) -> tuple[Fixture | None, bool]:
    """Return the innermost fixture in a traceback, and whether it was being cleaned up."""
    found: tuple[Fixture | None, bool] = None, False
    for frame, _ in walk_tb(trace):
        owner = frame.f_locals.get("self")
        if isinstance(owner, pytest.FixtureDef):
            found = owner, frame.f_code is pytest.FixtureDef.finish.__code__
    return found


def place_of(fixture: Fixture) -> tuple[str, int]:
    """Return file and line of a fixture; an empty file if its function is not written in Python."""
    code = getattr(inspect.unwrap(fixture.func), "__code__", None)
    return ("", 0) if code is None else (code.co_filename, code.co_firstlineno)


def failed_cleanups(item: pytest.Item, raised: pytest.ExceptionInfo[BaseException]) -> str:
    """Name the shared fixtures whose cleanup failed, since the test that ran before it is not to blame.

    Returns:
        One sentence; empty if anything else was raised.
    """
    failed = []
    for error in _leaves(raised.value):
        fixture, cleaned = fixture_of(error.__traceback__)
        if fixture is None or not cleaned or fixture.scope == "function":
            return ""
        path, line = place_of(fixture)
        root = item.config.rootpath
        # The place of pytest's own fixtures, as for teardown_module, says less than their name.
        ours = root in Path(path).parents
        place = f", {Path(path).relative_to(root)}:{line}" if ours else ""
        said = f"{type(error).__name__}: {text_of(error)}".split("\n", 1)[0]
        failed.append(f"fixture {fixture.argname} ({fixture.scope}{place}): {said}")
    return f"what tests share could not be cleaned up; mend it: {'; '.join(failed)}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, or the errors of a group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


# CPython's messages for calls with wrong arguments: of Python functions (ceval.c) and of C's (getargs.c).
_WRONG_CALL = re.compile(
    r"\bmissing \d+ required|unexpected keyword argument|takes .*arguments? .*given|"
    r"takes no (keyword )?arguments|multiple values for (keyword )?argument|missing required argument|"
    r"takes \d+ positional|expected (at (least|most) )?\d+ arguments?, got|"
    r"^'(?!NoneType')\w+' object is not callable"  # None may be the result of a failed search
)
INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed code, which is not the project's even if they lie in the project's folder."""
_FIXTURES = "_pytest.fixtures"
_OUTCOMES = "_pytest.outcomes"
_REFUSING = (_FIXTURES, "_pytest.python", "_pytest.skipping")
"""pytest's modules that refuse wrong code with `pytest.fail`, which is defined in `_OUTCOMES`."""
_PACKAGE = Path(__file__).parents[1]
UNSEEN = (pytest.PytestUnhandledThreadExceptionWarning, pytest.PytestUnraisableExceptionWarning)
"""pytest's warnings about errors in threads and finalisers."""


def mistake_in_code(item: pytest.Item, raised: pytest.ExceptionInfo[BaseException]) -> str:
    """Describe the mistake in a test's code that raised an error, with its place and a suggestion.

    Returns:
        One sentence that begins with `MISTAKE`; empty for every other error.
    """
    error = raised.value
    if isinstance(error, pytest.PytestReturnNotNoneWarning | DeprecationWarning):
        return _returned(item, error)
    if unseen := unseen_failures(error, UNSEEN):
        said = str(unseen[0]).split("\n", 1)[0]
        path, line = _places(unseen[0].__traceback__)[-1]
        what = (
            f"{type(unseen[0]).__name__} in a thread, future, child or finaliser, where it fails no test: "
            f"{said}"
        )
        return _sentence(what, path, line, item, "")
    if isinstance(error, pytest.FixtureLookupError):
        return _fixture_mistake(item, error)
    if _refused_by_pytest(error, raised.tb):
        return _refusal(item, error, raised.tb)
    if isinstance(error, SyntaxError):
        path, line = error.filename or "", error.lineno or 0
    else:
        path, line = _places(raised.tb)[-1]
    # An error raised while another one was handled may hide a message of the hardware.
    ours = Path(path).is_relative_to(_PACKAGE)  # a defect of pytest-anubis rejects no node
    if error.__context__ is not None or not (ours or _is_own(path, item)):
        return ""
    names = _names_meant(error, raised.tb)
    if names is None:
        return ""
    said = str(error.msg if isinstance(error, SyntaxError) else error).split("\n", 1)[0]
    wrong = str(getattr(error, "name", "") or "")
    near = closest_name(wrong, names)
    return _sentence(f"{type(error).__name__}: {said}", path, line, item, near)


def unseen_failures(
    error: BaseException, category: tuple[type[pytest.PytestWarning], ...]
) -> list[BaseException]:
    """Return the errors of threads or finalisers behind pytest's warnings; empty for any other error."""
    group = error.exceptions if isinstance(error, BaseExceptionGroup) else (error,)
    if not all(isinstance(one, category) for one in group):
        return []
    return [one.__cause__ or one for one in group]


def closest_name(name: str, names: Iterable[str]) -> str:
    """Return the name that is most like a misspelt one; empty if none is."""
    return next(iter(get_close_matches(name, list(names), 1)), "")


def _returned(item: pytest.Item, error: BaseException) -> str:
    """Describe a test that returns its check instead of asserting it; empty for other warnings."""
    if isinstance(error, DeprecationWarning) and "It is deprecated to return" not in str(error):
        return ""
    line = (item.location[1] or 0) + 1
    what = "the test returns a value, which checks nothing: say assert instead of return"
    return _sentence(what, os.fspath(item.path), line, item, "")


def _fixture_mistake(item: pytest.Item, error: pytest.FixtureLookupError) -> str:
    """Name the fixture that does not exist."""
    shown = error.formatrepr()
    what, *more = shown.errorstring.strip().split("\n")
    there = next((line for line in map(str.strip, more) if line.startswith("available fix")), "")
    names = there.partition(":")[2].replace(" ", "").split(",")
    near = closest_name(shown.argname or "", names) if what.endswith("not found") else ""
    return _sentence(what, os.fspath(shown.filename), shown.firstlineno + 1, item, near)


def _refused_by_pytest(error: BaseException, trace: TracebackType | None) -> bool:
    """Return whether pytest itself refuses the way a test or fixture is written.

    It calls its own ``fail``, or raises where it looks for a fixture's ``yield`` or for an attribute that the
    fixture's scope lacks.
    """
    at = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(trace)]
    if isinstance(error, pytest.fail.Exception):
        said = at[-1:] == [_OUTCOMES]
        return said and at[-2:-1] in ([one] for one in _REFUSING) and error.__context__ is None
    if isinstance(error, ValueError):
        return at[-1:] == [_FIXTURES] and isinstance(error.__context__, StopIteration)
    return isinstance(error, AttributeError) and at[-1:] == [_FIXTURES]


def _refusal(item: pytest.Item, error: BaseException, trace: TracebackType | None) -> str:
    """Say what pytest refuses, with the last place in the project's code, else the fixture or the test."""
    own = [place for place in _places(trace) if _is_own(place[0], item)]
    fixture, _ = fixture_of(trace)
    test = os.fspath(item.path), (item.location[1] or 0) + 1
    path, line = own[-1] if own else place_of(fixture) if fixture is not None else test
    said = str(error).split("\n", 1)[0].rstrip(" ,:")
    return _sentence(said, path, line, item, "")


def _sentence(what: str, path: str, line: int, item: pytest.Item, near: str) -> str:
    place = os.path.relpath(path, item.config.rootpath) if path else item.nodeid
    hint = f"; did you mean {near}?" if near else ""
    return f"{MISTAKE}{what} ({place}:{line}){hint}"


def _names_meant(error: BaseException, trace: TracebackType | None) -> list[str] | None:
    """Return the names that may have been meant; None if the error is no mistake in its line."""
    if isinstance(error, NameError) and trace is not None:
        *_, (frame, _) = walk_tb(trace)
        return [*frame.f_locals, *frame.f_globals, *vars(builtins)]
    if isinstance(error, AttributeError):
        of = error.obj
        ours = type(of).__module__.startswith("pytest_anubis.")
        return dir(of) if ours or isinstance(of, ModuleType) else None
    if isinstance(error, SyntaxError):
        return []
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        # A damaged or unfitting library raises ImportError as well, with other words.
        return [] if "cannot import name" in str(error) else None
    return [] if isinstance(error, TypeError) and _WRONG_CALL.search(str(error)) else None


def _places(trace: TracebackType | None) -> list[tuple[str, int]]:
    """Return files and lines of a traceback: the last line that ran is last, an empty file first."""
    return [("", 0), *((frame.f_code.co_filename, line) for frame, line in walk_tb(trace))]


def _is_own(path: str, item: pytest.Item) -> bool:
    """Return whether a file belongs to the test: in its folder or below, or a conftest above it."""
    if not path or not path.endswith(".py") or any(part in Path(path).parts for part in INSTALLED):
        return False
    file, test = Path(path).resolve(), item.path.resolve()
    above = file.parent in test.parents
    return test.parent in file.parents or (file.name == "conftest.py" and above)
