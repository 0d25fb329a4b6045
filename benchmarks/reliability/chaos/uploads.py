"""Fifty nodes that upload their runs while the server is stopped and restarted, and the network is cut.

Every node writes journals and pushes them until the history says that it has them; some stores are pushed by
two processes at once. Afterwards every event of every journal must be in the database exactly once, byte for
byte.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import re
import socket
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.reliability.chaos.toy_node import Area, Campaign
from pytest_anubis.core.events import Judged, Measured, NodeDecided, RunFinished, RunStarted
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Decision, MetricVerdict, NodeVerdict, Outcome, Reason
from pytest_anubis.store.fleet.pushing import push
from pytest_anubis.store.history import tables as schema
from pytest_anubis.store.history.contents.content_rows import read_content
from pytest_anubis.store.history.database import History, HistoryError
from pytest_anubis.store.journal.journal_file import Journal
from tests.postgres import new_database, restart, server

NODES, EACH, TWICE = 50, 6, 10
"""Uploading processes, runs of each store, and how many processes push the store of another one too."""
METRICS = 12
"""Of each run; with its verdicts about 30 events."""
LONG = 240.0
"""Seconds after the last fault in which all must be there: a push waits 30 s for a silent server, twice."""
FAULTS = ("stopped", "killed", "cut", "silent")


class Line:
    """The network between the nodes and the server: it can be cut, or fall silent."""

    def __init__(self, path: str) -> None:
        self._path, self.state = path, "open"
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection, and let none through."""
        self.state = "cut"
        with self._lock:
            broken, self._open = self._open, []
        for one in broken:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.socket(socket.AF_UNIX)
            try:
                if self.state == "cut":
                    raise OSError
                upstream.connect(self._path)
            except OSError:  # the server is away too
                client.close()
                upstream.close()
                continue
            with self._lock:
                self._open += [client, upstream]
            for source, sink in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                while self.state == "silent":
                    time.sleep(0.05)
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def uploads(campaign: Campaign) -> Area:
    """Let all nodes upload, and the server and the network fail meanwhile."""
    name = f"{NODES} nodes upload while the server stops, dies, and the network is cut"
    count = 3 if campaign.quick else campaign.count or 12
    draw = random.Random(campaign.seed)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-uploads-")))
        try:
            url = stack.enter_context(server())
        except FileNotFoundError:
            return Area(name, 0, [], ("PostgreSQL not found",))
        url = new_database(url, "uploads")
        socket_folder = Path(url.split("host=")[-1])
        line = Line(f"{socket_folder}/.s.PGSQL.5432")
        stack.callback(line.close)
        stores = [folder / f"n{number}" for number in range(NODES - TWICE)]
        for store in stores:
            write_runs(store, store.name, EACH)
        own = f"postgresql+psycopg://anubis@127.0.0.1:{line.port}/uploads?sslmode=disable"
        context = multiprocessing.get_context("fork")
        tries: Any = context.Queue()
        stop = context.Event()
        pushers = [
            context.Process(target=_upload, args=(stores[number % len(stores)], own, stop, tries))
            for number in range(NODES)
        ]
        for one in pushers:
            one.start()
        done: Counter[str] = Counter()
        for number in range(count):
            fault = FAULTS[number % len(FAULTS)] if number < len(FAULTS) else draw.choice(FAULTS)
            time.sleep(draw.uniform(0.2, 1.5))
            _fail(fault, line, socket_folder, draw.uniform(0.3, 3.0))
            done[fault] += 1
        stop.set()
        until = time.monotonic() + LONG
        ends = [tries.get(timeout=max(1.0, until - time.monotonic())) for _ in pushers]
        for one in pushers:
            one.join()
        defects = wrong_in(url, stores)
        lines = sum(_lines(path) for store in stores for path in store.rglob("journal.jsonl"))
    said_all = sum((found for _, found in ends), Counter[str]())
    said = (
        f"{len(stores) * EACH} runs of {lines} events, pushed by {NODES} processes in "
        f"{sum(n for n, _ in ends)} calls; faults: "
        + ", ".join(f"{word} {times}" for word, times in done.items())
        + "; calls ended with: "
        + ", ".join(f"{word} {times}" for word, times in said_all.most_common(8))
    )
    return Area(name, len(stores) * EACH, defects, (said,))


