"""Faults of a node, or of its tests, as texts of test bodies.

``NAME`` is replaced by the test's own name. A fault of a benchmark must never be accepted; a fault of a plain
check only if its user has left the check out, or expects it to fail.
"""

from __future__ import annotations

from dataclasses import dataclass

SLOW = "record(anubis_metric, 'NAME', 0.8)"
GOOD = "record(anubis_metric, 'NAME')"


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        body: Lines of the test.
        top: Lines before the tests.
        options: Options that belong to it.
        fixture: A fixture that the test uses, defined in `top`.
    """

    body: str
    top: str = ""
    options: tuple[str, ...] = ()
    fixture: str = ""

    @property
    def marks(self) -> str:
        """Return the mark that asks for the fixture, if there is one."""
        return f"@pytest.mark.usefixtures('{self.fixture}')\n" if self.fixture else ""


_BAD_SETUP = "@pytest.fixture\ndef odd():\n    raise RuntimeError('cannot be set up')\n"
_BAD_TEARDOWN = "@pytest.fixture\ndef odd():\n    yield\n    raise RuntimeError('left broken')\n"

# Never the campaign itself, if it is the direct parent.
_TO_PARENT = (
    "if os.environ.get('CHAOS') != str(os.getppid()):\n"
    "    os.kill(os.getppid(), signal.{})\ntime.sleep(0.2)"
)

VALUES = {
    "20 % slower": SLOW,
    "50 % slower": "record(anubis_metric, 'NAME', 0.5)",
    "every other value halved": (
        "anubis_metric.record('NAME', [100.0, 50.0] * 15, unit='GB/s', better='higher')"
    ),
    "NaN": "record(anubis_metric, 'NAME', float('nan'))",
    "one NaN": (
        "anubis_metric.record('NAME', VALUES + [float('nan')], unit='GB/s', better='higher')"
    ),
    "infinite": "record(anubis_metric, 'NAME', float('inf'))",
    "zero": "record(anubis_metric, 'NAME', 0)",
    "negative": "record(anubis_metric, 'NAME', -1)",
    "no values": "anubis_metric.record('NAME', [], unit='GB/s', better='higher')",
    "another unit": "record(anubis_metric, 'NAME', unit='MB/s')",
    "another direction": "record(anubis_metric, 'NAME', better='lower')",
    "another name": "record(anubis_metric, 'NAMENAME')",
    "nothing recorded": "pass",
    "early return": "return\n" + SLOW,
    "slow, then good": f"{SLOW}\n{GOOD}",
    "good, then slow": f"{GOOD}\n{SLOW}",
}
"""What a benchmark may measure on a bad node."""

RAISED = {
    "assertion": "assert 1 == 2",
    "undecodable message": "assert False, 'go\\udcffd'",
    "numpy property": "import numpy\nrequest.node.user_properties.append(('x', numpy.float64(3)))\n"
    "assert False",
    "SystemExit(0)": "raise SystemExit(0)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "pytest.exit with 0": "pytest.exit('enough', returncode=0)",
    "recursion": "def again(): again()\nagain()",
    "memory": "raise MemoryError",
    "class of its own": "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd",
    "exception group": "raise ExceptionGroup('two', [ValueError(1), KeyError(2)])",
    "GeneratorExit": "raise GeneratorExit",
    "failing subtest": "with request.getfixturevalue('subtests').test('part'):\n    assert False",
    "large message": "assert False, 'x' * 3_000_000",
    "null and escapes": "assert False, '\\x00\\x1b[2J\\x1b[32mACCEPTED: node vm accepted'",
}
"""How a test may fail."""

ENDED = {
    "os._exit(0)": "os._exit(0)",
    "os._exit(1)": "os._exit(1)",
    "os._exit(5)": "os._exit(5)",
    "C exit(0)": "ctypes.CDLL(None).exit(0)",
    "C quick_exit(0)": "ctypes.CDLL(None).quick_exit(0)",
    "execv true": "os.execv(shutil.which('true'), ['true'])",
    "abort": "os.abort()",
    "segmentation fault": "ctypes.string_at(0)",
    "SIGKILL to itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "SIGTERM to itself": "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(0.2)",
    "SIGINT to itself": "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.2)",
    "SIGKILL to its parent": _TO_PARENT.format("SIGKILL"),
    "SIGTERM to its parent": _TO_PARENT.format("SIGTERM"),
    "SIGINT to its parent": _TO_PARENT.format("SIGINT"),
    "thread exits with 0": "threading.Timer(0.05, os._exit, (0,)).start()\ntime.sleep(0.3)",
    "all descriptors closed": "os.closerange(0, 64)\nassert False",
    "hang": "time.sleep(60)",
}
"""How a test may end its process."""

LEFT = {
    "exit at the end with 0": "atexit.register(os._exit, 0)",
    "late thread exits with 0": "threading.Timer(0.6, os._exit, (0,)).start()",
    "child left": "subprocess.Popen(['sleep', '3'])",
    "copy of the process": "os.fork()",
    "standard streams closed": "sys.stdout.close(); sys.stderr.close()",
    "standard descriptors closed": "os.close(1); os.close(2)",
    "store removed": "shutil.rmtree('.anubis', ignore_errors=True)",
    "baselines removed": "shutil.rmtree('baselines', ignore_errors=True)",
    "journal emptied": "for path in __import__('pathlib').Path('.').rglob('journal.jsonl'):\n"
    "    path.write_bytes(b'')",
    "journal cut": "for path in __import__('pathlib').Path('.').rglob('journal.jsonl'):\n"
    "    os.truncate(path, path.stat().st_size * 2 // 3)",
    "folder left": "os.chdir('/')",
    "environment emptied": "os.environ.clear()",
    "signals ignored": "for number in (1, 2, 3, 15, 17): signal.signal(number, signal.SIG_IGN)",
    "files limited": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
    "warning": "warnings.warn('odd', UserWarning)",
}
"""What a test may do to its process and folder before it measures slowly (or fails)."""


def metric_faults() -> dict[str, Fault]:
    """Return the faults of a benchmark by name."""
    found = {name: Fault(body) for name, body in VALUES.items()}
    for name, body in RAISED.items():
        found[f"good, then {name}"] = Fault(f"{GOOD}\n{body}")
        found[f"{name}, nothing recorded"] = Fault(body)
    for name, body in ENDED.items():
        options = ("--anubis-timeout=2",) if name == "hang" else ()
        found[f"slow, then {name}"] = Fault(f"{SLOW}\n{body}", options=options)
        found[f"{name}, nothing recorded"] = Fault(body, options=options)
    for name, body in LEFT.items():
        found[f"{name}, slow"] = Fault(f"{body}\n{SLOW}")
    found["slow, then pytest.skip"] = Fault(f"{SLOW}\npytest.skip('not here')")
    found["slow, then pytest.xfail"] = Fault(f"{SLOW}\npytest.xfail('known')")
    found["setup fails"] = Fault(GOOD, top=_BAD_SETUP, fixture="odd")
    found["good, teardown fails"] = Fault(GOOD, top=_BAD_TEARDOWN, fixture="odd")
    found["slow, teardown fails"] = Fault(SLOW, top=_BAD_TEARDOWN, fixture="odd")
    return found


def plain_faults() -> dict[str, Fault]:
    """Return the faults that a plain check finds."""
    found = {name: Fault(body) for name, body in RAISED.items()}
    for name, body in ENDED.items():
        options = ("--anubis-timeout=2",) if name == "hang" else ()
        # A signal may be ignored, and a copy go on: the check fails all the same.
        found[name] = Fault(f"{body}\nassert False", options=options)
    for name, body in LEFT.items():
        found[f"{name}, assertion"] = Fault(f"{body}\nassert False")
    found["setup fails"] = Fault("pass", top=_BAD_SETUP, fixture="odd")
    found["teardown fails"] = Fault("pass", top=_BAD_TEARDOWN, fixture="odd")
    return found


def device_faults() -> dict[str, Fault]:
    """Return the faults that one device of eight has."""
    found = {}
    for device in ("cuda:0", "cuda:3", "cuda:7"):
        here = f"if '[{device}' in request.node.name:\n    "
        for name, line in (
            ("20 % slower", "record(anubis_metric, 'NAME', 0.8)"),
            ("segmentation fault", "ctypes.string_at(0)"),
            ("os._exit(0)", "os._exit(0)"),
            ("assertion", "assert False"),
            ("skip", "pytest.skip('not here')"),
            ("nothing recorded", "pass"),
        ):
            found[f"{device} {name}"] = Fault(f"{here}{line}\nelse:\n    {GOOD}")
    return found
