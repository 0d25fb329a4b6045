"""Graphs are captured on the card that they are for, and a capture that fails leaves no stream behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from pytest_anubis.benchmarking import capture
from pytest_anubis.benchmarking.capture import as_graph, graph_of

FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)


class Stream:
    """A card's stream; what is handed to it is done at once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def wait_stream(self, _: object) -> None:
        """Wait for nothing."""


class Cards:
    """Two cards as ``torch.cuda`` shows them: a current device, and a current stream on each."""

    def __init__(self, *, endable: bool = True) -> None:
        self.endable = endable
        self.device = FIRST
        self.plain = {card: Stream(card) for card in (FIRST, SECOND)}
        self.streams = dict(self.plain)
        self.shared: Any = None
        self.capturing: Any = None
        self.left: list[Any] = []
        self.done: list[tuple[str, bool]] = []

    def Stream(self, device: torch.device | None = None) -> Any:  # noqa: N802 - torch's name
        return Stream(device or self.device)

    def current_stream(self, device: torch.device | None = None) -> Any:
        return self.streams[device or self.device]

    def synchronize(self, device: torch.device | None = None) -> None:
        assert self.capturing is None

    @contextmanager
    def into(self, device: torch.device) -> Iterator[None]:
        before, self.device = self.device, device
        try:
            yield
        finally:
            self.device = before

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        before = self.device, self.streams[stream.device]
        self.device = stream.device
        self.streams[stream.device] = stream
        try:
            yield
        finally:
            self.device, self.streams[stream.device] = before

    @contextmanager
    def graph(self, graph: object, stream: Any = None) -> Iterator[None]:
        """Capture as torch does: on one stream for all, which is left only if the capture could be ended."""
        if self.shared is None:
            self.shared = self.Stream()
        entered = self.stream(stream or self.shared)
        entered.__enter__()
        self.capturing = stream or self.shared
        try:
            yield
        finally:
            self.capturing = None
            if not self.endable:
                self.left.append(
                    entered
                )  # kept: a generator that is thrown away would be left, too
                raise RuntimeError("operation failed due to a previous error during capture\nmore")
            entered.__exit__(None, None, None)

    def work(self, card: torch.device) -> None:
        """Hand over one operation: during a capture it has to be on the capturing stream."""
        if self.capturing not in (None, self.streams[card]):
            raise RuntimeError("operation not permitted when stream is capturing")
        self.done.append((str(card), self.capturing is not None))


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Cards]:
    found = Cards(endable=getattr(request, "param", True))
    for name in ("Stream", "current_stream", "synchronize", "stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, getattr(found, name))
    monkeypatch.setattr(torch.cuda, "device", found.into)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    capture._stream.cache_clear()
    yield found
    capture._stream.cache_clear()


def test_each_card_captures_on_its_own_stream(cards: Cards) -> None:
    for card in (FIRST, SECOND):
        graph, reason = as_graph(lambda card=card: cards.work(card), card)  # type: ignore[misc]
        assert graph is not None, reason
    assert cards.done == [
        *[("cuda:0", False)] * 3, ("cuda:0", True), *[("cuda:1", False)] * 3, ("cuda:1", True),
    ]  # fmt: skip
    assert (cards.device, cards.streams) == (FIRST, cards.plain)


@pytest.mark.parametrize("cards", [False], indirect=True)
def test_failed_capture_restores_the_stream(cards: Cards) -> None:
    graph, reason = as_graph(lambda: cards.work(SECOND), SECOND)
    assert (graph, reason) == (
        None,
        "operation failed due to a previous error during capture",
    )
    assert (cards.device, cards.streams) == (FIRST, cards.plain)


def test_calls_before_the_capture_are_not_captured(cards: Cards) -> None:
    calls: list[tuple[str, bool]] = []

    def call(what: str) -> None:
        calls.append((what, cards.capturing is not None))

    graph_of(
        lambda: call("all"),
        SECOND,
        first=lambda: call("one"),
        before=lambda: call("before"),
    )
    assert calls == [*[("one", False)] * 3, ("before", False), ("all", True)]
