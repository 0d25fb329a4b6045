"""Every adapter from end to end, with a program in the place of the tool that prints what the tool printed.

Without the tool it is NOT_TESTED, with the way to get it; with its output the metrics and the tool's version
are recorded; of output in another form nothing is believed, which is INCONCLUSIVE.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_anubis.benchmarking import tools
from pytest_anubis.benchmarking.tools import UnreadableOutput
from pytest_anubis.core.measurement import NOT_INSTALLED, TOOL_PROPERTY
from pytest_anubis.session.error_causes import environment_of
from suites.storage import test_disk
from suites.tools import (
    nics,
    test_dcgm_diag,
    test_gpu_burn,
    test_hpl,
    test_nccl_tests,
    test_nvbandwidth,
    test_perftest,
    test_stream_c,
    test_stress_ng,
)
from tests.places import ROOT
from tests.suites.test_suites_on_a_card import Node, Taken
from tests.suites.test_suites_perftest import PERFTEST

DATA = Path(__file__).parents[1] / "tool_outputs" / "data"
CARDS = 8
Run = Callable[[Taken, Any, Callable[[str, object], None]], None]


def prints(file: str) -> str:
    """Return a program that prints a recorded output, whatever it is asked."""
    return f'#!/bin/sh\ncat "{DATA / file}"\n'


def says(version: str, file: str) -> str:
    """Return a program that says its version when it is asked for it, and else prints a recorded output."""
    return (
        f'#!/bin/sh\ncase "$*" in *version*) echo "{version}"; exit;; esac\ncat "{DATA / file}"\n'
    )


STRESS_NG = f"""#!/bin/sh
case "$1" in --version) echo "stress-ng, version 0.15.06 (gcc 12.2.0)"; exit;; esac
while [ $# -gt 0 ]; do [ "$1" = --yaml ] && cp "{DATA / "stress_ng.yaml"}" "$2"; shift; done
"""
FIO = """#!/bin/sh
case "$1" in --version) echo fio-3.33; exit;; esac
printf '50, 1000, 0, 0, 0\\n100, 2000, 0, 0, 0\\n' > log_bw.1.log
echo '{"jobs": [{"error": 0}]}'
"""
NEW = {
    "fio": {"fio": "#!/bin/sh\ncase $1 in --version) echo fio-9;; *) echo a new format;; esac\n"},
    "stress-ng": {
        "stress-ng": "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n"
        '[ "$1" = --yaml ] && echo a new format > "$2"; shift\ndone\n'
    },
}
"""Tools that do not simply print: versions of them that say something else."""


def with_disk(taken: Taken, node: Any, note: Callable[[str, object], None]) -> None:
    fixture: Any = getattr(test_disk.disk, "__wrapped__")  # noqa: B009 - pytest's own name
    with contextmanager(fixture)(node, note) as disk:
        test_disk.test_sequential_io(taken, node, disk, "read")


@dataclass(frozen=True)
class Adapter:
    """One adapter.

    Attributes:
        programs: What the tool's programs are called -> a program in their place.
        hint: Part of how to get it.
        version: As it is noted.
        metric: One that it records.
        run: Runs it whole.
    """

    programs: dict[str, str]
    hint: str
    version: str
    metric: str
    run: Run


ADAPTERS = {
    "nccl-tests": Adapter(
        {"all_reduce_perf": prints("all_reduce_perf.txt")},
        "NVIDIA/nccl-tests, or ROCm/rccl-tests",
        "all_reduce_perf 2.17",
        "busbw_33554432",
        lambda taken, node, note: test_nccl_tests.test_nccl_tests(
            taken, node, note, CARDS, "all_reduce_perf"
        ),
    ),
    "nvbandwidth": Adapter(
        {"nvbandwidth": prints("nvbandwidth.txt")},
        "NVIDIA/nvbandwidth",
        "nvbandwidth v0.6",
        "host_to_device_memcpy_ce_lowest",
        lambda taken, node, note: test_nvbandwidth.test_nvbandwidth(taken, node, note, CARDS),
    ),
    "perftest": Adapter(
        {"ib_write_bw": PERFTEST.format(golden=str(DATA / "ib_write_bw.txt"), code=0)},
        "apt install perftest",
        "ib_write_bw sha256",
        "rate_mlx5_0_1",
        lambda taken, node, note: test_perftest.test_rdma_bandwidth(
            taken, node, note, [nics.Port("mlx5_0", 1)], "ib_write_bw"
        ),
    ),
    "dcgmi diag": Adapter(
        {"dcgmi": says("version: 3.3.5", "dcgm_diag_3.json")},
        "datacenter-gpu-manager",
        "dcgmi 3.3.5",
        "plugins_run",
        lambda taken, _, note: test_dcgm_diag.test_dcgm_diag(taken, note, CARDS, 1),
    ),
    "fio": Adapter({"fio": FIO}, "apt install fio", "fio 3.33", "transfer_rate", with_disk),
    "stress-ng": Adapter(
        {"stress-ng": STRESS_NG},
        "apt install stress-ng",
        "stress-ng 0.15.06",
        "bogo_rate",
        lambda taken, node, note: test_stress_ng.test_stress_ng(taken, node, note, "cpu"),
    ),
    "gpu-burn": Adapter(
        {"gpu_burn": prints("gpu_burn.txt")},
        "wilicc/gpu-burn",
        "gpu_burn sha256",
        "burn_rate_0",
        lambda taken, node, note: test_gpu_burn.test_gpu_burn(taken, node, note, CARDS),
    ),
    "HPL": Adapter(
        {"xhpl": "#!/bin/sh\n", "mpirun": prints("hpl.txt")},
        "netlib.org/benchmark/hpl",
        "xhpl 2.3",
        "hpl_rate",
        test_hpl.test_hpl,
    ),
    "STREAM": Adapter(
        {"stream_c": prints("stream.txt")},
        "Code/stream.c",
        "stream_c 5.10",
        "triad_rate",
        test_stream_c.test_stream_c,
    ),
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Put programs in the place of tools; nothing else is there."""
    monkeypatch.setattr(tools, "refusal_of", lambda _: "")  # folders of tests are nobody's to trust
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)  # type: ignore[attr-defined]
    monkeypatch.setattr(
        "suites.memory.caches.read_caches", lambda: SimpleNamespace(last_total=1 << 20)
    )

    def put(programs: dict[str, str]) -> None:
        for name, text in programs.items():
            place = tmp_path / name
            place.write_text(text, encoding="utf-8")
            place.chmod(stat.S_IRWXU)
            variable = tools.VARIABLE + name.upper().replace("-", "_")
            monkeypatch.setenv(variable, str(place))

    return put


