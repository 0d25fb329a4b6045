"""A real Slurm on one machine, started in a folder of its own: several slurmd, and the project's own recipes.

    python tests/fleet/launching/slurm_single.py

needs root and Debian's ``slurm-wlm`` and ``munge``, and prints what it saw: pairs of nodes that found each
other by Slurm's variables alone, three hosts' journals, the fleet's verdict, the answers of the health check,
and that a node is drained only where that was asked for. It touches nothing of a Slurm that the machine may
have: its own munge key, socket, ports and folders, all of which go.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

from pytest_anubis.fleet import launching
from pytest_anubis.store.journal.journal_reading import read_journal
from tests.fleet.launching.toy_fleet import (
    HEALTHY,
    QUIET,
    SLOW,
    Findings,
    ended,
    lacking,
    tried,
    write_fleet,
)

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo")
NODES = ("n1", "n2", "n3")
RECIPES = Path(launching.__file__).parent / "recipes" / "slurm"
ROOT = str(Path(launching.__file__).parents[3])
"""Of the package that is tried, for processes that start with an empty environment."""

_SECONDS = 180.0
"""Seconds for anything here: a job of a toy test takes some three, the pairs some forty on two busy cores."""
_TICK = 0.3  # seconds between two looks

_CONF = """
ClusterName=anubis-toy
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdParameters=config_overrides
HealthCheckProgram={folder}/healthcheck.sh
HealthCheckInterval=2
HealthCheckNodeState=ANY
Prolog={folder}/prolog.sh
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing() -> str:
    """Return why no Slurm can be started here; empty if one can."""
    return lacking(PROGRAMS, "slurmd starts jobs as their users", "slurm-wlm, munge")


class Cluster:
    """Munge, slurmctld and one slurmd a node, in the foreground and in one folder; all end with it."""

    def __init__(self, folder: Path, nodes: Sequence[str] = NODES) -> None:
        self.folder, self._nodes = folder, nodes
        self._stack = ExitStack()
        self.environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._kill_steps)
            self._stack = stack
            self._configure()
            for name in ("munged", "slurmctld"):
                self._start(name, *self._arguments(name))
                if name == "munged":
                    waited(lambda: (self.folder / "munge.sock").exists(), "munged's socket")
            conf = str(self.folder / "slurm.conf")
            for node in self._nodes:
                self._start("slurmd", "-D", "-N", node, "-f", conf, log=f"slurmd-{node}")
            wanted = str(len(self._nodes))
            waited(
                lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == wanted, "nodes"
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(
        self, *command: str, codes: tuple[int, ...] = (0,), environ: Mapping[str, str] | None = None
    ) -> str:
        """Return what a command of Slurm prints."""
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False,
            env={**self.environ, **(environ or {})}, cwd=self.folder,
        )  # fmt: skip
        if done.returncode not in codes:
            raise RuntimeError(f"{command}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def reason(self, node: str) -> str:
        """Return a node's drain reason; empty while it is not drained."""
        said = self.run("sinfo", "-h", "-N", "-n", node, "-o", "%t|%E").strip()
        state, _, reason = said.partition("|")
        return reason if state.rstrip("*").startswith("dr") else ""

    def settings(self, **values: str) -> None:
        """Write what healthcheck.sh and prolog.sh read; slurmd hands them no environment."""
        given = {"SLURM_CONF": self.environ["SLURM_CONF"], "PYTHONPATH": ROOT, **values}
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in given.items()]
        (self.folder / "launch.conf").write_text("".join(lines))

    def _configure(self) -> None:
        for name in ("state", *(f"spool-{node}" for node in self._nodes)):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        for name in ("healthcheck.sh", "prolog.sh", "anubis.sbatch"):
            text = (RECIPES / name).read_text()
            # The one thing that a site sets by putting its file at the usual place.
            text = text.replace("/etc/anubis/launch.conf", str(self.folder / "launch.conf"))
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        host = socket.gethostname()
        ports = free_ports(len(self._nodes) + 1)
        conf = _CONF.format(host=host, port=ports[0], folder=self.folder)
        for node, port in zip(self._nodes, ports[1:], strict=True):
            conf += f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2\n"
        (self.folder / "slurm.conf").write_text(conf)

    def _arguments(self, name: str) -> list[str]:
        if name == "slurmctld":
            return ["-D", "-i", "-f", str(self.folder / "slurm.conf")]
        files = {f"{kind}-file": f"munge.{kind}" for kind in ("key", "pid", "log", "seed")}
        given = {**files, "socket": "munge.sock"}.items()
        return [
            "--foreground",
            "--force",
            *(f"--{one}={self.folder / file}" for one, file in given),
        ]

    def _start(self, *command: str, log: str = "") -> None:
        out = self._stack.enter_context((self.folder / f"{log or command[0]}.out").open("wb"))
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=self.environ,
            cwd=self.folder,
        )
        self._stack.callback(ended, process)

    def _kill_steps(self) -> None:
        """End what the daemons left: a step of a job lives on when its slurmd has gone."""
        mark = f"SLURM_CONF={self.folder}".encode()
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (place / "environ").read_bytes() and int(place.name) != os.getpid():
                    os.kill(int(place.name), 9)
            except (OSError, ValueError):
                continue


def free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def waited(there: Callable[[], bool], what: str) -> None:
    """Wait until something is so.

    Raises:
        RuntimeError: It never is.
    """
    until = time.monotonic() + _SECONDS
    while not there():
        if time.monotonic() > until:
            raise RuntimeError(f"{what}: not within {_SECONDS:.0f} s")
        time.sleep(_TICK)


