"""Find, check, seal and write baseline files, one for each hardware class.

A seal here is a digest that reveals edits, not a signature. Reading also raises the detectable loss of a
criterion whose thresholds let more pass than it states.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from pytest_anubis.codec import CodecError, parse_json, read_bytes
from pytest_anubis.core.baseline import MIN_THRESHOLD, Baseline, Criterion
from pytest_anubis.store.atomic import write_atomically
from pytest_anubis.store.baselines.baseline_form import BaselineError as BaselineError
from pytest_anubis.store.baselines.baseline_form import (
    baseline_from_plain,
    baseline_to_plain,
    digest_of,
)

_ROUNDING = 1 - 1e-6
"""Ratio of a stated to a computed loss below which they differ by more than rounding to eight digits."""

_BETTER_SHARE = 0.05
"""Share of healthy units that are better than the one whose loss is stated, as in learning."""

LARGEST_BASELINE = 256 << 20
"""Bytes of a baseline: ten thousand criteria, a whole SuperBench, take some 50 MiB."""


def baseline_file_name(hardware_class: str) -> str:
    """Return the file name of a class's baseline: its key, with ``-`` for forbidden characters."""
    name = re.sub(r"[^A-Za-z0-9._+@=-]+", "-", hardware_class).strip(".-")
    return f"{name or 'unnamed'}.json"


def baseline_place(hardware_class: str, folder: Path) -> Path:
    """Return the file that a class's baseline is written to; `folder` may be a ``.json`` file itself."""
    is_file = folder.suffix == ".json" and not folder.is_dir()
    return folder if is_file else folder / baseline_file_name(hardware_class)


def find_baseline(folder: Path, hardware_class: str) -> Path | None:
    """Return the file of a class's baseline; None if there is none.

    One file in place of a folder is returned for every class; `load_baseline` checks its class.
    """
    if folder.is_file():
        return folder
    path = folder / baseline_file_name(hardware_class)
    try:
        return path if path.exists() else None
    except OSError:
        return None  # the class's name is too long for that of a file


def load_baseline(
    path: Path, *, hardware_class: str | None = None, sealed: bool = True
) -> Baseline:
    """Read and check a baseline of a class; None takes any.

    A sealed one must match its digest; ``anubis baseline promote`` reads an edited file and seals it again. A
    criterion states no smaller loss than its thresholds, which may have been edited, can find.

    Raises:
        BaselineError: The file cannot be read, is malformed, is another class's, or was edited after it
            was sealed; one line that names the file, the place and the fix.
    """
    try:
        content = read_bytes(path, largest=LARGEST_BASELINE)
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read ({error.strerror})") from error
    except CodecError as error:
        raise BaselineError(f"{path}: {error}; restore the file or learn it again") from None
    return baseline_of_bytes(content, str(path), hardware_class=hardware_class, sealed=sealed)


def baseline_of_bytes(
    content: bytes, place: str, *, hardware_class: str | None = None, sealed: bool = True
) -> Baseline:
    """Check the content of a baseline's file, as `load_baseline`; `place` is its name in errors."""
    try:
        baseline = baseline_from_plain(parse_json(content, largest=LARGEST_BASELINE))
    except CodecError as error:
        raise BaselineError(f"{place}: {error}; restore the file or learn it again") from None
    except BaselineError as error:
        raise BaselineError(f"{place}: {error}") from None
    if hardware_class is not None and baseline.hardware_class != hardware_class:
        raise BaselineError(
            f"{place}: hardware_class: this baseline is for {baseline.hardware_class!r}, not for "
            f"{hardware_class!r}; learn one for this class with `anubis learn`"
        )
    actual = digest_of(baseline)
    if sealed and baseline.digest != actual:
        raise BaselineError(
            f"{place}: digest: the content was edited after it was sealed (digest "
            f"{baseline.digest or 'missing'}, content {actual}); review it, then run "
            f"`anubis baseline promote {place}`"
        )
    return dataclasses.replace(with_true_losses(baseline), digest=actual)


