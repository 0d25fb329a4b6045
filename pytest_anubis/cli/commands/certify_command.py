"""``anubis certify``: measure which benchmarks may run at the same time, and write certificates.

A certificate is about a pair of benchmarks on a hardware class, not about a node; `pytest -n auto` obeys it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import random
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_anubis.cli.shared.arguments import (
    add_json,
    add_output,
    add_profile,
    add_pytest_args,
    add_store,
    explain,
)
from pytest_anubis.cli.shared.command_error import CommandError, of_file
from pytest_anubis.cli.shared.printing import say, write_json
from pytest_anubis.codec import to_plain
from pytest_anubis.core.events import RunTimed
from pytest_anubis.distributed.dispatch.certificates import (
    Certificate,
    CertificateError,
    certify,
    load_certificates,
    merged,
    save_certificates,
)
from pytest_anubis.report.text.numbers import similarity_text
from pytest_anubis.report.text.text_table import table
from pytest_anubis.store.journal.journal_file import journal_path
from pytest_anubis.store.journal.journal_reading import read_journal
from pytest_anubis.store.scratch_folders import ScratchFolder

if TYPE_CHECKING:
    from pytest_anubis.core.run import RunRecord

MIN_ROUNDS = 3
"""Fewest rounds. A pair must overlap in as many, since it may look harmless once by chance."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Measure which benchmarks of the host may run at the same time without harm, and write certificates "
        "that 'pytest -n auto' obeys.",
        "Exit codes: 0 done, also where nothing may overlap; 2 wrong usage or input, or a run that failed.",
    )
    parser.add_argument("tests", nargs="+", metavar="TESTS", help="benchmarks, e.g. suites/")
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="rounds, each one run alone and one together (default: 5); every round brings other "
        "benchmarks together, and pairs that harmed each other stay apart from then on",
    )
    add_profile(parser)
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.95,
        help="similarity (no significance level) that every metric must keep (default: .95)",
    )
    add_output(parser, more="; certificates lie in its folder certificates/")
    add_store(parser)
    add_json(parser, "the pairs that met and what was certified")
    add_pytest_args(parser)


def run(options: argparse.Namespace) -> int:
    """Measure alone and together in turns, judge every pair that met, and write the certificates."""
    if not 0 < options.alpha < 1:
        raise CommandError(f"--alpha {options.alpha:g}: must lie between 0 and 1")
    if options.rounds < MIN_ROUNDS:
        raise CommandError(f"--rounds {options.rounds}: at least {MIN_ROUNDS} are needed")
    for test in options.tests:
        if not Path(test.partition("::")[0]).exists():
            raise CommandError(f"{test}: no such file or folder")
    alone, together = _measure(options)
    found = certify(alone, together, alpha=options.alpha)
    _show(found, alone, together)
    path = _write_certificates(options, found, alone, together)
    if options.json is not None:
        document = {
            "hardware_class": alone[0].hardware_class,
            "file": path and str(path),
            "pairs": to_plain(found),
            "seconds_alone": _median(alone),
            "seconds_together": _median(together),
        }
        write_json(options.json, document)
    return 0


def _write_certificates(
    options: argparse.Namespace,
    found: Sequence[Certificate],
    alone: Sequence[RunRecord],
    together: Sequence[RunRecord],
) -> Path | None:
    """Write the certificates; return None if there are none."""
    if not found:
        say(
            "no pair is certified: each shares a device or a declared resource, overlaps without a "
            "certificate anyway, or met for too short a time"
        )
        return None
    key = alone[0].hardware_class
    origin = {
        "node": alone[0].node,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "rounds": options.rounds,
        "alpha": options.alpha,
        "runs": [record.run for record in (*alone, *together)],
    }
    try:
        pairs = merged(load_certificates(options.output, key), found)
        path = save_certificates(options.output, key, pairs, origin=origin)
    except (CertificateError, OSError) as error:
        raise of_file(error, done="written") from error
    count = sum(one.granted for one in pairs)
    say(f"written: {path}: {count} of {len(pairs)} pairs may overlap under 'pytest -n auto'")
    return path


