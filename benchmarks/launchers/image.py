"""The image recipe, built and run where a container tool works: a toy test in it must pass.

    python benchmarks/launchers/image.py [--base IMAGE]

Needs docker or podman with a running daemon and a base image with Python; where there is none it says why
not. The wheel is built from this clone with ``pip wheel``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

from benchmarks.launchers.toy_fleet import HEALTHY, write_fleet
from pytest_anubis.fleet import launching

ROOT = Path(launching.__file__).parents[3]
RECIPE = Path(launching.__file__).parent / "recipes" / "container" / "Containerfile"
TAG = "anubis-trial"
_SECONDS = 1800.0
"""Seconds for a build: a base image and the package's dependencies come over the network."""


def tool() -> tuple[str, str]:
    """Return a container tool that works here, or why none does."""
    said = "neither docker nor podman is on PATH"
    for name in ("podman", "docker"):
        if shutil.which(name) is None:
            continue
        done = subprocess.run(
            [name, "info"], capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode == 0 and "Cannot connect" not in done.stdout + done.stderr:
            return name, ""
        said = f"{name}: {(done.stderr.strip().splitlines() or ['does not answer'])[-1]}"
    return "", said


def main() -> int:
    """Build and run; 0 if the toy test passes in the image, or nothing can be tried here."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", help="base image in place of the recipe's")
    options = parser.parse_args()
    name, why = tool()
    if not name:
        print(
            f"not built: {why}; the recipe is only linted here, by "
            "`pytest tests/fleet/launching/test_recipes.py`"
        )
        return 0
    base = ["--build-arg", f"BASE={options.base}"] if options.base else []
    with tempfile.TemporaryDirectory(prefix="anubis-image-") as place:
        context = Path(place)
        write_fleet(context / "suites", {"pod-node": HEALTHY})
        (context / "suites" / "baselines").rename(context / "baselines")
        dist = ["-w", str(context / "dist"), str(ROOT)]
        wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", *dist]
        build = [name, "build", "-q", *base, "-f", str(RECIPE), "-t", TAG, str(context)]
        # This machine's hardware class is not the container's: so there it is only measured.
        tests = ["--anubis-store=/var/lib/anubis", "--anubis-mode=measure", "suites"]
        run = [name, "run", "--rm", "-e", "PYTEST_ANUBIS_NODE=pod-node", TAG, *tests]
        try:
            for command in (wheel, build, run):
                print(" ".join(command[:4]), flush=True)
                subprocess.run(command, check=True, timeout=_SECONDS)
        except subprocess.CalledProcessError as error:
            print(f"WRONG {error.cmd[:3]}: exit code {error.returncode}")
            return 1
        finally:
            subprocess.run([name, "rmi", "-f", TAG], capture_output=True, timeout=60, check=False)
    print("all as it must be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
