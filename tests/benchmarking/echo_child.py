"""A child for the tests of `benchmarking/children.py`: obeys, fails, hangs or dies as it is asked to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings

from pytest_anubis.benchmarking import children
from pytest_anubis.benchmarking.children import Message, answer

GRACE = "ANUBIS_TEST_GRACE"
"""The variable with the seconds for which it lives on without its parent, if they are other than usual."""


def echo(request: Message) -> Message:
    """Answer what was sent."""
    return {"text": request["text"]}


def warn(_request: Message) -> Message:
    """Warn as a library would."""
    warnings.warn("settings of old", FutureWarning, stacklevel=1)
    return {}


def fail(_request: Message) -> Message:
    """Fail in the ordinary way."""
    raise ValueError("no such register")


def hang(_request: Message) -> Message:
    """Never answer."""
    time.sleep(3600)
    return {}


def doze(request: Message) -> Message:
    """Answer after some seconds."""
    time.sleep(request["seconds"])
    return {"text": "late"}


def start(_request: Message) -> Message:
    """Start a process that stays, and answer its number."""
    sleeper = subprocess.Popen(["sleep", "3600"])
    return {"pid": sleeper.pid}


def die(request: Message) -> Message:
    """Say something and be gone."""
    sys.stderr.write(request.get("text", "bus error at 0x0") + "\n")
    sys.stderr.flush()
    os._exit(9)


if __name__ == "__main__":
    children.GRACE = float(os.environ.get(GRACE, children.GRACE))
    handlers = {"echo": echo, "fail": fail, "hang": hang, "die": die, "doze": doze, "start": start}
    handlers["warn"] = warn
    answer(int(sys.argv[1]), handlers)
