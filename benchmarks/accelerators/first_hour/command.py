"""Run the first hour: a plan of steps, each in a separate process with a time limit.

A step that hangs is killed with all processes that it started. A step that fails gives a line. In both cases
the next step begins.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.accelerators.first_hour.page import hour_page
from benchmarks.accelerators.first_hour.rows import (
    FAILED,
    IMPOSSIBLE,
    OFF,
    Findings,
    Row,
    model_of,
    read_findings,
)
from pytest_anubis.core.inventory import Inventory
from pytest_anubis.hardware.inventory.inventory_reading import read_inventory
from pytest_anubis.hardware.inventory.visible_devices import visible

HERE = Path(__file__).parent
NO_CARD = 7
"""Exit code without an accelerator, which neither pytest nor `anubis` uses."""

PROBE = 120
"""Seconds in which torch must find a card: it loads gigabytes of libraries and starts every card."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the hour.

    Attributes:
        name: Its name.
        call: Its function, ``module:name``.
        minutes: Maximum duration, after which it is ended.
        torch: It needs torch with access to the cards; else the driver's library is enough.
        why: What it shows.
    """

    name: str
    call: str
    minutes: float
    torch: bool
    why: str


ONE = (
    Step("what is there", "sensors:what_is_there", 1.5, False, "inventory, nvidia-smi, doctor, gate"),
    Step("every call", "sensors:every_call", 0.5, False, "what each call of the driver's library takes"),
    Step("suites", "suites:does_all_end", 4, True, "does every smoke test of a card end, and how soon"),
    Step("minute of load", "card:minute_of_load", 2, True, "bf16 burst and plateau; clock and power"),
    Step("memory", "card:memory", 0.5, True, "copies of 64 MiB to 8 GiB"),
    Step("arithmetic", "card:arithmetic", 0.8, True, "fp32, fp64, fp16, bf16, and zeros"),
    Step("copies", "card:copies", 0.7, True, "host to card and back, by NUMA node"),
    Step("latencies", "card:latencies", 2, True, "launches; telemetry off, on, off"),
    Step("spread", "suites:spread", 4, True, "five smoke runs of products and memory: do medians differ"),
    Step("neighbour", "suites:neighbour", 0.8, True, "another process on the card"),
    Step("kill", "suites:worker_killed", 1, False, "kill -9 of a worker in mid-test"),
    Step("hang", "suites:hanging", 1, True, "a kernel past its deadline"),
    Step("memory full", "suites:out_of_memory", 0.8, True, "more memory than the card has"),
    Step("TF32", "suites:tf32_variable", 0.8, True, "the variables of common containers"),
    Step("corruption", "suites:corrupted", 1, False, "a wrong result"),
    Step("standard", "suites:standard", 6, True, "standard: duty of products, memory and training"),
)  # fmt: skip
PRIORITIES = (
    "memory", "arithmetic", "corruption", "memory full", "hang", "kill", "copies", "neighbour", "TF32",
    "spread", "suites", "minute of load", "every call", "latencies", "what is there", "standard",
)  # fmt: skip
"""Steps for one card, the most informative first: figures that others have measured too, then faults."""

ALL = (
    Step("links", "sensors:all_links", 0.5, False, "NVLink or xGMI, PCIe"),
    Step("lanes", "suites:lanes", 16, True, "one card at a time and all, A B B A: our own interference"),
    Step("pairs", "node:pairs", 2, True, "copies between all ordered pairs of cards"),
    Step("all-reduce", "node:all_reduce", 3, True, "1, 8, 16 GiB; the library's choice, and rings"),
    Step("copies together", "node:copies_together", 1, True, "host to card, alone and all at once"),
    Step("burn", "node:burn_together", 12, True, "ten minutes, one result a second compared bit for bit"),
    Step("what is there now", "sensors:what_is_there", 1.5, False, "the gate again"),
    Step("other tools", "suites:other_tools", 20, True, "nvbandwidth, nccl-tests, dcgmi diag"),
)  # fmt: skip


def within(steps: Sequence[Step], minutes: float) -> list[Step]:
    """Return the most informative steps that together fit into `minutes`, in their order."""

    def rank(step: Step) -> int:
        return PRIORITIES.index(step.name) if step.name in PRIORITIES else len(PRIORITIES)

    chosen: list[Step] = []
    for step in sorted(steps, key=rank):
        if sum(one.minutes for one in (*chosen, step)) <= minutes:
            chosen.append(step)
    return [step for step in steps if step in chosen]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the hour, or one step of it.

    Returns:
        0: everything as expected; 1: something is off, or a step failed; 2: wrong usage; `NO_CARD`.
    """
    options = _parser().parse_args(arguments)
    if options.step:
        return _child(options)
    inventory = read_inventory()
    cards = inventory.accelerators
    steps = [*ONE, *(ALL if options.all or (len(cards) > 1 and not options.one) else ())]
    if options.only:
        wanted = {name.strip() for name in options.only.split(",")}
        if unknown := wanted - {step.name for step in (*ONE, *ALL)}:
            print(f"--only: no step is called {', '.join(sorted(unknown))}; --plan lists them")
            return 2
        steps = [step for step in (*ONE, *ALL) if step.name in wanted]
    if options.minutes is not None:
        steps = within(steps, options.minutes)
    if options.plan:
        _show(steps)
        return 0
    if not cards:
        print(
            "no accelerator here: neither NVML nor amdsmi shows a card, so nothing was done; run it on a "
            "node with cards (--plan shows what it would do)"
        )
        return NO_CARD
    if options.card >= len(cards):
        print(f"--card {options.card}: this node has {len(cards)}, numbered from 0")
        return 2
    return _hour(options, inventory, steps)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="first_hour",
        description="The first hour on a card, or on a node with several: every figure with the expected "
        "one, the time of every call of the driver's library, clock and power over a minute of load, five "
        "repeats, and harmless faults with the verdicts on them. No setting of a card is changed.",
        epilog=f"Exit codes: 0 all as expected, 1 something is off, 2 wrong usage, {NO_CARD} no card here.",
    )
    parser.add_argument("--plan", action="store_true", help="show the steps and their durations")
    parser.add_argument(
        "--one", action="store_true", help="one card only, even if there are several"
    )
    parser.add_argument("--all", action="store_true", help="the steps for several cards as well")
    parser.add_argument(
        "--card", type=int, default=0, help="which card the steps for one use (default: 0)"
    )
    parser.add_argument(
        "--only", default="", metavar="STEPS", help="only these steps, by name, with commas"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="N",
        help="only the most informative steps that together fit into this time",
    )
    parser.add_argument(
        "--json", type=Path, default=Path("first_hour.json"), help="file of all findings"
    )
    parser.add_argument(
        "--html", type=Path, default=Path("first_hour.html"), help="page of all findings"
    )
    for hidden in ("--step", "--out", "--model"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    return parser


def _show(steps: Sequence[Step]) -> None:
    for step in steps:
        need = "torch" if step.torch else "driver"
        print(f"{step.minutes:5.1f} min  {need:6}  {step.name:18} {step.why}")
    print(
        f"{sum(step.minutes for step in steps):5.1f} min at most in all; no setting of a card is changed"
    )


def _hour(options: argparse.Namespace, inventory: Inventory, steps: Sequence[Step]) -> int:
    card = inventory.accelerators[options.card]
    model = model_of(card.name)
    facts = {
        "node": inventory.node,
        "cards": f"{len(inventory.accelerators)} x {card.name}",
        "expected figures": f"those of {model}" if model else "none are known for this card",
        "begun": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "driver": ", ".join(f"{name} {version}" for name, version in inventory.drivers.items()),
        "python": platform.python_version(),
    }
    usable = visible(inventory.accelerators, {})
    name, value = dict(zip(usable.devices, usable.bindings, strict=True)).get(
        f"cuda:{options.card}", ("", "")
    )
    binding = {name: value} if name else {}
    cannot = _torch_problem() if any(step.torch for step in steps) else ""
    rows: list[Row] = []
    courses: list[dict[str, Any]] = []
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        for number, step in enumerate(steps):
            begin = time.monotonic()
            if step.torch and cannot:
                found = [Row(step=step.name, what=step.why, found=cannot, end=IMPOSSIBLE)]
                drawn: list[dict[str, Any]] = []
            else:
                print(f"{step.name}: at most {step.minutes:g} min", flush=True)
                found, drawn = _run(step, options.card, binding, model, Path(place) / str(number))
            took[step.name] = round(time.monotonic() - begin, 1)
            for row in found:
                known = "; ".join(filter(None, (row.expected, row.source)))
                expected = f" (expected {known})" if row.expected else ""
                print(f"  {row.end:12} {row.what}: {row.found}{expected}", flush=True)
            rows += found
            courses += drawn
            _write(
                options, facts, rows, courses, took
            )  # after each step, in case the next one dies
    bad = [row for row in rows if row.end in (OFF, FAILED)]
    print(f"{len(rows)} findings, {len(bad)} off; {options.json} and {options.html}")
    return 1 if bad else 0


def _write(
    options: argparse.Namespace,
    facts: dict[str, str],
    rows: Sequence[Row],
    courses: Sequence[dict[str, Any]],
    took: dict[str, float],
) -> None:
    document = {
        "format": "anubis-first-hour",
        "schema": 1,
        "facts": facts,
        "seconds": took,
        "rows": [asdict(row) for row in rows],
        "series": list(courses),
    }
    options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    page = hour_page(f"First hour: {facts['cards']}", facts, rows, courses)
    options.html.write_text(page, encoding="utf-8")


def _torch_problem() -> str:
    """Return why torch sees no card; empty if it does."""
    code = "import torch; torch.zeros(1, device='cuda'); print('yes')"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PROBE
        )
    except subprocess.TimeoutExpired:
        return f"torch did not answer within {PROBE} s"
    if done.stdout.strip() == "yes":
        return ""
    return (
        f"torch sees no card: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1][:200]}"
    )


