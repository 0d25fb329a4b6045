"""Histories that many write at once, and a server of one that is mute or gone at any step of a run."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

from benchmarks.reliability.chaos.toy_node import Area, Campaign, copy_of, run
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.verdict import Decision, NodeVerdict
from pytest_anubis.store.history.database import History
from pytest_anubis.store.history.run_filing import file_finished
from pytest_anubis.store.history.waiting_runs import waiting
from tests.postgres import new_database, server

WRITERS, EACH = 16, 3
LONG = 150.0
"""Seconds in which a run with a mute server must end: twice 30 s for the history, and the run itself."""


def racing_writers(campaign: Campaign) -> Area:
    """File runs from many processes at once, in a fresh history each round."""
    rounds = campaign.size(20, 1)
    defects: list[str] = []
    waited = tried = 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-race-")))
        url = _server(stack)
        for number in range(rounds):
            for kind in ("sqlite", "postgresql") if url else ("sqlite",):
                place = folder / f"{kind}{number}"
                where = new_database(url, f"race{number}") if kind == "postgresql" else str(place)
                wrong, late = _round(place, where, shared=number % 2 == 1)
                waited, tried = waited + late, tried + WRITERS * EACH
                defects += [f"{number}: {kind}: {line}" for line in wrong]
    note = f"{waited} of {tried} runs had to wait for a later one; PostgreSQL {'' if url else 'not '}there"
    return Area("16 processes file runs at once", tried, defects, (note,))


def _server(stack: contextlib.ExitStack) -> str:
    try:
        return stack.enter_context(server())
    except FileNotFoundError:
        return ""


def _round(store: Path, where: str, *, shared: bool) -> tuple[list[str], int]:
    """Return what is wrong with one round, and how many runs had to be filed later."""
    store.mkdir()
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(WRITERS)
    writers = [
        context.Process(target=_write, args=(store / str(n), where, n, shared, barrier))
        for n in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    late = sum(len(waiting(store / str(n))) for n in range(WRITERS))
    with History(where) as history:
        rows = Counter(
            row.run
            for node in history.nodes()
            for row in history.node_history(node.name, limit=999)
        )
    wanted = {f"r{n}-{i}" for n in range(WRITERS) for i in range(EACH)}
    waits = {one.name for n in range(WRITERS) for one in waiting(store / str(n))}
    wrong = [f"writer {n} ended with {w.exitcode}" for n, w in enumerate(writers) if w.exitcode]
    if lost := wanted - set(rows) - waits:
        wrong.append(f"{len(lost)} runs lost")
    if twice := [run for run, count in rows.items() if count > 1]:
        wrong.append(f"{len(twice)} runs twice")
    return wrong, late


def _write(store: Path, where: str, number: int, shared: bool, barrier: threading.Barrier) -> None:
    barrier.wait()
    for index in range(EACH):
        name = f"r{number}-{index}"
        node = "all" if shared else f"n{number}"
        verdict = NodeVerdict(node=node, decision=Decision.REJECTED, headline="rejected")
        record = RunRecord(
            run=name,
            node=node,
            hardware_class="c",
            started=f"2026-01-01T00:{number:02}:{index:02}+00:00",
            ended=f"2026-01-01T00:{number:02}:{index:02}+00:00",
            purpose="acceptance",
            node_verdict=verdict,
        )
        file_finished(where, store, record, journal=store / "runs" / name / "journal.jsonl")


class _Proxy:
    """Passes on what server and client say, until the server has spoken a number of times; then it fails."""

    def __init__(self, path: str, way: str, after: int) -> None:
        self._path, self._way, self._after = path, way, after
        self.spoken = 0
        self._failed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in self._open:
            with contextlib.suppress(OSError):
                one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            if self._failed.is_set() and self._way != "restarted":
                if self._way == "gone":
                    client.close()
                continue  # mute: accepted, and never answered
            upstream = socket.socket(socket.AF_UNIX)
            upstream.connect(self._path)
            self._open.append(upstream)
            for source, sink, says in ((client, upstream, False), (upstream, client, True)):
                threading.Thread(target=self._pass, args=(source, sink, says), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, says: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.spoken += says
                if says and self.spoken == self._after:
                    self._failed.set()
                    if self._way != "mute":
                        sink.shutdown(socket.SHUT_RDWR)
                        source.shutdown(socket.SHUT_RDWR)
                        return
                if self._failed.is_set() and self._way == "mute":
                    continue
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


def mute_servers(campaign: Campaign) -> Area:
    """Let the server fall silent, go, or start anew after each of its answers."""
    name = "a history's server mute, gone, restarted at a step"
    with contextlib.ExitStack() as stack:
        url = _server(stack)
        if not url:
            return Area(name, 0, [], ("PostgreSQL not found",))
        path = f"{url.split('host=')[-1]}/.s.PGSQL.5432"
        steps = _steps(campaign, url, path)
        cases = [(way, n) for way in ("gone", "restarted") for n in range(1, steps + 1)]
        # Each takes half a minute, twice.
        cases += [("mute", n) for n in range(1, steps + 1, 1 if campaign.count else 4)]
        if campaign.quick:
            cases = [("gone", 3), ("restarted", steps // 2)]
        if campaign.count:
            cases = random.Random(campaign.seed).sample(cases, min(campaign.count, len(cases)))
        attempt = partial(_with_server, campaign, cases, url, path)
        tried, defects = campaign.each("server", len(cases), attempt)
    return Area(name, tried, defects, (f"{steps} answers of the server in a run",))


def _steps(campaign: Campaign, url: str, path: str) -> int:
    proxy = _Proxy(path, "mute", -1)
    folder = copy_of(campaign.template("host"), campaign.place / "steps")
    run(folder, ["-q", _option(new_database(url, "steps"), proxy)])
    proxy.close()
    shutil.rmtree(folder)
    return proxy.spoken


def _option(url: str, proxy: _Proxy) -> str:
    database = url.split("@/")[1].split("?")[0]
    return f"--anubis-history=postgresql+psycopg://anubis@127.0.0.1:{proxy.port}/{database}?sslmode=disable"


def _with_server(
    campaign: Campaign, cases: list[tuple[str, int]], url: str, path: str, number: int, folder: Path
) -> str:
    way, after = cases[number]
    bad = number % 2 == 1
    text = (campaign.template("host") / "test_toy.py").read_text()
    if bad:
        text = text.replace("record(anubis_metric, 'a')", "record(anubis_metric, 'a', 0.8)")
    copy_of(campaign.template("host"), folder, text)
    proxy = _Proxy(path, way, after)
    begin = time.monotonic()
    try:
        ran = run(folder, ["-q", _option(new_database(url, f"s{number}"), proxy)], seconds=LONG)
    finally:
        proxy.close()
    took = time.monotonic() - begin
    wrong = []
    if ran.status != int(bad):
        wrong.append(f"exit status {ran.status} after {took:.0f} s")
    if "Traceback" in ran.said:
        wrong.append("traceback")
    return (
        f"{way} after {after} answers, {'bad' if bad else 'good'} node: {', '.join(wrong)}"
        if wrong
        else ""
    )
