"""What a worker sends: what cannot be sent as it is goes in another form, for a report must never be lost.

execnet takes the exact builtin types and text that UTF-8 takes. One undecodable byte in a message or one
numpy number in ``record_property`` would end the worker, and with it the report that the test failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.codec.encodable_text import bounded, encodable
from pytest_anubis.codec.sendable_values import sendable

NEVER_SENT = "its report could not be sent"


class Outgoing:
    """Stands between what a worker says and its channel.

    Args:
        send: Sends one message, as a channel does.
        lost: Takes one line about a message that could not be sent in any form.
    """

    def __init__(self, send: Callable[[Any], None], lost: Callable[[str], None]) -> None:
        self._send = send
        self._lost = lost

    def __call__(self, message: Any, instead: Any = None) -> None:
        """Send a message, if need be changed; what is left of it otherwise.

        Args:
            message: Name and content.
            instead: What is sent if nothing else can be; None for nothing.

        Raises:
            OSError: The channel is closed.
        """
        try:
            self._send(message)
            return
        except OSError:
            raise
        except Exception as error:
            reason = error  # DumpError, or whatever struct, int and str raise within execnet
        for other in (message, instead) if instead is not None else (message,):
            try:
                self._send(sendable(other))
            except OSError:
                raise
            except Exception as error:
                reason = error
            else:
                return
        first = str(reason).split("\n", 1)[0]
        self._lost(f"a message of a worker could not be sent ({message[0]}): {bounded(first)}")


class Reports:
    """Makes every report one that can be sent, and takes care of all that xdist's worker sends.

    Args:
        lost: Takes one line about what could not be sent, or what went wrong inside the worker.
        rootpath: Of the run: what is defined below it the controller may not find.
    """

    def __init__(self, lost: Callable[[str], None], rootpath: Path) -> None:
        self._lost = lost
        self._rootpath = rootpath

    def attach(self, interactor: Any) -> None:
        """Take the place of the method by which xdist's worker says everything."""
        outgoing = Outgoing(interactor.channel.send, self._lost)

        def sendevent(name: str, **content: Any) -> None:
            instead = None
            if name == "internal_error":
                text = str(content.get("formatted_error", "")).strip().rpartition("\n")[2]
                self._lost(f"a worker had an internal error: {bounded(encodable(text))}")
            elif name == "testreport":
                instead = (name, {"data": least_of(content["data"])})
            elif name == "warning_recorded":
                self._make_known(content["warning_message_data"])
            outgoing((name, content), instead)

        interactor.sendevent = sendevent

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_to_serializable(self, report: Any) -> Generator[None, Any, Any]:
        """Make something of a report of which pytest can make nothing."""
        try:
            data = yield
        except Exception as error:
            first = str(error).split("\n", 1)[0]
            kind = "TestReport" if isinstance(report, pytest.TestReport) else "CollectReport"
            data = least_of({**vars(report), "nodeid": report.nodeid, "$report_type": kind})
            data["longrepr"] = f"{NEVER_SENT}: {type(error).__name__}: {bounded(encodable(first))}"
        if data is not None:
            # What subtests print is added after their reports are made.
            data["sections"] = [(t, bounded(c)) for t, c in data.get("sections", ())]
        return data

    def _make_known(self, data: dict[str, Any]) -> None:
        """Replace a category of warnings that the controller cannot import by a builtin one.

        It would lose the worker over it.
        """
        text = f"{data['message_module']}.{data['message_class_name']}: {data['message_str']}"
        for what in ("message", "category"):
            module, name = data[f"{what}_module"], data[f"{what}_class_name"]
            if module is None:
                continue
            found = getattr(sys.modules.get(module), name, None)
            if isinstance(found, type) and self._everywhere(module):
                continue
            builtin: type = UserWarning
            if isinstance(found, type) and issubclass(found, Warning):
                builtin = next(c for c in found.__mro__ if c.__module__ == "builtins")
            data[f"{what}_module"], data[f"{what}_class_name"] = "builtins", builtin.__name__
            if what == "message":
                data["message_args"] = (text,)

    def _everywhere(self, module: str) -> bool:
        if module.partition(".")[0] in sys.stdlib_module_names:
            return True
        place = getattr(sys.modules.get(module), "__file__", None)
        if place is None:
            return False
        path = Path(place)
        return "site-packages" in path.parts or not path.is_relative_to(self._rootpath)


def least_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the least that a report says: which test, in which phase, and how it went."""
    kept = ("nodeid", "outcome", "when", "$report_type", "item_index", "worker_id", "testrun_uid")
    path, line, name = data.get("location") or ("", None, "")
    return {
        **{key: sendable(data[key]) for key in kept if key in data},
        "location": (sendable(path), line, sendable(name)),
        "keywords": {},
        "longrepr": None if data.get("outcome") == "passed" else NEVER_SENT,
        "sections": [],
        "user_properties": [],
        "duration": sendable(data.get("duration", 0.0)),
        "start": sendable(data.get("start", 0.0)),
        "stop": sendable(data.get("stop", 0.0)),
        "anubis": sendable(data.get("anubis", {})),
        **({"result": None} if data.get("$report_type") == "CollectReport" else {}),
    }


def interactor_of(config: pytest.Config) -> Any:
    """Return xdist's plugin in a worker, which has no public name; None if there is none that we know."""
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "sendevent") and hasattr(plugin, "channel"):
            return plugin
    return None
