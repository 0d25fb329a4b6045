"""All settings of a run, resolved and checked once: command line over environment over ini file over default.

`refuse_misspelt` suggests the right name for an unknown ``--anubis`` option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_anubis.durations import seconds
from pytest_anubis.options import (
    OPTIONS,
    QUIET_LIMITS,
    Option,
    Profile,
)
from pytest_anubis.options import add_options as add_options
from pytest_anubis.passwords import shown_place
from pytest_anubis.root_folder import moved_root

Selection = Literal["", "risk", "budget", "cost", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, resolved; the help of `OPTIONS` explains each option.

    Durations are in seconds. None and empty text mean that nothing is set.

    Attributes:
        active: ``--anubis`` was given.
        baselines: Folder of baseline files, or one baseline file.
        baseline_pin: Required digest of the baselines.
        history: Folder or database URL of the history; empty for the store.
        goals_required: Folders in which a benchmark without goal, question and action is an error.
        quiet_limits: Name of a limit -> share from which a measurement counts as disturbed.
        accepted_risk: Accepted probability of an incident; None for the mode's default.
    """

    active: bool = False
    mode: Literal["judge", "measure"] = "judge"
    profile: Profile = "smoke"
    baselines: Path = Path("baselines")
    baseline_pin: str = ""
    store: Path = Path(".anubis")
    history: str = field(default="", repr=False)  # may hold a password
    node: str = ""
    run_id: str = ""
    fail_on: Literal["fail", "marginal"] = "fail"
    require_all: bool = False
    require: tuple[str, ...] = ()
    other_machine: bool = False
    goals_required: tuple[Path, ...] = ()
    redact: bool = False
    inventory: Path | None = None
    junit: Literal["properties", "plain"] = "properties"
    in_process: bool = False
    timeout: float | None = None
    scratch: Path | None = None
    gate: Literal["stop", "continue", "off"] = "stop"
    resume: str = ""
    duration: float | None = None
    quiet_limits: Mapping[str, float] = field(default_factory=dict)
    split: tuple[str, ...] = ()
    allowed_processes: tuple[str, ...] = ()
    waivers: Path | None = None
    select: Selection = ""
    accepted_risk: float | None = None
    budget: float | None = None
    horizon: float = 86400.0
    incident_cost: float = 86400.0
    explore: float = 0.02
    seed: int | None = None
    explain: bool = False

    @property
    def history_place(self) -> Path | str:
        """Folder or database URL of the history."""
        if not self.history:
            return self.store
        return self.history if "://" in self.history else Path(self.history)


def without_password(settings: Settings) -> Settings:
    """Return the settings for the journal and the workers, without the password of a database."""
    return replace(settings, history=shown_place(settings.history))


def resolve(config: pytest.Config, environ: Mapping[str, str] | None = None) -> Settings:
    """Resolve all settings once.

    Raises:
        pytest.UsageError: A value is invalid; the message says where it was set and what is valid.
    """
    environ = os.environ if environ is None else environ
    raw = {option.dest: _raw(config, option, environ) for option in OPTIONS}
    if raw["anubis"] and (wrong := moved_root(config)):
        raise pytest.UsageError(wrong)
    base = config.rootpath
    place, pin = _pinned(raw["anubis_baseline"])
    return Settings(
        active=bool(raw["anubis"]),
        mode=raw["anubis_mode"],
        profile=raw["anubis_profile"],
        baselines=base / place,
        baseline_pin=pin,
        store=base / raw["anubis_store"],
        history=_history(raw["anubis_history"], base),
        node=raw["anubis_node"],
        run_id=_run_id(raw["anubis_run_id"]),
        fail_on=raw["anubis_fail_on"],
        require_all=bool(raw["anubis_require_all"]),
        require=_names(raw["anubis_require"]),
        other_machine=bool(raw["anubis_other_machine"]),
        goals_required=tuple(Path(path) for path in config.getini("anubis_goals_required")),
        redact=bool(raw["anubis_redact"]),
        inventory=_optional(raw["anubis_inventory"], lambda text: base / text),
        junit=raw["anubis_junit"],
        in_process=_in_process(config, raw),
        gate=raw["anubis_gate"],
        resume=_resume(raw["anubis_resume"]),
        duration=_optional(raw["anubis_duration"], _time("--anubis-duration", positive=False)),
        timeout=_optional(raw["anubis_timeout"], _time("--anubis-timeout")),
        scratch=_optional(raw["anubis_scratch"], lambda text: _folder(base / text)),
        quiet_limits=_quiet_limits(raw["anubis_quiet_limit"]),
        split=_names(raw["anubis_split"]),
        allowed_processes=tuple(filter(None, re.split(r"[,\s]+", raw["anubis_allow_process"]))),
        waivers=_optional(raw["anubis_waivers"], lambda text: base / text),
        **_selection(config, raw),
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, str(text or "").split(","))))


