"""Engines that learn the metrics of a fleet: this process or a Dask cluster, with the same baseline."""

from __future__ import annotations

import argparse
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from typing import Any, TypeVar

from pytest_anubis import __version__
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import say
from pytest_anubis.report.text.numbers import count_text

T = TypeVar("T")
R = TypeVar("R")

CONNECT_SECONDS = 10.0
"""Seconds that a scheduler has to answer: it is on the same network, and somebody waits."""
POLL_SECONDS = 5.0
"""Seconds between two looks whether any worker is left."""
MAX_SECONDS_ALONE = 60.0
"""Seconds without any worker after which learning ends: a restarted worker is back in a few."""
TASKS_PER_THREAD = 2
"""Metrics that each thread has at a time: it learns one, and the next one has arrived."""
_PORT = 8786
"""Default port of Dask's scheduler."""


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Declare ``--engine`` and ``--scheduler``."""
    chosen = parser.add_argument_group("what learns from runs that were collected")
    chosen.add_argument(
        "--engine",
        choices=("local", "dask"),
        help="local: this process, one metric after the other; dask: the workers of a Dask cluster, several "
        "at a time; the baseline is the same (default: dask with --scheduler, else local)",
    )
    chosen.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help=f"the Dask cluster's scheduler, tcp://HOST:{_PORT} or tls://HOST:{_PORT}",
    )


def check_engine(options: argparse.Namespace, *, measuring: bool) -> None:
    """Refuse options that contradict each other; if `measuring`, tests are measured and no runs are read."""
    if measuring and (options.engine == "dask" or options.scheduler):
        raise CommandError(
            "--engine and --scheduler are for runs that were collected; tests are measured here"
        )
    if options.engine == "local" and options.scheduler:
        raise CommandError(
            "--scheduler is for --engine dask; leave one out: --engine local needs no cluster"
        )
    if options.engine == "dask" and not options.scheduler:
        raise CommandError(
            f"--engine dask needs a cluster: start 'dask scheduler' on a host and 'dask worker "
            f"tcp://HOST:{_PORT} --nthreads 1' where it may compute, then add --scheduler tcp://HOST:{_PORT}"
        )


@contextlib.contextmanager
def engine_of(options: argparse.Namespace) -> Iterator[Executor | None]:
    """Yield the executor that learns the metrics; None for this process."""
    if not options.scheduler:
        yield None
        return
    with DaskEngine(options.scheduler) as engine:
        say(f"Dask at {options.scheduler}: {count_text(engine.workers, 'worker')}")
        yield engine


class DaskEngine(Executor):
    """A Dask cluster that computes a few tasks at a time, and repeats those of a dead worker.

    Args:
        address: Address of its scheduler.

    Raises:
        CommandError: Dask is missing, the scheduler does not answer, there is no worker, or one has another
            version of what the result depends on.
    """

    def __init__(self, address: str) -> None:
        try:
            import dask
            import distributed
            from distributed.comm.addressing import get_address_host_port
        except ImportError:
            raise CommandError(
                "--engine dask needs Dask; install it with `pip install 'pytest-anubis[dask]'`, here and on "
                "the workers"
            ) from None
        self._address = address
        if address.startswith("tls:"):
            self._check_certificates(distributed.Security)
        # A task holds its metric's values, so that no values are lost with a worker.
        self._settings: Any = dask.config.set(
            {"distributed.admin.large-graph-warning-threshold": "1TB"}
        )
        try:
            # A client of a malformed address stays half open. Python closes it whenever it collects it, and
            # that waits for ever if another client is starting.
            get_address_host_port(address)
            connect: Any = distributed.Client  # Dask has no types
            self._client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError, ImportError) as error:
            said = str(error).partition("\n")[0][:120]  # a line's worth
            raise CommandError(
                f"--scheduler {address}: no Dask scheduler answers there ({said or type(error).__name__}); "
                "check the address, and that it runs ('dask scheduler')"
            ) from None
        try:
            self.workers = self._check()
        except BaseException:
            self.shutdown()
            raise

    def _check_certificates(self, security: Any) -> None:
        """Refuse to connect without certificates for TLS: Dask would wait, and fail with many lines."""
        mend = (
            "tell Dask which certificates to use: DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ..__CLIENT__CERT and "
            "..__CLIENT__KEY"
        )
        try:
            context = security().get_connection_args("client").get("ssl_context")
        except (OSError, ValueError, TypeError) as error:  # no such file, or no certificate in it
            said = str(error).partition("\n")[0][:80]  # a line's worth
            raise self._error(f"{said}; {mend}") from None
        if context is None:
            raise self._error(f"TLS without certificates; {mend}")

    def _check(self) -> int:
        threads = self._threads()
        if not threads:
            raise self._error(
                f"it has no workers; start some: dask worker {self._address} --nthreads 1"
            )
        mine = versions()
        try:
            found = self._client.run(versions, on_error="return")
        except Exception as error:  # a worker lacks the package, and cannot even read the question
            found = {self._address: error}
        for worker, theirs in sorted(found.items()):
            if isinstance(theirs, BaseException):
                raise self._error(
                    f"worker {worker} cannot run pytest-anubis ({str(theirs)[:80]}); install pytest-anubis "
                    f"{__version__} there"
                )
            other = [
                f"{name} {theirs.get(name)}" for name in mine if theirs.get(name) != mine[name]
            ]
            if other:
                here = ", ".join(f"{name} {mine[name]}" for name in mine)
                raise self._error(
                    f"worker {worker} has {', '.join(other)}; here are {here}: install the same, or the "
                    "baselines would differ"
                )
        return len(threads)

    def _threads(self) -> dict[str, int]:
        """Return worker -> its threads."""
        try:
            return dict(self._client.nthreads())
        except (OSError, TimeoutError) as error:
            raise self._broken(error) from None

    def _broken(self, error: BaseException) -> CommandError:
        said = str(error)[:80] or type(error).__name__  # a line's worth
        return self._error(f"the connection broke ({said}); see that it runs, and learn again")

    def _error(self, text: str) -> CommandError:
        return CommandError(f"--scheduler {self._address}: {text}")

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Return a finished future with a worker's result or error."""
        done: Future[R] = Future()
        try:
            done.set_result(self._result(self._client.submit(fn, *args, pure=False, **kwargs)))
        except Exception as error:  # the caller gets it with the result
            done.set_exception(error)
        return done

    def map(  # type: ignore[override]
        self, fn: Callable[[T], R], tasks: Iterable[T], **_: Any
    ) -> Iterator[R]:
        """Yield what a function returns for each task, in their order."""
        waiting: deque[Any] = deque()
        for task in tasks:
            if len(waiting) >= TASKS_PER_THREAD * max(sum(self._threads().values()), 1):
                yield self._result(waiting.popleft())
            waiting.append(self._client.submit(fn, task, pure=False))
        while waiting:
            yield self._result(waiting.popleft())

    def _result(self, future: Any) -> Any:
        from distributed import KilledWorker

        alone = 0.0
        while True:
            try:
                return future.result(timeout=POLL_SECONDS)
            except TimeoutError:
                alone = 0.0 if self._threads() else alone + POLL_SECONDS
                if alone >= MAX_SECONDS_ALONE:
                    raise self._error(
                        "it has had no workers for a minute; start some and learn again (a worker that is "
                        "killed again and again needs more memory)"
                    ) from None
            except KilledWorker:
                raise self._error(
                    "workers died while they learned the same metric; give them more memory (dask worker "
                    "--memory-limit)"
                ) from None
            except (CancelledError, OSError) as error:
                raise self._broken(error) from None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, which runs on."""
        self._client.close(timeout=POLL_SECONDS)
        self._settings.__exit__(None, None, None)


def versions() -> dict[str, str]:
    """Return the versions that the bytes of a baseline depend on, besides the values."""
    import numpy
    import scipy

    return {"pytest-anubis": __version__, "numpy": numpy.__version__, "scipy": scipy.__version__}
