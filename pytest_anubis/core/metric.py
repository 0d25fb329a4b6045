"""Metrics with unit and direction, and the texts of their values and losses.

Validator, terminal and pages format by the functions here, so that a value has the same digits everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import groupby
from typing import Annotated, Literal, get_args

from pytest_anubis.core.field_types import Compact, Range, Rare, compact
from pytest_anubis.core.nominal_rate import NominalRate

Direction = Literal["higher", "lower", "equal"]
DIRECTIONS: tuple[str, ...] = get_args(Direction)

Variant = tuple[str, str, int]
"""Unit, direction and version, which samples of a metric must share to be comparable."""

EXACT = 2**53
"""Largest whole number up to which a float, the type of every value, is exact."""

_TIMES = frozenset(
    ("ns", "us", "\N{MICRO SIGN}s", "\N{GREEK SMALL LETTER MU}s", "ms", "s", "min", "h")
)


class MetricError(ValueError):
    """A metric was declared or recorded in a way that cannot be judged."""


@compact("defaults")
@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One quantity on a ratio scale (never negative).

    Attributes:
        name: Name within its benchmark, e.g. ``gemm_rate``.
        unit: Unit of every value, e.g. ``TFLOP/s``; ``count`` for counts, ``1`` for ratios.
        better: ``higher`` or ``lower`` is better; ``equal`` for exact results such as error counts.
            There is no default, since a guessed direction would invert every verdict.
        goal: What the measurement is for (the G of Goal-Question-Metric).
        question: What the metric answers (the Q).
        action: What to do when the metric is bad.
        expect: The right value of an exact metric, if known; a count of faults has 0 by default (`right`).
        version: Increased when a benchmark changes what it measures, or for how long: values of different
            versions are never compared.
        part_of: Metric of the same test and unit that this one is a part of; empty if it is none.
        nominal: What the hardware could deliver at best; None if unknown.

    Raises:
        MetricError: The name or the unit is empty or unprintable, the direction is unknown, a metric that
            is not exact has an expected value, or the version is below 1.
    """

    name: str
    unit: str
    better: Direction
    goal: str = ""
    question: str = ""
    action: str = ""
    version: Annotated[int, Range(least=1), Compact] = 1
    expect: Annotated[float | None, Rare] = None
    part_of: Annotated[str, Rare] = ""
    nominal: Annotated[NominalRate | None, Rare] = None

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise MetricError(f"metric name {self.name!r} is empty or unprintable; give it a name")
        if not self.unit.strip() or not self.unit.isprintable():
            raise MetricError(
                f"metric {self.name!r} has no unit; give one such as unit='GB/s' "
                "('count' for counts, '1' for ratios)"
            )
        if self.better not in DIRECTIONS:
            raise MetricError(
                f"metric {self.name!r} has better={self.better!r}; "
                "say better='higher', better='lower' or better='equal'"
            )
        if self.expect is not None and not (self.better == "equal" and 0 <= self.expect < math.inf):
            raise MetricError(
                f"metric {self.name!r} has expect={self.expect}; only better='equal' has one right value, "
                "a number that is not negative"
            )
        if self.version < 1:
            raise MetricError(f"metric {self.name!r} has version {self.version}; the first is 1")

    @property
    def variant(self) -> Variant:
        """Unit, direction and version, which two samples must share to be compared."""
        return self.unit, self.better, self.version

    @property
    def counts_faults(self) -> bool:
        """Whether it counts faults, by its unit or name."""
        return counts_faults(self.name, self.unit)

    @property
    def right(self) -> float | None:
        """The right value of an exact metric, whatever most nodes have; None if unknown."""
        if self.better != "equal":
            return None
        return 0.0 if self.expect is None and self.counts_faults else self.expect

    @property
    def is_duration(self) -> bool:
        """Whether it is a duration, in a unit such as ``ms`` or ``us/step``, which can never be 0."""
        return self.better == "lower" and _is_time(self.unit)

    @property
    def is_rate(self) -> bool:
        """Whether it is a rate, in a unit such as ``GB/s``; if all values are 0 nothing was measured."""
        return self.better == "higher" and _is_rate(self.unit)