class Told(Taken):
    """Takes several values of one round as well."""

    def collect(self, name: str, fn: Callable[[], Any], **asked: Any) -> tuple[float, ...]:
        self.asked[name] = asked
        return tuple(fn())


def run(name: str, scratch: Path) -> tuple[Taken, list[str]]:
    taken, notes = Told(), list[str]()

    def note(key: str, value: object) -> None:
        if key == TOOL_PROPERTY:
            notes.append(str(value))

    scratch.mkdir()
    ADAPTERS[name].run(taken, Node(scratch=scratch), note)
    return taken, notes


def test_every_adapter_of_the_set_is_here() -> None:
    there = {path.stem for path in (ROOT / "suites" / "tools").glob("test_*.py")}
    here = {name for name in globals() if name in there}
    assert here == there
    assert len(ADAPTERS) == len(there) + 1, "those of suites/tools, and fio"


@pytest.mark.usefixtures("install")
@pytest.mark.parametrize("name", ADAPTERS)
def test_missing_tool_is_not_tested_and_told_how_to_get(name: str, tmp_path: Path) -> None:
    first = next(iter(ADAPTERS[name].programs))
    with pytest.raises(pytest.skip.Exception) as why:
        run(name, tmp_path / "scratch")
    assert str(why.value).startswith(f"{NOT_INSTALLED}{first} (")
    assert ADAPTERS[name].hint in str(why.value)


@pytest.mark.parametrize("name", ADAPTERS)
def test_output_of_the_tool_is_measured_and_its_version_noted(
    name: str, install: Callable[[dict[str, str]], None], tmp_path: Path
) -> None:
    install(ADAPTERS[name].programs)
    taken, notes = run(name, tmp_path / "scratch")
    rating = Node().nominal("port", "mlx5_0/1") if name == "perftest" else None
    assert taken.asked[ADAPTERS[name].metric].get("nominal") == rating
    assert len(notes) == 1
    assert notes[0].startswith(ADAPTERS[name].version)


@pytest.mark.parametrize("name", ADAPTERS)
def test_output_in_another_form_is_inconclusive(
    name: str, install: Callable[[dict[str, str]], None], tmp_path: Path
) -> None:
    new = tmp_path / "new"
    new.write_text("a new format\n", encoding="utf-8")
    plain = dict.fromkeys(ADAPTERS[name].programs, f'#!/bin/sh\ncat "{new}"\n')
    if name == "perftest":  # whose two ends meet before one of them prints
        plain = {"ib_write_bw": PERFTEST.format(golden=str(new), code=0)}
    install({**plain, **NEW.get(name, {})})
    with pytest.raises(UnreadableOutput) as told:
        run(name, tmp_path / "scratch")
    assert "cannot be read" in str(told.value)
    assert environment_of(told.value), "the node is not to blame, and nothing passes"
