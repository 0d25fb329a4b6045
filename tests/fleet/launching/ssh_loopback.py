"""Real sshd on hosts that are network namespaces, and `anubis fleet run` over them, one of which dies.

    python tests/fleet/launching/ssh_loopback.py

needs root, iproute2 and Debian's ``openssh-server``. Every host has a namespace and an address of its own, a
key of its own and a folder of its own. One is slow, one loses its network in mid-run, one never answers; the
others run on, and each of these is one line. Nothing of the machine's own ssh is touched, and all of it goes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # this checkout's packages

from pytest_anubis.fleet import launching
from tests.fleet.launching.toy_fleet import (
    HEALTHY,
    SLOW,
    Findings,
    ended,
    lacking,
    tried,
    write_fleet,
)

PROGRAMS = ("sshd", "ssh", "ssh-keygen", "ip")
ROOT = str(Path(launching.__file__).parents[3])
_NET = "10.214"
"""Private addresses that the simulated hosts have; a link of two addresses (/30) each."""
_SECONDS = 180.0
"""Seconds for a launch: ssh needs half a minute to know that a host has gone, and ten to give up on one."""


def missing() -> str:
    """Return why this cannot be tried here; empty if it can."""
    return lacking(PROGRAMS, "network namespaces, and sshd in them", "openssh-server, iproute2")


class Hosts:
    """Network namespaces, each with an sshd; all go with it."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self.names = folder, names
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            Path("/run/sshd").mkdir(exist_ok=True)  # where Debian's sshd wants to be
            _key(self.folder / "id")
            known = []
            for number, name in enumerate(self.names, start=1):
                address = self._network(stack, number)
                place = self.folder / name
                place.mkdir()
                _key(place / "host_key")
                kind, key = (place / "host_key.pub").read_text().split()[:2]
                known.append(f"{address} {kind} {key}\n")
                (place / "sshd_config").write_text(
                    f"ListenAddress {address}\nHostKey {place}/host_key\nPidFile {place}/sshd.pid\n"
                    f"AuthorizedKeysFile {self.folder}/id.pub\nStrictModes no\nUsePAM no\n"
                    f"PermitRootLogin prohibit-password\nSetEnv PYTHONPATH={ROOT}\n"
                )
                log = stack.enter_context((place / "sshd.log").open("wb"))
                process = subprocess.Popen(
                    ["ip", "netns", "exec", self._namespace(number),
                     shutil.which("sshd") or "sshd", "-D", "-e", "-f", str(place / "sshd_config")],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
                stack.callback(ended, process)
            (self.folder / "known_hosts").write_text("".join(known))
            (self.folder / "ssh_config").write_text(
                f"Host *\n  User root\n  IdentityFile {self.folder}/id\n  IdentitiesOnly yes\n"
                f"  UserKnownHostsFile {self.folder}/known_hosts\n  StrictHostKeyChecking yes\n"
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def address(self, number: int) -> str:
        """Return the address of a host, counted from 1."""
        return f"{_NET}.{number}.2"

    def cut(self, number: int) -> None:
        """Take a host's network away: its packets go nowhere, as with a machine that lost its power."""
        _ip("link", "set", f"anubis{number}", "down")

    def _namespace(self, number: int) -> str:
        return f"anubis-ssh-{os.getpid()}-{number}"

    def _network(self, stack: ExitStack, number: int) -> str:
        space, link = self._namespace(number), f"anubis{number}"
        _ip("netns", "add", space)
        stack.callback(_ip, "netns", "del", space, may_fail=True)
        stack.callback(_ip, "link", "del", link, may_fail=True)
        stack.callback(_end_all, space)
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("addr", "add", f"{_NET}.{number}.1/30", "dev", link)
        _ip("link", "set", link, "up")
        _ip("-n", space, "addr", "add", f"{self.address(number)}/30", "dev", "eth0")
        for one in ("lo", "eth0"):
            _ip("-n", space, "link", "set", one, "up")
        return self.address(number)


def _ip(*arguments: str, may_fail: bool = False) -> None:
    subprocess.run(["ip", *arguments], check=not may_fail, capture_output=may_fail, timeout=20)


def _end_all(space: str) -> None:
    """End what runs in a namespace: a session lives on when the sshd that made it has gone."""
    done = subprocess.run(
        ["ip", "netns", "pids", space], capture_output=True, text=True, timeout=20, check=False
    )
    for number in done.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(number), signal.SIGKILL)


def _key(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=20
    )


def trial(folder: Path, say: Callable[[str], None], *, dying: bool = True) -> list[str]:
    """Try everything; return what was not as it must be, one line each.

    With `dying` a host loses its network, and one that never answers is named: ssh waits half a minute then.
    """
    wrong = Findings(say)
    expect = wrong.expect
    names = ("n1", "n2", "n3")
    (folder / "hosts").mkdir()
    with Hosts(folder / "hosts", names) as hosts:
        lines = [f"{name} {hosts.address(i)}\n" for i, name in enumerate(names, start=1)]
        lines += [f"n4 {_NET}.99.2  # an address without a host\n"] if dying else []
        (folder / "hosts.txt").write_text("".join(lines))
        speeds = {"n1": HEALTHY, "n2": SLOW, "n3": HEALTHY}
        work = folder / "work"
        # Long enough to be cut in its middle.
        write_fleet(work, speeds, seconds=8.0 if dying else 0.0)
        cutter = threading.Timer(5.0, hosts.cut, (3,))
        if dying:
            cutter.start()
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest_anubis", "fleet", "run", f"--hosts={folder / 'hosts.txt'}",
             f"--chdir={work}", f"--python={sys.executable}", "--timeout=2m", f"-o{folder / 'results'}",
             f"--ssh-config={folder / 'hosts' / 'ssh_config'}", "--", "test_suite.py"],
            capture_output=True, text=True, timeout=_SECONDS, check=False,
            env={**os.environ, "PYTHONPATH": ROOT},
        )  # fmt: skip
        took = time.monotonic() - begun
        if dying:
            cutter.join()
        printed = done.stdout.splitlines()
        for line in (*printed, *done.stderr.splitlines()):
            say(f"      | {line}")
        code = done.returncode
        expect("the exit code of a fleet with a rejected node", code == 1, str(code))
        arrived = (folder / "results").glob("runs/*/journal.jsonl")
        journals = sorted(path.parent.name[-2:] for path in arrived)
        ran = ["n1", "n2"] if dying else list(names)
        expect("the journals of those that ran are here", journals == ran, ", ".join(journals))
        for name in ("n3", "n4") if dying else ():
            lines = [line for line in printed if f"of 4  {name}: ssh: " in line]
            seen = lines[0] if lines else "none"
            expect(f"one line for {name}, which is gone", len(lines) == 1, seen)
        counts = next((line for line in printed if " nodes: " in line), "")
        left = "4 nodes: 1 REJECTED, 2 UNDECIDED, 1 ACCEPTED"
        wanted = left if dying else "3 nodes: 1 REJECTED, 0 UNDECIDED, 2 ACCEPTED"
        expect("the fleet's verdict", counts == wanted, counts)
        expect("no traceback", "Traceback" not in done.stdout + done.stderr, f"{took:.0f} s in all")
    return wrong


def stay(folder: Path) -> None:
    """Start the hosts with a toy suite, say what to type, and wait for Ctrl-C."""
    names = ("n1", "n2", "n3")
    (folder / "hosts").mkdir()
    with Hosts(folder / "hosts", names) as hosts:
        lines = [f"{name} {hosts.address(i)}\n" for i, name in enumerate(names, start=1)]
        (folder / "hosts.txt").write_text("".join(lines))
        write_fleet(folder / "work", {"n1": HEALTHY, "n2": SLOW, "n3": HEALTHY})
        print(f"export PYTHONPATH={ROOT}")
        print(
            f"anubis fleet run --hosts {folder}/hosts.txt --ssh-config {folder}/hosts/ssh_config "
            f"--chdir {folder}/work --python {sys.executable} -- test_suite.py"
        )
        print("hosts n1, n2, n3 are up; Ctrl-C ends them", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    sys.exit(tried(__doc__, missing=missing, trial=trial, stay=stay))