_RATES = ("/s", "/sec", "/second", "/min", "/h", "bps", "flops", "iops", "hz", " per second")
"""Endings of the units of rates, in lower case."""
_BARE = frozenset({"count", "counts", "1", "%", "percent", "ratio", "share", "number"})
"""Units that do not say what is counted."""
_FAULT = re.compile(
    r"(?i)(?<![a-z])(?:\w*errors?|err|faults?|fail(?:ed|s|ures?)?|mismatch(?:es)?|wrong|corrupt\w*|warnings?|"
    r"violations?|flips?|retransmits?|retries|replays|drop(?:s|ped)?|lost|losses|defects?|not_?passed|"
    r"return_?codes?|exit_?codes?|\w*uncorrect\w*)(?![a-z])"
)
_UNIT_FACTORS = (8, 60, 1000, 1024, 3600, 8000, 10**6, 2**20, 8 * 10**6, 10**9, 2**30)
"""Factors between units of one quantity: bits and bytes, seconds and minutes, kilo, mega, giga, kibi."""
_FACTOR_TOLERANCE = 0.011
"""Relative distance of a ratio from such a factor; it distinguishes 1000 from 1024."""
_MULTIPLE = 0.5
"""Similarity of a time at or below which its loss is written as a multiple ("2 times as long"), not in %."""
_FRACTION = 0.1
"""The same limit for a rate, lower since "85 % slower" is still easy to read."""
_COUNTS = frozenset({"count", "1"})
"""Units that are not written after an exact value: "must be 0 count" is hard to read."""
_MAX_DECIMALS = 9
"""Decimals of a loss; losses that agree in all of them are shown as equal."""


def counts_faults(name: str, unit: str) -> bool:
    """Return whether a metric counts faults, by its unit or, if that says nothing, by its name."""
    return bool(_FAULT.search(name if unit.lower() in _BARE else unit))


_UNIT_TEXT = """
    1 % unit count ratio percent share s sec second min minute h hour day b byte bit bps flop flops
    ops op iop iops sample token step image img picture file frame query request queries prompt word epoch
    iteration iter batch call message msg packet pkt page line edge vertex vertices ray job task
    transaction event error cycle instruction launch kernel hz j joule w watt wh v volt a ampere k
    °c °f degc c celsius kelvin m meter g pa rpm db dbm cpu core gpu card device per node rank
    thread process worker user row block sector lane
    it tok seq sequence sentence example character char atom particle cell site score point degree
    update up lookup read write hit miss pair transfer t te tuple record loop context switch
"""
_UNIT_WORDS = frozenset(_UNIT_TEXT.split())
"""Words of units in lower case and the singular: those of SI, and those that common tools write."""
_UNIT_PREFIX = re.compile(r"^(?:[kmgtpezunµμ]i?|kilo|mega|giga|tera|peta|milli|micro|nano)(?=.)")


def is_known_unit(unit: str) -> bool:
    """Return whether a unit consists of known words: ``GB/s``, ``us/step``, ``TFLOPS``.

    A benchmark may use any word; in an imported table an unknown one is more often a mistake.
    """
    terms = re.split(r"\s*[/*·]\s*|\s+", unit.strip().lower())
    return all(_is_unit_word(term.strip(" ()")) for term in terms)


def _is_unit_word(term: str) -> bool:
    """Return whether a term is a known word, perhaps with a prefix, a power, or in the plural."""
    term = re.sub(r"(?:\^?-?[²³23])$", "", term) or term
    bare = term.removesuffix("ps") if len(term) > 3 else term  # as in GBps
    forms = {term, bare, term.removesuffix("s")} if len(term) > 3 else {term}
    forms |= {_UNIT_PREFIX.sub("", form) for form in forms}
    return not forms.isdisjoint(_UNIT_WORDS)


def _is_time(unit: str) -> bool:
    return unit.partition("/")[0].strip() in _TIMES


def _is_rate(unit: str) -> bool:
    return unit.lower().rstrip().endswith(_RATES)


def whole_of(component: str) -> str:
    """Return the benchmark id under which all metrics of a component are judged together."""
    return f"{component} (all metrics)"


def wholes_of(component: str) -> list[str]:
    """Return a component and its parents: ``network.loopback``, ``network``."""
    words = component.split(".")
    return [".".join(words[:count]) for count in range(len(words), 0, -1)]