def write_runs(
    store: Path, node: str, count: int, metrics: int = METRICS, values: int = 50
) -> None:
    """Write journals of a node, as runs of its own would have."""
    draw = random.Random(node)
    for number in range(count):
        began = f"2026-01-{number % 28 + 1:02}T00:00:00+00:00"
        with Journal.create(store, f"{node}-r{number}") as journal:
            journal.write(
                RunStarted(run=f"{node}-r{number}", node=node, started=began, hardware_class="c1")
            )
            for index in range(metrics):
                benchmark, name = f"suites/test_{index}.py::test_it", f"rate_{index}"
                found = tuple(100 * draw.lognormvariate(0, 0.01) for _ in range(values))
                journal.write(
                    Measured(
                        measurement=Measurement(
                            test=benchmark, benchmark=benchmark, component="network",
                            metric=Metric(name=name, unit="GB/s", better="higher"),
                            device="cpu", values=found,
                        )
                    )
                )  # fmt: skip
                verdict = MetricVerdict(
                    outcome=Outcome.PASS, reason=Reason.WITHIN, text="as usual", test=benchmark,
                    benchmark=benchmark, metric=name, component="network", device="cpu",
                    similarity=0.99, value=100.0, expected=100.0, threshold=0.95,
                )  # fmt: skip
                journal.write(Judged(verdict=verdict))
            decided = NodeVerdict(node=node, decision=Decision.ACCEPTED, headline="accepted")
            journal.write(NodeDecided(verdict=decided))
            journal.write(RunFinished(exit_status=0, ended=began))


def _upload(store: Path, url: str, stop: Any, tries: Any) -> None:
    """Push one run after another, then all, until the history has them all."""
    calls, failed = 0, Counter[str]()
    for journal in sorted((store / "runs").iterdir()):
        calls += 1
        failed[_kind(push([journal], url).stopped)] += 1
        time.sleep(random.uniform(0, 0.5))
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        calls += 1
        pushed = push([store], url)
        failed[_kind(pushed.stopped)] += 1
        if not pushed.stopped and pushed.known == EACH and stop.is_set():
            break
        time.sleep(random.uniform(0.2, 1.0))
    tries.put((calls, failed))


def _kind(stopped: str) -> str:
    """Return why a call failed in a few words, without what differs from call to call."""
    text = stopped.partition("sslmode=disable: ")[2]
    return re.sub(r"[0-9]+", "N", text)[:60] or stopped[:60] or "well"


def _fail(fault: str, line: Line, folder: Path, seconds: float) -> None:
    """Let one thing go wrong for a while, and mend it."""
    if fault in ("cut", "silent"):
        if fault == "cut":
            line.cut()
        line.state = fault
        time.sleep(seconds)
        line.state = "open"
        return
    restart(folder, mode="fast" if fault == "stopped" else "immediate", pause=seconds)


def wrong_in(url: str, stores: list[Path]) -> list[str]:
    """Return what is lost, doubled or changed of the journals of all stores."""
    wrong: list[str] = []
    journals = {path.parent.name: path for store in stores for path in store.rglob("journal.jsonl")}
    runs, parts, contents = schema.runs, schema.content_parts, schema.contents
    with History(url) as history:
        with history.reading() as connection:
            found = Counter(connection.execute(sa.select(runs.c.run)).scalars())
            rows = connection.execute(sa.select(runs.c.run, runs.c.id)).all()
            numbers = {row.run: row.id for row in rows}
            events = connection.execute(sa.select(sa.func.sum(parts.c.events))).scalar() or 0
            kept = connection.execute(sa.select(sa.func.count()).select_from(contents)).scalar()
            verdicts = connection.execute(
                sa.select(sa.func.count()).select_from(schema.verdicts)
            ).scalar()
        if lost := journals.keys() - found.keys():
            wrong.append(f"{len(lost)} runs lost, e.g. {min(lost)}")
        if twice := [name for name, times in found.items() if times > 1]:
            wrong.append(f"{len(twice)} runs twice, e.g. {min(twice)}")
        expected = sum(map(_lines, journals.values()))
        if (events, kept) != (expected, len(journals)):
            wrong.append(f"{events} events of {kept} runs, expected {expected} of {len(journals)}")
        if verdicts != METRICS * len(journals):
            wrong.append(f"{verdicts} verdicts, expected {METRICS * len(journals)}")
        for name, path in journals.items():
            if name in numbers:
                try:
                    same = b"".join(read_content(history, numbers[name])) == path.read_bytes()
                except HistoryError as error:
                    wrong.append(f"{name}: {error}")
                else:
                    wrong += [] if same else [f"{name}: another journal than that of the node"]
    return wrong


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")
