"""All settings: command line over environment over ini file over default, resolved once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

Profile = Literal["smoke", "standard", "soak"]
PROFILES: tuple[Profile, ...] = ("smoke", "standard", "soak")

ENV_PROFILE = "PYTEST_ANUBIS_PROFILE"
ENV_STORE = "PYTEST_ANUBIS_STORE"

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, resolved.

    Attributes:
        active: ``--anubis`` was given.
        mode: ``judge`` compares with a baseline and decides; ``measure`` only records.
        profile: Sizes and durations of the benchmarks.
        baselines: Folder of baseline files, or one baseline file.
        store: Folder of runs and history.
        run_id: Name of this run; empty: one is made from the date and the node's name.
        fail_on: The mildest verdict that fails a test: ``fail`` or ``marginal``.
        require_all: What has no criterion blocks acceptance too.
        goals_required: Folders in which a benchmark without goal, question and action is an error.
        redact: Leave serial numbers and addresses out of what is written.
        inventory: Recorded inventory to use in place of this machine's; None reads the machine.
        timeout: Deadline of every test in seconds; None derives it from the declared cost.
        gate: What a failed inventory does: ``stop`` the run, let it ``continue``, or ``off``.
        resume: Id of the interrupted run to go on with, ``latest``, or empty.
        duration: Seconds to soak, cycling the set; None runs it once.
        scratch: Folder on the disk to be tested; None is pytest's temporary folder.
    """

    active: bool = False
    mode: Literal["judge", "measure"] = "judge"
    profile: Profile = "smoke"
    baselines: Path = Path("baselines")
    store: Path = Path(".anubis")
    run_id: str = ""
    fail_on: Literal["fail", "marginal"] = "fail"
    require_all: bool = False
    goals_required: tuple[Path, ...] = ()
    redact: bool = False
    inventory: Path | None = None
    timeout: float | None = None
    scratch: Path | None = None
    gate: Literal["stop", "continue", "off"] = "stop"
    resume: str = ""
    duration: float | None = None