def _pinned(text: str) -> tuple[str, str]:
    """Split a path from the digest after ``@sha256:``; the digest is empty if there is none."""
    place, mark, pin = text.partition("@sha256:")
    if mark and re.fullmatch(r"[0-9a-fA-F]{64}", pin) is None:
        raise pytest.UsageError(
            f"--anubis-baseline {text[:80]!r}: write the 64 hexadecimal digits that sha256sum prints behind "
            "@sha256:"
        )
    return place, pin.lower()


_OWN_PREFIX = "--anubi"
"""Beginning of our options; pytest refuses other unknown ones itself."""

_MIN_LIKENESS = 0.8
"""Least `difflib` ratio of a misspelt option to its suggestion; high, since all our options begin alike."""


def refuse_misspelt(parser: pytest.Parser, words: Sequence[str]) -> None:
    """Refuse an unknown ``--anubis`` option, and suggest the one that was probably meant.

    Raises:
        pytest.UsageError: A word is an unknown option.
    """
    if not any(word.startswith(_OWN_PREFIX) for word in words):
        return
    unknown = parser.parse_known_and_unknown_args(words)[1]
    wrong = next((word for word in unknown if word.startswith(_OWN_PREFIX)), None)
    if wrong is None:
        return
    from difflib import get_close_matches  # late, since hardly any run needs it

    flags = [option.flag for option in OPTIONS]
    near = get_close_matches(wrong.partition("=")[0], flags, 1, _MIN_LIKENESS)
    hint = f"did you mean {near[0]}?" if near else "pytest --help lists the valid ones"
    raise pytest.UsageError(f"unrecognized arguments: {wrong} ({hint})")


def _in_process(config: pytest.Config, raw: Mapping[str, Any]) -> bool:
    """Return whether the tests run in this process.

    Raises:
        pytest.UsageError: The command line also asks for workers.
    """
    wanted = bool(raw["anubis_in_process"])
    workers = config.getoption("numprocesses", None) is not None or config.getoption("tx", None)
    if wanted and raw["anubis"] and workers:
        raise pytest.UsageError(
            "--anubis-in-process and -n (or --tx) exclude each other; leave one out, or with -n in addopts "
            "add -o addopts="
        )
    return wanted