def load_baselines(folder: Path) -> dict[str, Baseline]:
    """Read every baseline of a folder (or the one file), by hardware class.

    Raises:
        BaselineError: One is malformed, two are for one class, or a file's name is not its class's.
    """
    if folder.is_file():
        baseline = load_baseline(folder)
        return {baseline.hardware_class: baseline}
    if not folder.is_dir():
        raise BaselineError(
            f"{folder}: no such folder or file; learn a baseline with 'anubis learn'"
        )
    found: dict[str, Baseline] = {}
    for path in sorted(folder.glob("*.json")):
        baseline = load_baseline(path)
        name = baseline_file_name(baseline.hardware_class)
        if path.name != name:
            raise BaselineError(
                f"{path}: hardware_class: a baseline for {baseline.hardware_class!r} must be named "
                f"{name}; rename the file or move it out of this folder"
            )
        if baseline.hardware_class in found:
            raise BaselineError(f"{path}: hardware_class: a second baseline for one class")
        found[baseline.hardware_class] = baseline
    return found


def seal(baseline: Baseline) -> Baseline:
    """Return the baseline as a file has it: numbers rounded, digest set.

    Raises:
        BaselineError: It has a value that no baseline file may have.
    """
    rounded = baseline_from_plain(baseline_to_plain(baseline))
    return dataclasses.replace(rounded, digest=digest_of(rounded))


def save_baseline(baseline: Baseline, folder: Path) -> Path:
    """Seal a baseline, write it atomically to its `baseline_place`, and return the file.

    Raises:
        BaselineError: The baseline is not valid or the disk refuses; an older file is left as it was.
    """
    plain = baseline_to_plain(seal(baseline))
    path = baseline_place(baseline.hardware_class, folder)
    try:
        write_atomically(path, _pretty(plain, "") + "\n")
    except OSError as error:
        raise BaselineError(
            f"{path}: cannot be written ({error.strerror}); choose another folder or make room"
        ) from error
    return path


def with_true_losses(baseline: Baseline) -> Baseline:
    """Return the baseline, and its digest, with no criterion that states a loss its thresholds let pass."""
    return dataclasses.replace(baseline, criteria=tuple(map(_with_true_loss, baseline.criteria)))


def _with_true_loss(criterion: Criterion) -> Criterion:
    stated = criterion.detectable
    typical, lucky = _failing_losses(criterion)
    if stated is None or stated >= _ROUNDING * typical:
        return criterion
    return dataclasses.replace(criterion, detectable=lucky)


def _failing_losses(criterion: Criterion) -> tuple[float, float]:
    """Return the losses at which a typical unit fails, and one that is better than nineteen in twenty.

    A unit that is better than typical by a share b and then loses x is ``(1 + b) (1 - x)`` as good as typical
    (`validator.limits.power.detectable`). The file has no b, so it is estimated from the kept medians.
    """
    lower = criterion.metric.better == "lower"
    learned = 1.0 if criterion.learned is None else criterion.learned
    threshold = max(min(criterion.alpha, learned), MIN_THRESHOLD)  # an edited file may say 0
    if not criterion.centre:
        return 0.0, 0.0
    typical = criterion.typical
    place = round((_BETTER_SHARE if lower else 1 - _BETTER_SHARE) * (len(criterion.medians) - 1))
    best = criterion.medians[place] if criterion.medians else typical
    better, worse = (typical, best) if lower else (best, typical)
    lucky = max(better / worse - 1, 0.0) if worse > 0 else 0.0
    return _loss(threshold, lower), _loss(threshold / (1 + lucky), lower)


def _loss(similarity: float, lower: bool) -> float:
    """Return the relative loss of a unit with this similarity; a duration loses by being longer."""
    return float(f"{1 / similarity - 1 if lower else 1 - similarity:.8g}")  # as a file has it


def _pretty(value: Any, indent: str) -> str:
    """Format JSON for people: one field a line, with a list of numbers or words on its field's line."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        lines = (f"{inner}{_flat(key)}: {_pretty(value[key], inner)}" for key in sorted(value))
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + _pretty(v, inner) for v in value) + f"\n{indent}]"
    return _flat(value)


def _flat(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)
