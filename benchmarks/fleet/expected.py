"""First nodes of their kind, without a baseline, whose links are all at half of what they could deliver.

Eight cards of a recorded node, whose copies are played at a share of what their PCIe links carry; and eight
simulated hosts with real sockets between them, whose ports have a share of the recorded inventory's speed.
Each trial is a session of pytest with the defaults. A node at half has to be MARGINAL with the sentence, exit
status 20; a healthy one, at 82 to 95 %, is not to be MARGINAL. Printed are, for each kind, how many trials
ended so, and an example of the sentence. The times of gloo's operations on four simulated hosts are printed,
too, as measured over expected: all but all-reduce send more than they must.

Run: ``python benchmarks/fleet/expected.py [--trials 20] [--only cards hosts times]`` (hosts and times: root,
iproute2).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks import ROOT
from pytest_anubis.benchmarking.hosts.simulated_hosts import simulated_hosts
from pytest_anubis.benchmarking.models.collective_times import Tier, collective_seconds
from pytest_anubis.benchmarking.ranks import Ranks
from pytest_anubis.benchmarking.shaped_link import INTERFACE, NotPossible
from pytest_anubis.core.verdict import Outcome, Reason
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.places import RECORDED
from tests.quiet import QUIET

HALF, HEALTHY = (0.42, 0.48), (0.82, 0.95)
"""Shares of the nominal rate, headers included: half of a link, and all of it."""
NEAR = (0.85, 1.15)
"""Wanted times of all-reduces over those expected."""
PORT = 25e6  # bytes per second of a port of the recorded inventory
HOSTS = 8
WORLD, SIZE = 4, 4 << 20
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")

CARDS = """
import random, pytest

@pytest.mark.anubis(component="memory.transfer", scope="device", action="reseat the card")
def test_copy(anubis_metric, anubis_device):
    best = anubis_device.nominal("pcie")
    chance = random.Random(f"SEED {anubis_device.name}")
    values = [SHARE * best.value / 1e9 * chance.gauss(1, .005) for _ in range(20)]
    anubis_metric.record("rate", values, unit="GB/s", better="higher", nominal=best)
"""
PAIRS = """
import pytest
from pytest_anubis.benchmarking.hosts.simulated_hosts import simulated_hosts

@pytest.fixture
def anubis_hosts():
    with simulated_hosts(COUNT, rate=RATE) as hosts:
        yield hosts

@pytest.mark.anubis(component="network.pairs", metrics=["pair_rate"], action="look at the ports")
def test_pairs(anubis_pairs):
    anubis_pairs.measure(seconds=.05, repeats=3)
"""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a session ended.

    Attributes:
        status: Its exit status.
        low: The sentences about what is below its nominal rate.
        shown: The terminal has them.
        failed: What was rejected.
    """

    status: int
    low: tuple[str, ...]
    shown: bool
    failed: tuple[str, ...]

    @property
    def said(self) -> bool:
        """Whether it is as it has to be for a node at half."""
        return self.status == 20 and bool(self.low) and self.shown

    @property
    def silent(self) -> bool:
        """Whether it is as it has to be for a healthy node."""
        return self.status == 20 and not self.low