def value_text(value: float | None, unit: str = "") -> str:
    """Return a measured value with four significant digits, and its unit if one is given.

    The unit ``1`` of a ratio is not written. A missing value is a dash; other values that are no numbers are
    NaN, Infinity and -Infinity.
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    elif value == 0:
        text = "0"
    elif 1e-4 <= abs(value) < 1e7:
        digits = max(0, 3 - math.floor(math.log10(abs(value))))
        text = f"{value:.{digits}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
    else:
        text = f"{value:.3e}"
    return f"{text} {'' if unit == '1' else unit}".rstrip()


def measured_text(value: float | None, expected: float | None, unit: str) -> str:
    """Return a value and the expected one: ``402 GB/s, expected 439``."""
    more = "" if expected is None else f", expected {value_text(expected)}"
    return f"{value_text(value, unit)}{more}"


def slip_of(ratio: float) -> str:
    """Return the factor between two units that a ratio of values, or its inverse, is close to; else empty."""
    ratio = 1 / ratio if 0 < ratio < 1 else ratio
    near = (one for one in _UNIT_FACTORS if abs(ratio / one - 1) <= _FACTOR_TOLERANCE)
    return str(next(near, ""))


def slip_text(ratio: float) -> str:
    """Return a hint that two values may be in two units, with a leading blank; else empty."""
    factor = slip_of(ratio)
    return f" (a factor of {factor}: another unit?)" if factor else ""


def exact_text(value: float, unit: str, name: str = "") -> str:
    """Return a value of an exact metric with all of its digits, and its unit unless it is a count.

    The unit ``errors`` adds nothing to a metric with the name ``errors``.
    """
    bare = unit in _COUNTS or (name and name.endswith(unit))
    return f"{value:.15g}" if bare else f"{value:.15g} {unit}".rstrip()


def similarity_text(value: float | None) -> str:
    """Return a similarity in [0, 1] with four decimals, never rounded up to 1."""
    if value is None:
        return "-"
    text = f"{value:.4f}"
    return "0.9999" if text == "1.0000" and value < 1 else text


def percent_text(share: float, decimals: int | None = None) -> str:
    """Return a share as a percentage with about two significant digits; never a small one as 0.

    `decimals` are those of the percentage; None picks them.
    """
    if not math.isfinite(share):
        return f"{share} %"
    hundredth = 100 * share
    if decimals is None:
        if hundredth == 0:
            return "0 %"
        if abs(hundredth) < 0.005:
            return "<0.01 %" if hundredth > 0 else ">-0.01 %"
        decimals = 0 if abs(hundredth) >= 9.95 else 1 if abs(hundredth) >= 0.995 else 2
    return f"{hundredth:.{decimals}f} %"


def relative_loss(similarity: float, better: str) -> float:
    """Return a one-sided similarity as the loss of a uniformly worse unit, relative to what is normal.

    All texts show losses on this scale: .12 is 12 % lower where higher is better, 12 % longer (or higher)
    where lower is; 29 is thirty times as long, and infinite if 0 is normal. For exact metrics it is the share
    of values that differ.
    """
    if better != "lower":
        return 1 - similarity
    return 1 / similarity - 1 if similarity > 0 else math.inf


@lru_cache(maxsize=256)  # thousands of losses are shown next to the same limit
def loss_size(similarity: float, better: str, decimals: int | None = None) -> str:
    """Return the size of a loss without its direction: ``12 %``, ``30 times``.

    The similarity is one-sided, 0 to 1. Without a number of decimals the loss itself picks it.
    """
    if better == "lower" and similarity <= 0:
        return "any amount"
    multiple = {"lower": _MULTIPLE, "higher": _FRACTION}.get(better, 0.0)
    if 0 < similarity <= multiple:  # the same number as in `loss_text`
        return f"{_times(similarity, decimals)} times"
    return percent_text(relative_loss(similarity, better), decimals)


def size_text(loss: float, better: str) -> str:
    """Return `loss_size` of a relative loss, which `relative_loss` returns."""
    return loss_size(1 / (1 + loss) if better == "lower" else max(0.0, 1 - loss), better)


def found_from(loss: float | None, better: str) -> str:
    """Return the smallest detectable loss: ``91 %`` of a rate, ``2.3 times`` of a time, or a dash.

    A loss of a rate is rounded to 100 % only if it is all of it.
    """
    if loss is None:
        return "-"
    if better == "lower" or not 0 < loss < 1:
        return size_text(loss, better)
    texts = (percent_text(loss, decimals) for decimals in (None, *range(1, _MAX_DECIMALS)))
    return next((text for text in texts if float(text.split()[0].strip("<")) < 100), ">99 %")


def loss_text(
    similarity: float,
    better: str,
    unit: str,
    *,
    than: str = "",
    shape: bool = False,
    decimals: int | None = None,
) -> str:
    """Return a loss in words: ``12 % slower``, ``30 times as long``, ``1/20 of it``, ``no worse``.

    Args:
        similarity: One-sided, of the worse to the normal values, 0 to 1; 1 is no loss.
        better: The metric's direction, ``higher`` or ``lower``.
        unit: The metric's unit: rates are slower, times longer, other values lower or higher.
        than: The other side of the comparison in words, e.g. ``the expected 11 GB/s``; may be empty.
        shape: The loss is one of the distribution and not of its median: it is ``worse``.
        decimals: Decimals of the number; None picks them.
    """
    if similarity >= 1:
        return f"no worse than {than}" if than else "no worse"
    lower = better == "lower"
    if similarity <= 0:
        return (
            f"above {than or 'zero'}" if lower else f"nothing{f' of {than}' if than else ' at all'}"
        )
    longer, rate = lower and _is_time(unit), _is_rate(unit)
    if similarity > (_MULTIPLE if lower else _FRACTION):
        word = "longer" if longer else "higher" if lower else "slower" if rate else "lower"
        size = percent_text(relative_loss(similarity, better), decimals)
        return f"{size} {'worse' if shape else word}{f' than {than}' if than else ''}"
    if not lower and not rate and not shape:
        return f"1/{_times(similarity, decimals)} of {than or 'it'}"
    word = "bad" if shape else "long" if longer else "high" if lower else "slow"
    return f"{_times(similarity, decimals)} times as {word}{f' as {than}' if than else ''}"


_MAX_CASES = 3
"""Parameters of one test and metric that a list names; more are counted."""


def named_by(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern with ``*`` and ``?``; brackets match themselves."""
    return pattern == name or fnmatchcase(name, pattern.replace("[", "[[]"))


