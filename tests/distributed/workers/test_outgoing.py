from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import execnet
import pytest

from pytest_anubis.distributed.workers.outgoing import NEVER_SENT, SafeSender, SendableReports

BAD = b"a\xff".decode("utf-8", "surrogateescape")


class Channel:
    """Takes what execnet takes, and refuses given kinds."""

    def __init__(self, refuse: str = "nothing") -> None:
        self.sent: list[Any] = []
        self._refuse = refuse

    def send(self, message: Any) -> None:
        execnet.dumps(message)
        if self._refuse in repr(message):
            raise execnet.DumpError("refused")
        self.sent.append(message)


def test_what_can_be_sent_is_sent_as_it_is() -> None:
    lost: list[str] = []
    channel = Channel()
    SafeSender(channel.send, lost.append)(("a", {"b": 1}))
    SafeSender(channel.send, lost.append)(("a", {"b": BAD}))
    assert channel.sent == [("a", {"b": 1}), ("a", {"b": "a\\udcff"})]
    assert not lost


def test_closed_channel_is_told_as_ever() -> None:
    def closed(message: Any) -> None:
        raise OSError("cannot send (already closed?)")

    lost: list[str] = []
    with pytest.raises(OSError, match="closed"):
        SafeSender(closed, lost.append)(("a", 1))
    assert not lost


def worker(channel: Channel) -> tuple[Any, SendableReports, list[str]]:
    lost: list[str] = []
    interactor = SimpleNamespace(channel=channel)
    reports = SendableReports(lost.append, Path(__file__).parents[3])
    reports.attach(interactor)
    return interactor, reports, lost


def failed(**changes: Any) -> pytest.TestReport:
    made = pytest.TestReport("t.py::t", ("t.py", 1, "t"), {}, "failed", "it broke", "call", [])
    vars(made).update(changes)
    return made


def test_unsendable_report_becomes_minimal() -> None:
    interactor, _, lost = worker(channel := Channel(refuse="poison"))
    data = failed()._to_json() | {"$report_type": "TestReport", "sections": [("x", "poison")]}
    interactor.sendevent("testreport", data=data)
    ((name, content),) = channel.sent
    assert name == "testreport"
    made = pytest.TestReport._from_json(content["data"])
    assert (made.nodeid, made.outcome, made.when) == ("t.py::t", "failed", "call")
    assert made.longrepr == NEVER_SENT
    assert not lost


def test_what_cannot_be_sent_at_all_is_told() -> None:
    interactor, _, lost = worker(channel := Channel(refuse="logstart"))
    interactor.sendevent("logstart", nodeid="t")
    assert not channel.sent
    assert lost == ["a message of a worker could not be sent (logstart): refused"]


def test_internal_error_of_a_worker_is_told_and_sent() -> None:
    interactor, _, lost = worker(channel := Channel())
    interactor.sendevent("internal_error", formatted_error="Traceback\n  x\nValueError: why\n")
    assert lost == ["a worker had an internal error: ValueError: why"]
    assert channel.sent[0][0] == "internal_error"


@pytest.mark.parametrize("kind", [pytest.TestReport, pytest.CollectReport])
def test_unserialisable_report_becomes_minimal(kind: type) -> None:
    _, reports, _ = worker(Channel())
    report: Any = failed()
    if kind is pytest.CollectReport:
        report = pytest.CollectReport("t.py", "failed", "x", [])
    hook = reports.pytest_report_to_serializable(report)
    next(hook)
    with pytest.raises(StopIteration) as stop:
        hook.throw(RuntimeError("repr fails"))
    made = kind._from_json(stop.value.value)  # type: ignore[attr-defined]
    assert made.outcome == "failed"
    assert made.longrepr == f"{NEVER_SENT}: RuntimeError: repr fails"


class Mine(DeprecationWarning):
    """Of a module below the root folder of the run."""


@pytest.mark.parametrize(
    ("category", "becomes"),
    [
        (Mine, ("builtins", "DeprecationWarning")),
        (pytest.PytestWarning, ("pytest", "PytestWarning")),
        (ResourceWarning, ("builtins", "ResourceWarning")),
    ],
)
def test_unknown_warning_class_becomes_builtin(
    category: type[Warning], becomes: tuple[str, str]
) -> None:
    from xdist.remote import serialize_warning_message

    interactor, _, _ = worker(channel := Channel())
    message = warnings.WarningMessage(category("hm"), category, __file__, 1)
    interactor.sendevent(
        "warning_recorded", warning_message_data=serialize_warning_message(message)
    )
    data = channel.sent[0][1]["warning_message_data"]
    found = data["category_module"].partition(".")[0].replace("_pytest", "pytest")
    assert (found, data["category_class_name"]) == becomes
    assert "hm" in str(data["message_args"])