def _selection(config: pytest.Config, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the Selector, checked together."""
    found = {
        "select": raw["anubis_select"],
        "accepted_risk": _optional(raw["anubis_risk"], _share("--anubis-risk", below_one=True)),
        "budget": _optional(raw["anubis_budget"], _time("--anubis-budget")),
        "horizon": _time("--anubis-horizon")(raw["anubis_horizon"]),
        "incident_cost": _time("--anubis-incident-cost")(raw["anubis_incident_cost"]),
        "explore": _share("--anubis-explore")(raw["anubis_explore"]),
        "seed": _optional(raw["anubis_seed"], _seed),
        "explain": bool(raw["anubis_explain"]),
    }
    if found["select"] == "budget" and found["budget"] is None:
        raise pytest.UsageError("--anubis-select=budget needs --anubis-budget, e.g. 20m")
    if config.getoption("anubis_budget") and found["select"] != "budget":
        raise pytest.UsageError("--anubis-budget belongs to --anubis-select=budget; add that")
    if config.getoption("anubis_risk") and found["select"] in ("", "all"):
        raise pytest.UsageError("--anubis-risk belongs to --anubis-select=risk; add that")
    if config.getoption("anubis_select") and not config.getoption("anubis"):
        raise pytest.UsageError("--anubis-select belongs to --anubis; add that")
    return found


def _raw(config: pytest.Config, option: Option, environ: Mapping[str, str]) -> Any:
    """Return an option's value as text (switches: bool) from the first place that sets it."""
    given = config.getoption(option.dest)
    if option.switch:
        return bool(given) or (option.ini and bool(config.getini(option.dest)))
    places = [(option.flag, given)]
    if option.env:
        places.append((f"environment variable {option.env}", environ.get(option.env) or None))
    if option.ini:
        places.append((f"ini key {option.dest}", config.getini(option.dest) or None))
    for place, value in places:
        if value is None:
            continue
        if value == "" and option.dest == "anubis_duration":
            return None  # a soak passes it to its cycles, to override a duration in the ini file
        if not str(value).replace(",", " ").strip():
            raise pytest.UsageError(f"{place} is blank: write what is meant, or leave it out")
        if option.choices and value not in option.choices:
            valid = ", ".join(option.choices)
            raise pytest.UsageError(f"{place} is {value!r}; valid values: {valid}")
        return value
    return option.default


def _optional(text: str, convert: Callable[[str], Any]) -> Any:
    return convert(text) if text else None


def _quiet_limits(text: str) -> dict[str, float]:
    """Parse limits such as ``others=20%, steal=0.05``."""
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        number = value.removesuffix("%").strip()
        share = float(number) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", number) else -1.0
        share = share / 100 if value.endswith("%") else share
        if name not in QUIET_LIMITS or not 0 <= share <= 1:
            raise pytest.UsageError(
                f"--anubis-quiet-limit {part!r}: write NAME=SHARE with a share from 0 to 1 or in percent, "
                f"e.g. others=20%; names: {', '.join(QUIET_LIMITS)}"
            )
        found[name] = share
    return found


def _history(text: str, base: Path) -> str:
    return text if not text or "://" in text else str(base / text)


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise pytest.UsageError(f"--anubis-scratch {path}: no such folder; create it first")
    place = path.resolve()
    if place.is_relative_to("/dev") and not place.is_relative_to("/dev/shm"):  # noqa: S108 - of files
        raise pytest.UsageError(f"--anubis-scratch {path}: holds devices; choose another folder")
    if not os.access(path, os.W_OK | os.X_OK):
        raise pytest.UsageError(
            f"--anubis-scratch {path}: cannot be written; choose another folder"
        )
    return path


def _time(flag: str, *, positive: bool = True) -> Callable[[str], float]:
    """Return a converter of durations; `positive` refuses 0."""

    def convert(text: str) -> float:
        try:
            found = seconds(text)
        except ValueError as error:
            raise pytest.UsageError(f"{flag}: {error}") from error
        if positive and found <= 0:
            raise pytest.UsageError(f"{flag} must be more than 0 seconds")
        return found

    return convert


def _share(flag: str, *, below_one: bool = False) -> Callable[[str], float]:
    """Return a converter of probabilities; `below_one` refuses 1."""

    def convert(text: str) -> float:
        most = "below 1" if below_one else "at most 1"
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not 0 <= found <= 1 or (below_one and found == 1):
            raise pytest.UsageError(
                f"{flag} {text!r}: give a probability from 0, {most}, e.g. 0.01"
            )
        return found

    return convert


def _seed(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text):
        raise pytest.UsageError(f"--anubis-seed {text!r}: give a whole number of 0 or more")
    return int(text)


def _resume(text: str) -> str:
    if "/" in text or text.endswith(".py"):
        # argparse takes the argument after an option with an optional value for that value.
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
