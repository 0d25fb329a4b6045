"""Stand-in cards: a small NVML and a small amdsmi, whose answers are read from a text file.

What the tests of other rooms need is `nvml_node`, a fixture (import it where it is used), and `Node`.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from pytest_anubis.hardware.gate import software_environment
from pytest_anubis.hardware.gate.software_environment import Torch

SOURCE = Path(__file__).with_name("nvml_stand_in.c")
AMDSMI_PATH = Path(__file__).with_name("amdsmi_path")
"""Folder to put on ``PYTHONPATH``, so that ``import amdsmi`` finds the stand-in."""
NVML_STATE = "ANUBIS_NVML_STATE"
AMDSMI_STATE = "ANUBIS_AMDSMI_STATE"
FITTING = Torch(version="2.13.0+cu130", cuda="13.0")
"""The build of torch that a node with these cards would have."""

XID = 0x8
"""NVML's type of the event that carries an XID."""


class Node:
    """The state of a node's stand-in cards: a text file that is read again on every call.

    Args:
        state: The file; it is written here.
        library: The shared library; None for a node of AMD's cards.
    """

    def __init__(self, state: Path, library: Path | None = None) -> None:
        self.state = state
        self.library = library
        self._values: dict[str, str] = {}
        self._events: list[str] = []
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which another process sees only these cards."""
        if self.library is None:
            paths = [str(AMDSMI_PATH), *filter(None, [os.environ.get("PYTHONPATH")])]
            return {AMDSMI_STATE: str(self.state), "PYTHONPATH": os.pathsep.join(paths)}
        paths = [str(self.library.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {NVML_STATE: str(self.state), "LD_LIBRARY_PATH": os.pathsep.join(paths)}

    def set(self, values: dict[str, Any]) -> None:
        """Change what the cards answer, such as ``{"gpu3.remapped.pending": 1}``; None: healthy again."""
        for key, value in values.items():
            self._values.pop(key, None)
            if value is not None:
                self._values[key] = str(value)
        self._write()

    def event(self, card: int, data: int, kind: int = XID) -> None:
        """Let a card send an event: an XID unless another kind is given."""
        self._events.append(f"event {card} {kind:#x} {data}")
        self._write()

    def heal(self) -> None:
        """Make all cards healthy; what hangs goes on."""
        self._values.clear()
        self._events.clear()
        self._write()

    def _write(self) -> None:
        lines = [*(f"{key} {value}" for key, value in self._values.items()), *self._events]
        new = self.state.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        new.replace(self.state)  # at once: somebody may be reading


@functools.cache
def nvml_library() -> Path:
    """Build the stand-in under the name by which the bindings load it, once a process.

    Returns:
        The library, alone in its folder. The test is skipped where there is no compiler.
    """
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler: the stand-in for NVML cannot be built")
    folder = Path(tempfile.mkdtemp(prefix="anubis-nvml-"))
    atexit.register(_remove, folder, os.getpid())
    made = folder / "libnvidia-ml.so.1"
    options = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", str(made), str(SOURCE)], check=True)
    return made


def _remove(folder: Path, maker: int) -> None:
    """Remove a folder at the end of the process that made it; one that was forked from it may end sooner."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)


def tell_state(library: ctypes.CDLL, state: Path | None) -> None:
    """Let a loaded stand-in answer what another file says; None: as on a machine without a driver."""
    assert library.stand_in_state(None if state is None else os.fsencode(state)) == 0


def use_nvml(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bindings in this process, and processes that it starts, find the stand-in cards."""
    for name, value in node.environment.items():
        monkeypatch.setenv(name, value)
    library = ctypes.CDLL(str(node.library))
    tell_state(library, node.state)  # which may have been loaded for an earlier test
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)
    # Here torch is a build for the CPU, which the gate would rightly object to.
    monkeypatch.setattr(software_environment, "_torch", lambda: FITTING)


@pytest.fixture
def nvml_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """Eight healthy NVIDIA cards, through the real bindings, here and in processes that are started."""
    node = Node(tmp_path / "nvml_state.txt", nvml_library())
    use_nvml(node, monkeypatch)
    yield node
    node.heal()  # a call that hangs ends


@pytest.fixture
def amdsmi_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """Eight healthy AMD cards, as the module ``amdsmi``, here and in processes that are started."""
    node = Node(tmp_path / "amdsmi_state.txt")
    for name, value in node.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(AMDSMI_PATH))
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    yield node
    node.heal()
    sys.modules.pop("amdsmi", None)