def _run(
    step: Step, card: int, binding: Mapping[str, str], model: str, path: Path
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Run one step in its own process group and return its results up to its end."""
    command = [sys.executable, str(HERE), "--step", step.call, "--out", str(path)]
    command += ["--card", str(card), "--model", model]
    environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    # Steps for one card see no other card; steps that run pytest pass this on to their workers.
    if step in ONE and not step.call.startswith("sensors:"):
        environment |= binding
    out = path.with_suffix(".out")
    with out.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        ended = ""
        try:
            code = process.wait(60 * step.minutes)
            ended = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            ended = f"ended after {60 * step.minutes:.0f} s"
        finally:
            _end(process)
    rows, courses = read_findings(path)
    named = [Row(**{**asdict(row), "step": step.name}) for row in rows]
    if ended:
        said = (out.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""])[-1]
        named.append(
            Row(step=step.name, what="the step itself", found=ended, end=FAILED, note=said[:300])
        )
    return named, [{**course, "step": step.name} for course in courses]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a step that still run."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        print("  a process hangs in the driver and is left behind", flush=True)


def _child(options: argparse.Namespace) -> int:
    module, _, name = options.step.partition(":")
    findings = Findings(name, Path(options.out), options.model)
    try:
        getattr(importlib.import_module(f"{__package__}.{module}"), name)(findings, options.card)
    except Exception as error:
        traceback.print_exc()
        print(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        return 1
    return 0
