"""A real headless Chromium by its debugging pipe and the standard library: pages are opened and audited."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

WAIT = 120
"""Seconds for one answer: a loaded machine starts a browser in some."""
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
    "--remote-debugging-pipe",
)  # fmt: skip

HEIGHT = 900
SERIOUS = ("critical", "serious")
AXE = (
    "axe.run().then(told=>[told.passes.length,told.violations.map(one=>"
    "[one.impact,one.id,one.nodes.length,one.nodes[0].target.join(' ')])])"
)
"""Number of rules kept, and the broken ones: impact, rule, number of elements, the first of them."""


def chromium() -> str | None:
    """Return the program's place, None where there is none."""
    return (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )


def axe_source() -> str | None:
    """Return the text of axe-core, None where no package has brought it."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or not found.submodule_search_locations:
        return None
    # Read as a file: the package's own modules need playwright, which nothing here does.
    place = Path(found.submodule_search_locations[0]) / "axe.min.js"
    return place.read_text(encoding="utf-8") if place.is_file() else None


class Browser:
    """A browser with one page; it is ended with everything that it started."""

    def __init__(self) -> None:
        program = chromium()
        if program is None:
            raise FileNotFoundError("no Chromium here; install the package chromium")
        self._folder = tempfile.mkdtemp(prefix="anubis-browser-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # The pipe's ends have the numbers 3 and 4 in the browser; a shell gives them these.
        shell = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            [
                "bash",
                "-c",
                shell,
                program,
                *_FLAGS,
                f"--user-data-dir={self._folder}",
                "about:blank",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._left, self._number, self._session = b"", 0, ""
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.ask("Page.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._folder, ignore_errors=True)

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command of the debugging protocol; return its result.

        Raises:
            RuntimeError: The browser refuses, or has gone.
        """
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def event(self, name: str) -> Any:
        """Wait for an event and return what it tells."""
        while True:
            answer = self._next()
            if answer.get("method") == name:
                return answer["params"]

    def _next(self) -> dict[str, Any]:
        signal.alarm(WAIT)  # a browser that hangs must not hang the measurement
        try:
            while b"\0" not in self._left:
                part = os.read(self._in, 1 << 16)
                if not part:
                    raise RuntimeError("the browser has gone")
                self._left += part
        finally:
            signal.alarm(0)
        text, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def open(self, page: Path, *, fragment: str = "") -> None:
        """Open a file and wait until it has loaded."""
        place = page.resolve().as_uri() + fragment
        self.ask("Page.navigate", url="about:blank")
        self.event("Page.loadEventFired")
        self.ask("Page.navigate", url=place)
        self.event("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, promises awaited.

        Raises:
            RuntimeError: It throws.
        """
        told = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in told:
            raise RuntimeError(str(told["exceptionDetails"]))
        return told["result"].get("value")

    def size(self, width: int, height: int, *, dark: bool = False, media: str = "screen") -> None:
        """Give the window a size and a medium (``screen``, ``print``), and the reader a preference."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])


def audited(browser: Browser, axe: str, page: Path) -> list[list[Any]]:
    """Return what axe-core finds on a page that is open, all of it unfolded.

    Returns:
        One list for each rule that is broken: impact, rule, how many elements, the first of them.

    Raises:
        RuntimeError: No rule was kept: nothing was looked at.
    """
    browser.value("document.querySelectorAll('details').forEach(one=>one.open=true)")
    browser.value(f"{axe};0")
    kept, broken = browser.value(AXE)
    if not kept:
        raise RuntimeError(f"{page.name}: axe-core looked at nothing")
    return list(broken)