def session(suite: str, inventory: dict[str, object]) -> Ending:
    """Run a suite on a node of this inventory."""
    with tempfile.TemporaryDirectory(prefix="anubis-expected-") as folder:
        place = Path(folder)
        (place / "pytest.ini").write_text("[pytest]\n")
        (place / "conftest.py").write_text(QUIET)
        (place / "test_it.py").write_text(suite)
        (place / "node.json").write_text(json.dumps(inventory))
        command = [sys.executable, "-m", "pytest", "--anubis", "-p", "no:cacheprovider"]
        command += ["--anubis-inventory=node.json", "--anubis-gate=off", "--anubis-run-id=it"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        record = read_journal(place / ".anubis/runs/it")
    low = tuple(one.text for one in record.verdicts if one.reason is Reason.BELOW_NOMINAL)
    failed = tuple(one.text for one in record.verdicts if one.outcome is Outcome.FAIL)
    return Ending(status=done.returncode, low=low, shown=" of what " in done.stdout, failed=failed)


def cards(share: float, seed: int) -> Ending:
    """Play eight cards at a share of their links."""
    suite = CARDS.replace("SHARE", repr(share)).replace("SEED", str(seed))
    return session(suite, json.loads(RECORDED.read_text()))


def hosts(share: float, _seed: int) -> Ending:
    """Measure eight hosts whose ports have a share of the recorded speed."""
    recorded = json.loads(RECORDED.read_text())
    port = {"name": INTERFACE, "speed": PORT * 8 / 1e9, "state": "up"}
    recorded["inventory"] |= {"nics": [port], "accelerators": []}
    suite = PAIRS.replace("RATE", repr(share * PORT)).replace("COUNT", str(HOSTS))
    return session(suite, recorded)


def times(trials: int) -> bool:
    """Print gloo's times at hidden rates over those expected; return whether all-reduce's are near."""
    chance, near = random.Random(13), False
    with simulated_hosts(WORLD, rate=PORT) as network:
        within = [network.command(host) for host in range(WORLD)]
        names = {"GLOO_SOCKET_IFNAME": network.interface}
        with Ranks("suites.collective.rank", WORLD, environment=names, within=within) as ranks:
            ranks.join()
            for operation in OPERATIONS:
                ranks.ask_all("prepare_exchange", operation=operation, bytes=SIZE)
                found = []
                for _ in range(trials):
                    rate = chance.uniform(8e6, 40e6)
                    for host in range(WORLD):
                        network.shape(host, send=rate, receive=rate)
                    answers = ranks.ask_all("exchange", times=1)
                    tier = Tier(ranks=WORLD, topology="switch", bandwidth=rate)
                    expected = collective_seconds(operation, SIZE, [tier])
                    found.append(max(one["seconds"] for one in answers) / expected)
                low, high = min(found), max(found)
                print(f"{operation}: measured over expected {low:.2f} to {high:.2f}", flush=True)
                if operation == "all_reduce":  # the others send more than they must
                    near = low >= NEAR[0] and high <= NEAR[1]
    return near


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the trials and print how they ended; return 1 if one ended otherwise, 2 if none can be played."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds: dict[str, Callable[[float, int], Ending]] = {"cards": cards, "hosts": hosts}
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=[*kinds, "times"], default=[*kinds, "times"])
    given = parser.parse_args(arguments)
    missed = False
    chance = random.Random(1)
    try:
        if set(given.only) - {"cards"}:
            with simulated_hosts(1):  # without them each session would only skip its test
                pass
        for name, play in kinds.items():
            if name not in given.only:
                continue
            seeds = range(given.trials)
            low = [play(chance.uniform(*HALF), seed) for seed in seeds]
            high = [play(chance.uniform(*HEALTHY), seed) for seed in seeds]
            said, silent = sum(one.said for one in low), sum(one.silent for one in high)
            print(f"eight {name} at half: MARGINAL, exit 20, in {said} of {given.trials}")
            print(f"eight {name}, healthy: left alone in {silent} of {given.trials}")
            missed |= min(said, silent) < given.trials
            accepted = sum(one.status == 0 for one in (*low, *high))
            print(f"eight {name}: accepted {accepted} times", flush=True)
            sentences = [one for ending in low for one in ending.low]
            print(f"  {sentences[0] if sentences else 'no sentence'}", flush=True)
            for one in (*(e for e in low if not e.said), *(e for e in high if not e.silent)):
                print(f"  otherwise: exit {one.status}; {'; '.join((*one.failed, *one.low))}")
        if "times" in given.only:
            missed |= not times(given.trials)
    except NotPossible as why:
        print(f"not measured: {why}", file=sys.stderr)
        return 2
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
