"""Makes all messages of a worker sendable, so that no report is lost.

execnet sends only exact builtin types, and text that UTF-8 can encode. One undecodable byte in a message, or
a numpy number in ``record_property``, would end the worker and lose the report of a failed test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_anubis.codec.encodable_text import bounded, encodable, sendable

NEVER_SENT = "its report could not be sent"


class SafeSender:
    """A channel's ``send`` that converts messages which cannot be sent as they are.

    Args:
        send: The channel's ``send``.
        lost: Takes one line about a message that could not be sent in any form.
    """

    def __init__(self, send: Callable[[Any], None], lost: Callable[[str], None]) -> None:
        self._send = send
        self._lost = lost

    def __call__(self, message: Any, instead: Any = None) -> None:
        """Send a message; if impossible, a converted one, and if that is impossible, `instead`.

        Args:
            message: Name and content.
            instead: The last resort; None for none.

        Raises:
            OSError: The channel is closed.
        """
        try:
            self._send(message)
            return
        except OSError:
            raise
        except Exception as error:
            reason = error  # DumpError, or any error of struct, int and str within execnet
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


class SendableReports:
    """Plugin that makes every report and every other message of xdist's worker sendable.

    Args:
        lost: Takes one line about a lost message, or an internal error of the worker.
        rootpath: pytest's root; the controller may be unable to import modules below it.
    """

    def __init__(self, lost: Callable[[str], None], rootpath: Path) -> None:
        self._lost = lost
        self._rootpath = rootpath

    def attach(self, interactor: Any) -> None:
        """Replace ``sendevent``, by which xdist's worker sends everything."""
        outgoing = SafeSender(interactor.channel.send, self._lost)

        def sendevent(name: str, **content: Any) -> None:
            instead = None
            if name == "internal_error":
                text = str(content.get("formatted_error", "")).strip().rpartition("\n")[2]
                self._lost(f"a worker had an internal error: {bounded(encodable(text))}")
            elif name == "testreport":
                instead = (name, {"data": minimal_report(content["data"])})
            elif name == "warning_recorded":
                self._make_importable(content["warning_message_data"])
            outgoing((name, content), instead)

        interactor.sendevent = sendevent

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_to_serializable(self, report: Any) -> Generator[None, Any, Any]:
        """Replace a report that pytest cannot serialise by a minimal one."""
        try:
            data = yield
        except Exception as error:
            first = str(error).split("\n", 1)[0]
            kind = "TestReport" if isinstance(report, pytest.TestReport) else "CollectReport"
            data = minimal_report({**vars(report), "nodeid": report.nodeid, "$report_type": kind})
            data["longrepr"] = f"{NEVER_SENT}: {type(error).__name__}: {bounded(encodable(first))}"
        if data is not None:
            # The output of subtests is added after `ReportTexts` has seen their reports.
            data["sections"] = [(t, bounded(c)) for t, c in data.get("sections", ())]
        return data

    def _make_importable(self, data: dict[str, Any]) -> None:
        """Replace a warning's class that the controller cannot import, which would lose the worker."""
        text = f"{data['message_module']}.{data['message_class_name']}: {data['message_str']}"
        for what in ("message", "category"):
            module, name = data[f"{what}_module"], data[f"{what}_class_name"]
            if module is None:
                continue
            found = getattr(sys.modules.get(module), name, None)
            if isinstance(found, type) and self._importable_elsewhere(module):
                continue
            builtin: type = UserWarning
            if isinstance(found, type) and issubclass(found, Warning):
                builtin = next(c for c in found.__mro__ if c.__module__ == "builtins")
            data[f"{what}_module"], data[f"{what}_class_name"] = "builtins", builtin.__name__
            if what == "message":
                data["message_args"] = (text,)

    def _importable_elsewhere(self, module: str) -> bool:
        if module.partition(".")[0] in sys.stdlib_module_names:
            return True
        place = getattr(sys.modules.get(module), "__file__", None)
        if place is None:
            return False
        path = Path(place)
        return "site-packages" in path.parts or not path.is_relative_to(self._rootpath)


def minimal_report(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report with nothing but its test, phase and outcome."""
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
    """Return xdist's plugin in a worker, which has no public name; None if it is not recognised."""
    for plugin in config.pluginmanager.get_plugins():
        if hasattr(plugin, "sendevent") and hasattr(plugin, "channel"):
            return plugin
    return None