def seconds(text: str | float) -> float:
    """Turn ``20s``, ``2m``, ``1.5h``, ``500ms`` or a plain number of seconds into seconds.

    Raises:
        ValueError: The text is not a duration; the message shows the valid forms.
    """
    if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
        return float(text)
    match = _TIME.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write 500ms, 20s, 2m or 1.5h")
    return float(match[1]) * _SECONDS[match[2]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """One option on the command line, with its ini key and environment variable."""

    flag: str
    help: str
    ini: bool = True
    env: str | None = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    switch: bool = False
    optional: str = ""
    default: str = ""

    @property
    def dest(self) -> str:
        return self.flag.lstrip("-").replace("-", "_")


OPTIONS: tuple[_Option, ...] = (
    _Option(
        flag="--anubis",
        switch=True,
        ini=False,
        help="Measure, judge against the learned baseline, and accept or reject this node",
    ),
    _Option(
        flag="--anubis-mode",
        choices=("judge", "measure"),
        ini=False,
        default="judge",
        help="Judge against the baseline, or only measure and record",
    ),
    _Option(
        flag="--anubis-profile",
        choices=PROFILES,
        env=ENV_PROFILE,
        default="smoke",
        help="Sizes and durations of the benchmarks: seconds, minutes or hours",
    ),
    _Option(
        flag="--anubis-baselines",
        metavar="PATH",
        default="baselines",
        help="Folder of learned baselines, or one baseline file",
    ),
    _Option(
        flag="--anubis-store",
        metavar="DIR",
        env=ENV_STORE,
        default=".anubis",
        help="Folder that keeps runs and history",
    ),
    _Option(
        flag="--anubis-run-id",
        metavar="NAME",
        ini=False,
        help="Name of this run; default: date, time and node",
    ),
    _Option(
        flag="--anubis-fail-on",
        choices=("fail", "marginal"),
        default="fail",
        help="Mildest verdict that fails a test",
    ),
    _Option(
        flag="--anubis-require-all",
        switch=True,
        help="Let benchmarks without a criterion block acceptance",
    ),
    _Option(
        flag="--anubis-redact",
        switch=True,
        help="Leave serial numbers and addresses out of journals and reports",
    ),
    _Option(
        flag="--anubis-inventory",
        metavar="FILE",
        ini=False,
        help="Recorded inventory to use in place of this machine's",
    ),
    _Option(
        flag="--anubis-gate",
        choices=("stop", "continue", "off"),
        default="stop",
        help="What missing or wrong hardware does before any benchmark",
    ),
    _Option(
        flag="--anubis-timeout",
        metavar="SECONDS",
        help="Deadline of every test; default: from its declared cost",
    ),
    _Option(
        flag="--anubis-resume",
        metavar="RUN",
        ini=False,
        optional="latest",
        help="Go on with an interrupted run: the latest, or the one that is named",
    ),
    _Option(
        flag="--anubis-duration",
        metavar="TIME",
        ini=False,
        help="Soak: repeat the set until this time is over, e.g. 48h",
    ),
    _Option(
        flag="--anubis-scratch",
        metavar="DIR",
        help="Folder on the disk that is to be tested; default: pytest's temporary folder",
    ),
)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and ini key."""
    group = parser.getgroup("anubis", "hardware acceptance")
    for option in OPTIONS:
        text = option.help + (f" (default: {option.default})" if option.default else "")
        if option.switch:
            group.addoption(option.flag, dest=option.dest, action="store_true", help=text)
        elif option.choices:
            group.addoption(
                option.flag, dest=option.dest, choices=option.choices, default=None, help=text
            )
        elif option.optional:
            group.addoption(
                option.flag,
                dest=option.dest,
                metavar=option.metavar,
                nargs="?",
                const=option.optional,
                default=None,
                help=text,
            )
        else:
            group.addoption(
                option.flag, dest=option.dest, metavar=option.metavar, default=None, help=text
            )
        if option.ini:
            kind: Literal["bool", "string"] = "bool" if option.switch else "string"
            default = False if option.switch else ""
            parser.addini(option.dest, text, type=kind, default=default)
    parser.addini(
        "anubis_goals_required",
        "Folders in which every benchmark must state goal, question and action",
        type="paths",
        default=[],
    )


def resolve(config: pytest.Config, environ: Mapping[str, str] | None = None) -> Settings:
    """Resolve all settings once.

    Args:
        config: pytest's configuration.
        environ: Environment to read; default the process's.

    Raises:
        pytest.UsageError: A value is not valid; the message says where it stands and what is valid.
    """
    environ = os.environ if environ is None else environ
    raw = {option.dest: _raw(config, option, environ) for option in OPTIONS}
    base = config.rootpath
    return Settings(
        active=bool(raw["anubis"]),
        mode=raw["anubis_mode"],
        profile=raw["anubis_profile"],
        baselines=base / raw["anubis_baselines"],
        store=base / raw["anubis_store"],
        run_id=_run_id(raw["anubis_run_id"]),
        fail_on=raw["anubis_fail_on"],
        require_all=bool(raw["anubis_require_all"]),
        goals_required=tuple(Path(path) for path in config.getini("anubis_goals_required")),
        redact=bool(raw["anubis_redact"]),
        inventory=_optional(raw["anubis_inventory"], lambda text: base / text),
        gate=raw["anubis_gate"],
        resume=_resume(raw["anubis_resume"]),
        duration=_optional(raw["anubis_duration"], _duration),
        timeout=_optional(raw["anubis_timeout"], _timeout),
        scratch=_optional(raw["anubis_scratch"], lambda text: _folder(base / text)),
    )


def _raw(config: pytest.Config, option: _Option, environ: Mapping[str, str]) -> Any:
    given = config.getoption(option.dest)
    if option.switch:
        return bool(given) or (option.ini and bool(config.getini(option.dest)))
    if given is not None:
        return given
    places = []
    if option.env:
        places.append((f"environment variable {option.env}", environ.get(option.env, "")))
    if option.ini:
        places.append((f"ini key {option.dest}", config.getini(option.dest)))
    for place, value in places:
        if value:
            if option.choices and value not in option.choices:
                valid = ", ".join(option.choices)
                raise pytest.UsageError(f"{place} is {value!r}; valid values: {valid}")
            return value
    return option.default


def _optional(text: str, convert: Callable[[str], Any]) -> Any:
    return convert(text) if text else None


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise pytest.UsageError(f"--anubis-scratch {path}: no such folder; create it first")
    return path


def _timeout(text: str) -> float:
    try:
        limit = seconds(text)
    except ValueError as error:
        raise pytest.UsageError(f"--anubis-timeout: {error}") from error
    if limit <= 0:
        raise pytest.UsageError("--anubis-timeout must be more than 0 seconds")
    return limit


def _duration(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise pytest.UsageError(f"--anubis-duration: {error}") from error


def _resume(text: str) -> str:
    if "/" in text or text.endswith(".py"):
        # An optional value swallows the argument behind it.
        raise pytest.UsageError(
            f"--anubis-resume {text}: that is no run; write the tests first, or --anubis-resume=RUN"
        )
    return text


def _run_id(text: str) -> str:
    if text and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", text) is None:
        raise pytest.UsageError(
            f"--anubis-run-id {text!r}: use letters, digits, '.', '_' and '-', at most 128 characters"
        )
    return text
