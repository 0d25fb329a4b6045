"""What goes wrong inside workers and costs no process: the controller takes note of it, or ends the run."""

from __future__ import annotations

import pytest

from pytest_anubis.core.events import BlockerFound
from pytest_anubis.distributed.workers.worker_messages import Listener
from pytest_anubis.session.context import Sink


class WorkerTroubles:
    """Ends the run in order when a test wants to, and lets no internal error pass unseen.

    Args:
        listener: Hears what workers say.
        sink: Takes every event at once.
    """

    def __init__(self, listener: Listener, sink: Sink) -> None:
        self._listener = listener
        self._sink = sink

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self) -> None:
        """End the run as `pytest.exit` would have ended it in this process.

        Raises:
            pytest.exit.Exception: A test called it.
        """
        leaving = self._listener.leaving
        if leaving is not None:
            self._listener.leaving = None
            raise pytest.exit.Exception(*leaving)

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self, excrepr: object) -> None:
        """Nothing is accepted after a fault inside pytest, be it the last thing that happens."""
        last = str(excrepr).strip().rpartition("\n")[2]
        self._sink(BlockerFound(text=f"an internal error of pytest: {last}"))
