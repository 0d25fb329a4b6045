"""A strict checker of OCP Test & Validation JSONL, schema 2.0, written from the specification's tables.

It knows the objects with their required and optional fields, and the order that a consumer relies on.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Rule = Callable[[Any], bool]

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")
ENDS = {
    ("SKIP", "NOT_APPLICABLE"),
    ("ERROR", "NOT_APPLICABLE"),
    ("COMPLETE", "PASS"),
    ("COMPLETE", "FAIL"),
}


def text(value: Any) -> bool:
    return isinstance(value, str)


def filled(value: Any) -> bool:
    return text(value) and bool(value)


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def scalar(value: Any) -> bool:
    return text(value) or number(value) or isinstance(value, bool)


def mapping(value: Any) -> bool:
    return isinstance(value, dict)


def flat(value: Any) -> bool:
    return mapping(value) and not any(isinstance(one, dict | list) for one in value.values())


def place(value: Any) -> bool:
    return whole(value) and value < 2**31


def moment(value: Any) -> bool:
    return text(value) and TIME.fullmatch(value) is not None


def one_of(*words: str) -> Rule:
    return lambda value: value in words


def texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(text, value))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """An object: its required and optional fields, and groups of which exactly one is there."""

    needed: Mapping[str, Any] = field(default_factory=dict)
    allowed: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Many:
    """A list of objects of one shape."""

    shape: Shape


SOURCE = Shape(needed={"file": text, "line": whole})
SUBCOMPONENT = Shape(
    needed={"name": filled},
    allowed={
        "type": one_of("UNSPECIFIED", "ASIC", "ASIC-SUBSYSTEM", "BUS", "FUNCTION", "CONNECTOR"),
        **dict.fromkeys(("location", "version", "revision"), text),
    },
)
NUMERIC = ("LESS_THAN", "LESS_THAN_OR_EQUAL", "GREATER_THAN", "GREATER_THAN_OR_EQUAL")
VALIDATOR = Shape(
    needed={
        "type": one_of(
            *NUMERIC, "EQUAL", "NOT_EQUAL", "REGEX_MATCH", "REGEX_NO_MATCH", "IN_SET", "NOT_IN_SET"
        ),
        "value": scalar,
    },
    allowed={"name": filled, "metadata": mapping},
)
MEASURED = {
    "unit": filled,
    "validators": Many(VALIDATOR),
    "hardwareInfoId": filled,
    "subcomponent": SUBCOMPONENT,
    "metadata": mapping,
}
LOG = Shape(
    needed={"severity": one_of("INFO", "DEBUG", "WARNING", "ERROR", "FATAL"), "message": text},
    allowed={"sourceLocation": SOURCE},
)
ERROR = Shape(
    needed={"symptom": filled},
    allowed={"message": text, "softwareInfoIds": texts, "sourceLocation": SOURCE},
)
SOFTWARE = Shape(
    needed={"softwareInfoId": filled, "name": filled},
    allowed={
        **dict.fromkeys(("version", "revision", "computerSystem"), text),
        "softwareType": one_of("UNSPECIFIED", "FIRMWARE", "SYSTEM", "APPLICATION"),
    },
)
HARDWARE = Shape(
    needed={"hardwareInfoId": filled, "name": filled},
    allowed=dict.fromkeys(
        (
            "version", "revision", "location", "serialNumber", "partNumber", "partType", "manufacturer",
            "manufacturerPartNumber", "odataId", "computerSystem", "manager",
        ),
        text,
    ),
)  # fmt: skip
DUT = Shape(
    needed={"dutInfoId": filled},
    allowed={
        "name": text,
        "platformInfos": Many(Shape(needed={"info": filled})),
        "softwareInfos": Many(SOFTWARE),
        "hardwareInfos": Many(HARDWARE),
        "metadata": flat,
    },
)
RUN_START = Shape(
    needed={
        "name": filled,
        "version": filled,
        "commandLine": text,
        "parameters": mapping,
        "dutInfo": DUT,
    },
    allowed={"metadata": mapping},
)
STATUS = one_of("COMPLETE", "ERROR", "SKIP")
RUN = Shape(
    choice={
        "testRunStart": RUN_START,
        "testRunEnd": Shape(
            needed={"status": STATUS, "result": one_of("NOT_APPLICABLE", "PASS", "FAIL")}
        ),
        "log": LOG,
        "error": ERROR,
    }
)
STEP = Shape(
    needed={"testStepId": filled},
    choice={
        "testStepStart": Shape(needed={"name": filled}),
        "testStepEnd": Shape(needed={"status": STATUS}),
        "measurement": Shape(needed={"name": filled, "value": scalar}, allowed=MEASURED),
        "measurementSeriesStart": Shape(
            needed={"name": filled, "measurementSeriesId": filled}, allowed=MEASURED
        ),
        "measurementSeriesElement": Shape(
            needed={
                "index": whole, "value": scalar, "timestamp": moment, "measurementSeriesId": filled,
            },
            allowed={"metadata": mapping},
        ),
        "measurementSeriesEnd": Shape(needed={"measurementSeriesId": filled, "totalCount": whole}),
        "diagnosis": Shape(
            needed={"verdict": filled, "type": one_of("PASS", "FAIL", "UNKNOWN")},
            allowed={
                "message": text,
                "hardwareInfoId": filled,
                "subcomponent": SUBCOMPONENT,
                "sourceLocation": SOURCE,
            },
        ),
        "error": ERROR,
        "log": LOG,
        "file": Shape(
            needed={"displayName": text, "uri": text, "isSnapshot": lambda v: isinstance(v, bool)},
            allowed={"description": text, "contentType": text, "metadata": mapping},
        ),
        "extension": Shape(needed={"name": filled, "content": mapping}),
    },
)  # fmt: skip
LINE = Shape(
    needed={"sequenceNumber": place, "timestamp": moment},
    choice={
        "schemaVersion": Shape(needed={"major": lambda v: v == 2, "minor": lambda v: v == 0}),
        "testRunArtifact": RUN,
        "testStepArtifact": STEP,
    },
)


def wrong_shape(value: Any, rule: Any, place: str) -> list[str]:
    """Return what is wrong with a value, one phrase each."""
    if value is None:
        return [f"{place} is null"]
    if isinstance(rule, Many):
        if not isinstance(value, list):
            return [f"{place} is no list"]
        return [
            w for n, one in enumerate(value) for w in wrong_shape(one, rule.shape, f"{place}[{n}]")
        ]
    if not isinstance(rule, Shape):
        return [] if rule(value) else [f"{place} is {value!r}"]
    if not isinstance(value, dict):
        return [f"{place} is no object"]
    rules = {**rule.needed, **rule.allowed, **rule.choice}
    found = [f"{place} lacks {name}" for name in rule.needed if name not in value]
    found += [f"{place} has {name}" for name in value if name not in rules]
    if rule.choice and len(rule.choice.keys() & value.keys()) != 1:
        found.append(f"{place} has not exactly one of {', '.join(rule.choice)}")
    for name, item in value.items():
        if name in rules:
            found += wrong_shape(item, rules[name], f"{place}.{name}")
    return found


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


MEETS: dict[str, Callable[[Any, Any], bool]] = {
    "EQUAL": operator.eq,
    "NOT_EQUAL": operator.ne,
    "LESS_THAN": operator.lt,
    "LESS_THAN_OR_EQUAL": operator.le,
    "GREATER_THAN": operator.gt,
    "GREATER_THAN_OR_EQUAL": operator.ge,
}


@dataclass
class _Step:
    """A step that is open: its series with their counts, and a broken limit that nothing explains yet."""

    series: dict[str, int] = field(default_factory=dict)
    broken: str = ""


class _Order:
    """What a consumer keeps in mind while it reads."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.open: dict[str, _Step] = {}
        self.closed: set[str] = set()
        self.hardware: set[str] = set()
        self.began = self.ended = False
        self.latest = ""

    def time(self, stamp: str) -> None:
        if stamp < self.latest:  # all of them have one form
            self.wrong.append(f"{stamp} comes after {self.latest}")
        self.latest = stamp

    def run(self, artifact: Any) -> None:
        if "testRunStart" in artifact:
            if self.began:
                self.wrong.append("a second testRunStart")
            self.began = True
            infos = artifact["testRunStart"]["dutInfo"].get("hardwareInfos", [])
            ids = [one["hardwareInfoId"] for one in infos]
            software = artifact["testRunStart"]["dutInfo"].get("softwareInfos", [])
            for given in (ids, [one["softwareInfoId"] for one in software]):
                if len(set(given)) < len(given):
                    self.wrong.append("an id of a part twice")
            self.hardware = set(ids)
        elif "testRunEnd" in artifact:
            end = artifact["testRunEnd"]
            if (end["status"], end["result"]) not in ENDS:
                self.wrong.append(f"the run ends {end['status']}/{end['result']}")
            if self.open:
                self.wrong.append(f"step {', '.join(self.open)} is open at the end")
            self.ended = True

    def step(self, artifact: Any) -> None:
        name = artifact["testStepId"]
        if not self.began:
            self.wrong.append(f"step {name} before the run")
        if "testStepStart" in artifact:
            if name in self.open or name in self.closed:
                self.wrong.append(f"step {name} starts twice")
            self.open[name] = _Step()
        elif name not in self.open:
            self.wrong.append(f"step {name} is not open")
        step = self.open.get(name, _Step())
        if "diagnosis" in artifact or "error" in artifact:
            step.broken = ""
        if "testStepEnd" in artifact:
            if step.series:
                self.wrong.append(f"series {', '.join(step.series)} never ends")
            if step.broken:
                self.wrong.append(f"{step.broken} is broken, and nothing says why")
            self.open.pop(name, None)
            self.closed.add(name)
        for kind in ("measurement", "measurementSeriesStart", "diagnosis"):
            part = artifact.get(kind, {}).get("hardwareInfoId")
            if part is not None and part not in self.hardware:
                self.wrong.append(f"{part} is no known part")
            for one in artifact.get(kind, {}).get("validators", ()):
                if one["type"] in NUMERIC and not number(one["value"]):
                    self.wrong.append(f"{one['type']} of {one['value']!r}")
                elif kind == "measurement" and one["type"] in MEETS:
                    value = artifact[kind]["value"]
                    if not MEETS[one["type"]](value, one["value"]):
                        step.broken = f"{one['type']} {one['value']} of {artifact[kind]['name']}"
        self._series(step.series, artifact)

    def _series(self, series: dict[str, int], artifact: Any) -> None:
        if begin := artifact.get("measurementSeriesStart"):
            series[begin["measurementSeriesId"]] = 0
        if element := artifact.get("measurementSeriesElement"):
            key = element["measurementSeriesId"]
            if element["index"] != series.get(key):
                self.wrong.append(f"element {element['index']} of series {key} is out of place")
            series[key] = series.get(key, 0) + 1
        end = artifact.get("measurementSeriesEnd")
        if end and series.pop(end["measurementSeriesId"], None) != end["totalCount"]:
            self.wrong.append(f"series {end['measurementSeriesId']} has another count")


