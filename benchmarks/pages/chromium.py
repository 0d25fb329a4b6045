"""A real headless Chromium by its debugging pipe and the standard library: pages are opened and measured."""

from __future__ import annotations

import base64
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


def chromium() -> str | None:
    """Return the program's place, None where there is none."""
    return (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )


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

    def look(
        self,
        path: Path,
        *,
        width: int,
        height: int,
        dark: bool = False,
        whole: bool = False,
        media: str = "screen",
    ) -> None:
        """Write a picture of the page.

        Args:
            path: The PNG file.
            width: Of the window, pixels.
            height: Of the window, pixels.
            dark: Whether the reader prefers dark pages.
            whole: Draw the page to its end, not the window only.
            media: ``screen`` or ``print``.
        """
        self.size(width, height, dark=dark, media=media)
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def size(self, width: int, height: int, *, dark: bool = False, media: str = "screen") -> None:
        """Give the window a size and a medium (``screen``, ``print``), and the reader a preference."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
            mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])