def _measure(options: argparse.Namespace) -> tuple[list[RunRecord], list[RunRecord]]:
    """Run the set in each round once without certificates, and once with all pairs that are not refused."""
    stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
    alone: list[RunRecord] = []
    together: list[RunRecord] = []
    begin = time.monotonic()
    with ScratchFolder() as folder:
        nothing = folder.path / "alone"
        everything = folder.path / "together"
        for number in range(options.rounds):
            _say_time_left(options.rounds, number, begin)
            name = f"certify-{stamp}-{number + 1:02d}"
            tests = order(alone[0], number) if alone else options.tests
            alone.append(_run(options, tests, nothing, f"{name}-alone"))
            # Refused pairs stay apart from now on; undecided ones come first, so that they meet again.
            found = certify(alone, together, alpha=options.alpha)
            refused = {(c.first, c.second) for c in found if not c.granted and not c.open}
            tests = order(
                alone[0], number, {name for c in found if c.open for name in (c.first, c.second)}
            )
            pairs = [one for one in _every_pair(alone[0]) if (one.first, one.second) not in refused]
            save_certificates(everything, alone[0].hardware_class, pairs)
            together.append(_run(options, tests, everything, f"{name}-together"))
    return alone, together


def _say_time_left(rounds: int, number: int, begin: float) -> None:
    left = (time.monotonic() - begin) / number * (rounds - number) if number else 0.0
    about = f", about {left:.0f} s left" if number else ""
    say(f"round {number + 1} of {rounds}, alone and together{about}", flush=True)


def order(first: RunRecord, number: int, open_ones: Collection[str] = ()) -> list[str]:
    """Return the tests in this round's own order, so that every round brings other pairs together.

    The first run has planned them, and round 0 keeps its order. Benchmarks of open pairs come first.
    """
    plans = list(first.planned)
    if number:
        random.Random(number).shuffle(plans)  # noqa: S311  # an order, not a secret
        plans.sort(key=lambda plan: plan.benchmark not in open_ones)
    return [plan.test for plan in plans]


def _every_pair(record: RunRecord) -> list[Certificate]:
    """Return a certificate for every pair; a shared device or resource still keeps a pair apart."""
    benchmarks = sorted({plan.benchmark for plan in record.planned if plan.benchmark})
    return [
        Certificate(first=first, second=second, granted=True)
        for first, second in itertools.combinations(benchmarks, 2)
    ]


def _run(
    options: argparse.Namespace, tests: Sequence[str], baselines: Path, run_id: str
) -> RunRecord:
    """Run the set once, measuring only."""
    store = Path(options.store).resolve()
    command = [
        *(sys.executable, "-m", "pytest", "--anubis", "--anubis-mode=measure", "-nauto", "-q"),
        *("-p", "no:cacheprovider", f"--anubis-profile={options.profile}"),
        *(f"--anubis-store={store}", f"--anubis-run-id={run_id}"),
        f"--anubis-baseline={baselines}",
        *shlex.split(options.pytest_args),
        *tests,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        say(*tail.splitlines(), file=sys.stderr)
        raise CommandError(
            f"run {run_id} ended with exit code {done.returncode}; nothing is certified by a run that "
            "failed: fix what failed, or leave it out with --pytest-args"
        )
    return read_journal(journal_path(store, run_id))


def _show(
    found: Sequence[Certificate], alone: Sequence[RunRecord], together: Sequence[RunRecord]
) -> None:
    rows = [["benchmark", "together with", "met", "worst metric", "similarity", ""]]
    for one in found:
        names = [name.rpartition("/")[2] for name in (one.first, one.second)]
        word = "may overlap" if one.granted else f"apart: {one.reason}"
        rows.append([*names, str(one.met), one.metric, similarity_text(one.similarity), word])
    if found:
        say(*table(rows).splitlines())
    lone = _median(alone)
    paired = _median(together)
    say(f"alone {lone:.1f} s, with pairs allowed {paired:.1f} s (medians of whole runs)")


def _median(runs: Sequence[RunRecord]) -> float:
    return float(statistics.median(map(wall_of, runs)))


def wall_of(record: RunRecord) -> float:
    """Return the seconds from the first test's start to the last one's end."""
    return next((e.wall for e in record.events if isinstance(e, RunTimed)), 0.0)