def wrong_lines(output: str) -> list[str]:
    """Return everything that is wrong with the lines of a run, one phrase each."""
    if not output.endswith("\n"):
        return ["the last line has no end"]
    found: list[str] = []
    order = _Order()
    for place, line in enumerate(output.split("\n")[:-1]):
        try:
            data = json.loads(line, parse_constant=_refuse)
        except ValueError as error:
            found.append(f"line {place}: {error}")
            continue
        wrong = wrong_shape(data, LINE, f"line {place}")
        if not wrong:
            if data["sequenceNumber"] != place:
                order.wrong.append("it is out of sequence")
            if ("schemaVersion" in data) != (place == 0):
                order.wrong.append("the version is not first, or twice")
            if order.ended:
                order.wrong.append("it comes after the end")
            order.time(data["timestamp"])
            if "testRunArtifact" in data:
                order.run(data["testRunArtifact"])
            if "testStepArtifact" in data:
                order.step(data["testStepArtifact"])
            wrong = [f"line {place}: {one}" for one in order.wrong]
            order.wrong = []
        found += wrong
    return found if order.ended else [*found, "the run has no end"]


def artifacts(output: str) -> list[dict[str, Any]]:
    """Return the artifacts of all steps in order, each with the name of its step as ``step``."""
    names: dict[str, str] = {}
    found = []
    for line in output.splitlines():
        artifact = json.loads(line).get("testStepArtifact")
        if artifact is not None:
            if "testStepStart" in artifact:
                names[artifact["testStepId"]] = artifact["testStepStart"]["name"]
            found.append({**artifact, "step": names[artifact["testStepId"]]})
    return found