def trial(folder: Path, say: Callable[[str], None]) -> list[str]:
    """Try everything; return what was not as it must be, one line each."""
    wrong = Findings(say)
    expect = wrong.expect
    suites, results, log = folder / "suites", folder / "results", folder / "health.log"
    write_fleet(suites, {"n1": HEALTHY, "n2": HEALTHY, "n3": SLOW})
    results.mkdir()
    (folder / "slurm").mkdir()
    given = {
        "ANUBIS_SUITES": str(suites),
        "ANUBIS_RESULTS": str(results),
        "ANUBIS_PYTHON": sys.executable,
    }
    health = {
        "ANUBIS_RESULTS": str(results),
        "ANUBIS_PYTHON": sys.executable,
        "ANUBIS_LOG": str(log),
    }
    with Cluster(folder / "slurm") as cluster:
        cluster.settings(**health)
        tried_pairs(cluster, folder, expect)
        out = folder / "job.out"
        cluster.run(
            "sbatch", "--nodes=3", "--wait", f"--output={out}", "anubis.sbatch", "test_suite.py",
            codes=(1,), environ={**given, "PYTHONPATH": ROOT},
        )  # fmt: skip
        journals = sorted(path.parts[-4] for path in results.glob("n?/runs/*/journal.jsonl"))
        expect("a journal of each host", journals == list(NODES), ", ".join(journals))
        every = out.read_text().strip().splitlines()
        said = [line for line in every if not line.startswith("srun: ")] or [""]
        expect(
            "the worst node first", said[0].startswith("REJECTED") and " n3:" in said[0], said[0]
        )
        counts = next((line for line in said if line.startswith("3 nodes:")), "")
        expect(
            "the fleet's verdict", counts == "3 nodes: 1 REJECTED, 0 UNDECIDED, 2 ACCEPTED", counts
        )

        def answer(node: str, code: str) -> str:
            lines = log.read_text().splitlines() if log.exists() else []
            return next(
                (line for line in reversed(lines) if line.startswith(f"{node}: ANB:{code}")), ""
            )

        waited(lambda: bool(answer("n3", "SPEED") and answer("n1", "ACCEPTED")), "health checks")
        expect(
            "the health check's answers",
            True,
            f"{answer('n1', 'ACCEPTED')}; {answer('n3', 'SPEED')}",
        )
        time.sleep(10 * _TICK)
        reasons = {node: cluster.reason(node) for node in NODES}
        expect("nothing drained without being asked", not any(reasons.values()), str(reasons))
        cluster.settings(**health, ANUBIS_ACT="drain-resume")
        waited(lambda: bool(cluster.reason("n3")), "n3 drained")
        reasons = {node: cluster.reason(node) for node in NODES}
        ours = reasons["n3"].startswith("ANB:SPEED ") and not reasons["n1"] and not reasons["n2"]
        expect("the sick node drained with its reason", ours, str(reasons))
        cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=bad DIMM, ask Kim")
        time.sleep(10 * _TICK)
        left = cluster.reason("n1")
        expect("another's reason left alone", left == "bad DIMM, ask Kim", left)
    return wrong


def tried_pairs(cluster: Cluster, folder: Path, expect: Callable[[str, bool, str], None]) -> None:
    """Run the pairs' benchmark in a step of Slurm; the nodes find each other by Slurm's variables alone."""
    place, suite = folder / "pairs", folder / "pairs-suite"
    place.mkdir()
    suite.mkdir()
    for name in ("__init__.py", "test_pairs.py"):
        shutil.copy(Path(ROOT) / "suites" / "network" / name, suite / name)
    (suite / "pytest.ini").write_text(QUIET)
    bare = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    options = [
        f"--nodes={len(NODES)}",
        "--ntasks-per-node=1",
        f"--chdir={suite}",
        f"--output={place}/%t.log",
    ]
    program = (
        '"$0" -m pytest --anubis --anubis-profile=standard "--anubis-store=$1/$SLURMD_NODENAME" .'
    )
    cluster.run(
        "srun", *options, "bash", "-c", f"unset {' '.join(bare)}; exec {program}", sys.executable, str(place),
        codes=(0, 1, 20), environ={"PYTHONPATH": ROOT},
    )  # fmt: skip
    sent = {
        node: sorted(
            one.device
            for path in place.glob(f"{node}/runs/*/journal.jsonl")
            for one in read_journal(path).measurements
        )
        for node in NODES
    }
    wanted = {node: [f"{node} -> {other}" for other in NODES if other != node] for node in NODES}
    seen = "; ".join(f"{node}: {len(ways)} ways" for node, ways in sent.items())
    expect("each node's journal has the ways that it sends", sent == wanted, seen)


def stay(folder: Path) -> None:
    """Start the cluster with a toy suite, say what to type, and wait for Ctrl-C."""
    write_fleet(folder / "suites", {"n1": HEALTHY, "n2": HEALTHY, "n3": SLOW})
    (folder / "results").mkdir()
    (folder / "slurm").mkdir()
    with Cluster(folder / "slurm") as cluster:
        given = {"ANUBIS_RESULTS": str(folder / "results"), "ANUBIS_PYTHON": sys.executable}
        cluster.settings(**given)
        given |= {"ANUBIS_SUITES": str(folder / "suites"), "PYTHONPATH": ROOT}
        for name, value in {**given, "SLURM_CONF": cluster.environ["SLURM_CONF"]}.items():
            print(f"export {name}={shlex.quote(value)}")
        print(
            f"cd {folder} && sbatch --nodes=3 --wait slurm/anubis.sbatch test_suite.py; cat anubis-*.out"
        )
        print("nodes n1, n2, n3 are up; Ctrl-C ends them", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    sys.exit(tried(__doc__, missing=missing, trial=trial, stay=stay))
