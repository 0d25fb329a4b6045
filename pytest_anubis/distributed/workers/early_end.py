"""What a test in a worker may ask of the whole run: to end."""

from __future__ import annotations

import pytest

from pytest_anubis.distributed.workers.worker_messages import Listener


class EarlyEnd:
    """Ends the run in order when a test wants to.

    Args:
        listener: Hears what workers say.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

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