def metric_name(*words: str) -> str:
    """Return benchmark, metric and perhaps a device with blanks between; repeated words once.

    Tables of other tools often have one name for benchmark and metric. Empty words are left out.
    """
    return " ".join(word for word, _ in groupby(filter(None, words)))


def metric_names(metrics: Iterable[tuple[str, str]]) -> list[str]:
    """Return names that distinguish the metrics of a list: ``load_latency[dram]``.

    A metric is given as benchmark id and name. Its name has the parameters of its test, and the test if
    several record that name; many parameters are ``5 of load_latency``.
    """
    tests: dict[str, dict[str, list[str]]] = {}
    for benchmark, name in dict.fromkeys(metrics):
        test, bracket, parameters = benchmark.rpartition("::")[2].partition("[")
        tests.setdefault(name, {}).setdefault(test, []).append(bracket + parameters)
    found = []
    for name, of_tests in tests.items():
        for test, parameters_of in of_tests.items():
            full = f"{test} {name}".lstrip() if len(of_tests) > 1 else name
            if len(parameters_of) > _MAX_CASES:
                found.append(f"{len(parameters_of)} of {full}")
            else:
                found += [full + parameters for parameters in parameters_of]
    return found


def first_of(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first names in a line, and how many more: ``a, b and 3 more`` or ``a; b; and 3 more``."""
    before = " " if between == ", " else between
    more = f"{before}and {len(names) - most} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"


_SAME, _ALIKE = 0.01, 1.1
"""Two losses are shown as one if their similarities differ by a hundredth at most, or the losses by an
eleventh of the larger one; never if the similarities differ by a tenth, since readers divide value and
expected value: a loss of 18 times and one of 21 times are both shown."""


def differs_by_median(similarity: float, of_medians: float) -> bool:
    """Return whether a sample's loss is that of its median; else its text must name the distribution.

    Both are one-sided similarities: of the sample to what is normal, and of its median to the expected one.
    """
    low, high = sorted((similarity, of_medians))
    tolerance = max(_SAME, (1 - low) * (1 - 1 / _ALIKE))
    return high - low <= tolerance and high <= _ALIKE * low


def distinguishing_decimals(similarity: float, threshold: float, better: str) -> int | None:
    """Return how many decimals distinguish a loss from the allowed one; None if the usual ones do."""
    choices: tuple[int | None, ...] = (None, *range(1, _MAX_DECIMALS))
    for decimals in choices:
        if loss_size(similarity, better, decimals) != loss_size(threshold, better, decimals):
            return decimals
    return None


def _times(similarity: float, decimals: int | None) -> str:
    """Return the inverse of a similarity, with two digits unless decimals are given."""
    ratio = 1 / similarity
    if not math.isfinite(ratio):
        return "endlessly many"
    return (
        f"{ratio:.{decimals}f}" if decimals else f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"
    )
