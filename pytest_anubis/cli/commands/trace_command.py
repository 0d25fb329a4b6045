"""``anubis trace``: record a job as an execution trace; show, obfuscate and export it; predict its step time.

`pytest --anubis FILE.trace.json` replays a trace as a benchmark.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pytest_anubis.benchmarking.replay.operation_calls import CannotReplayError
from pytest_anubis.benchmarking.replay.profiling import profiled
from pytest_anubis.benchmarking.replay.recorded_script import NO_TRACE, written_at
from pytest_anubis.benchmarking.replay.replayed_step import ReplayedStep
from pytest_anubis.cli.shared.arguments import add_action, add_json, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import answer, write_file, write_json
from pytest_anubis.codec import CodecError, from_plain, to_plain
from pytest_anubis.codec.json_files import read_json
from pytest_anubis.report.text.trace_text import info_lines, prediction_lines, refusal_lines
from pytest_anubis.traces.chakra_writing import chakra_messages
from pytest_anubis.traces.execution_trace import ExecutionTrace, tensors_of
from pytest_anubis.traces.obfuscation import obfuscated
from pytest_anubis.traces.operation_kinds import FREE_OF_WORK, Kind, kind_of, operation_name
from pytest_anubis.traces.step_plan import planned
from pytest_anubis.traces.step_prediction import FORMAT, OperationProfile, predict
from pytest_anubis.traces.trace_names import is_trace
from pytest_anubis.traces.trace_reading import TraceError, read_trace
from pytest_anubis.traces.trace_writing import trace_data


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    explain(
        parser,
        "Record a job as an execution trace, look at one, and pass it on. A trace has operations, shapes and "
        "types, no code and no data; pytest --anubis FILE.trace.json replays it as a benchmark on any node.",
    )
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    record = add_action(
        actions,
        "record",
        _record,
        "run a training script, and record some of its steps, which torch's optimizer counts; the script is "
        "ended when they are recorded",
    )
    record.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="e.g. job.trace.json.gz"
    )
    record.add_argument(
        "--steps", type=int, default=1, metavar="N", help="how many steps to record (default: 1)"
    )
    add_json(record, "where it is, and how much")
    record.add_argument("script", metavar="-- SCRIPT", help="a script of Python, or -m MODULE")
    record.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    info = add_action(
        actions,
        "info",
        _info,
        "show a trace's operations by kind, the memory that it needs, and what cannot be replayed",
    )
    info.add_argument("file", type=Path, metavar="FILE", help="an execution trace")
    add_json(info, "what is shown")
    obfuscate = add_action(
        actions,
        "obfuscate",
        _obfuscate,
        "write what a replay needs of a trace: operations, shapes, types and whole numbers, no texts",
    )
    export = add_action(
        actions, "export", _export, "write a trace in the form of MLCommons Chakra, for simulators"
    )
    for action, example in ((obfuscate, "shared.trace.json.gz"), (export, "job.et")):
        action.add_argument("file", type=Path, metavar="FILE", help="an execution trace")
        action.add_argument(
            "-o", "--output", type=Path, required=True, metavar="OUT", help=f"e.g. {example}"
        )
        add_json(action, "where it is, and how much")
    profile = add_action(
        actions,
        "profile",
        _profile,
        "measure every operation of some traces on a device of this machine, for predictions",
    )
    profile.add_argument("files", nargs="+", type=Path, metavar="FILE", help="execution traces")
    profile.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="e.g. ops.json"
    )
    add_json(profile, "where it is, and how much")
    profile.add_argument("--device", default="cpu", help="as torch names it (default: cpu)")
    predicted = add_action(
        actions,
        "predict",
        _predict,
        "predict a step's time from a profile, without running it; operations of new shapes are scaled by "
        "their work",
    )
    predicted.add_argument("file", type=Path, metavar="FILE", help="an execution trace")
    predicted.add_argument(
        "--profile", type=Path, required=True, metavar="FILE", help="of one machine"
    )
    predicted.add_argument(
        "--ranks", type=int, default=1, help="processes in the collectives (default: 1)"
    )
    predicted.add_argument(
        "--link",
        type=float,
        default=0.0,
        metavar="GB/S",
        help="rate between two ranks; needed with --ranks",
    )
    add_json(predicted, "the prediction")


def run(options: argparse.Namespace) -> int:
    """Carry out an action; return its exit code."""
    code: int = options.action(options)
    return code


def load_trace(path: Path) -> ExecutionTrace:
    """Return the trace of a file."""
    try:
        return read_trace(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except TraceError as error:
        raise CommandError(f"{path}: {error}") from None


def _record(options: argparse.Namespace) -> int:
    _check_name(options.output)
    if options.steps < 1:
        raise CommandError(f"--steps {options.steps}: record one step or more")
    if options.script == "-m":
        if not options.rest:
            raise CommandError("-m: give the module's name after it")
    elif not Path(options.script).is_file():
        raise CommandError(
            f"{options.script}: no such script; give the script itself, without python"
        )
    if not options.output.resolve().parent.is_dir():
        raise CommandError(f"{options.output.parent}: no such folder")
    module = "pytest_anubis.benchmarking.replay.recorded_script"
    file = options.output.resolve()
    before = written_at(file)
    # The recording process may not start in another folder: a script opens files of its folder.
    words = [str(file), str(options.steps), options.script, *options.rest]
    code = subprocess.run(
        [sys.executable, "-m", module, *words],
        check=False,
        stdout=2 if options.json == "-" else None,  # JSON has the standard output to itself
        env={"TORCH_CPP_LOG_LEVEL": "ERROR", **os.environ},  # the observer warns that it is on
    ).returncode
    if written_at(file) in (0, before):
        name = options.rest[0] if options.script == "-m" else options.script
        ended = "" if code == NO_TRACE else f" ended with {code}, and"
        raise CommandError(f"{name}:{ended} no trace was recorded")
    facts = trace_facts(load_trace(file))
    count, steps = facts["operations"], options.steps
    answer(
        options.json,
        {
            "file": str(options.output),
            "steps": steps,
            "operations": count,
            "not_replayable": facts["not_replayable"],
            "refused": facts["refused"],
        },
        f"{options.output}: {count} operations of {steps} step{'s' * (steps > 1)}",
        *(refusal_lines(facts) or [f"next: anubis learn {options.output}"]),
    )
    return 0


def _info(options: argparse.Namespace) -> int:
    facts = trace_facts(load_trace(options.file))
    answer(
        options.json, {"file": str(options.file), **facts}, *info_lines(str(options.file), facts)
    )
    return 0


def _obfuscate(options: argparse.Namespace) -> int:
    _check_name(options.output)
    trace = obfuscated(load_trace(options.file))
    data = trace_data(trace)
    text = json.dumps(data, allow_nan=False).encode()
    packed = options.output.name.endswith(".gz")
    write_file(options.output, gzip.compress(text, mtime=0) if packed else text)
    answer(options.json, {"file": str(options.output), "operations": len(trace.operations)})
    return 0


def _export(options: argparse.Namespace) -> int:
    if options.output.suffix != ".et":
        raise CommandError(f"{options.output}: the name of Chakra's trace ends with .et")
    trace = load_trace(options.file)
    write_file(options.output, b"".join(chakra_messages(trace)))
    answer(options.json, {"file": str(options.output), "nodes": len(trace.nodes)})
    return 0


def _check_name(output: Path) -> None:
    if not is_trace(output.name):
        raise CommandError(f"{output}: a trace's name ends with .trace.json or .trace.json.gz")


def _profile(options: argparse.Namespace) -> int:
    traces = [load_trace(path) for path in options.files]
    try:
        profile = profiled(traces, options.device, socket.gethostname())
    except (AssertionError, CannotReplayError, RuntimeError) as error:  # torch asserts its build
        raise CommandError(f"{options.device}: {str(error).partition(chr(10))[0]}") from None
    write_json(options.output, {"format": FORMAT, "schema": 1, **to_plain(profile)})
    answer(options.json, {"file": str(options.output), "operations": len(profile.operations)})
    return 0


def _predict(options: argparse.Namespace) -> int:
    if options.ranks < 1 or (options.ranks > 1) != (options.link > 0):
        raise CommandError("give --ranks from 2 on together with --link above 0, or neither")
    trace = load_trace(options.file)
    try:
        data = read_json(options.profile)
        if not isinstance(data, dict) or data.pop("format", "") != FORMAT:
            raise CodecError("not a profile of operations (anubis trace profile writes one)")
        data.pop("schema", None)
        profile = from_plain(OperationProfile, data)
    except (OSError, CodecError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandError(f"{options.profile}: {why}") from None
    found = predict(trace, profile, ranks=options.ranks, link=1e9 * options.link)
    document = {"file": str(options.file), "machine": profile.machine, **to_plain(found)}
    answer(options.json, document, *prediction_lines(str(options.file), profile, found))
    return 0


def trace_facts(trace: ExecutionTrace) -> dict[str, Any]:
    """Return what a trace holds, as plain values."""
    kinds: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    replayed = []
    for operation in trace.operations:
        kind = kind_of(operation.schema)
        if kind is not None:
            kinds[kind.value] += 1
            if kind is not Kind.COLLECTIVE:
                replayed.append(operation)
        elif operation_name(operation.schema)[1] not in FREE_OF_WORK:
            missing[operation.name] += 1
    devices = {
        use.device for one in trace.operations for use in tensors_of((*one.inputs, *one.outputs))
    }
    return {
        "schema": trace.schema,
        "digest": trace.digest,
        "nodes": len(trace.nodes),
        "operations": len(trace.operations),
        "kinds": dict(sorted(kinds.items(), key=lambda pair: -pair[1])),
        "devices": sorted(devices - {""}),
        "bytes": planned(replayed).bytes,
        "not_replayable": dict(missing.most_common()),
        "refused": "" if missing else _refusal(trace),
    }


def _refusal(trace: ExecutionTrace) -> str:
    """Return why this machine's torch cannot replay a trace of known operations; empty if it can."""
    import torch

    try:
        ReplayedStep(trace, torch.device("cpu"))
    except CannotReplayError as error:
        return str(error)
    return ""
