"""A stand-in for the ``pynvml`` module: eight healthy cards, any call of which can be made to fail."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml

CODES = sorted(
    value
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_") and isinstance(value, int)
)

# A card's answers; what takes further arguments is a function of them.
ANSWERS: dict[str, Any] = {
    "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetUUID": lambda card: f"GPU-{card}",
    "nvmlDeviceGetSerial": lambda card: f"165{card}",
    "nvmlDeviceGetPciInfo": lambda card: SimpleNamespace(busId=f"0000000{0}:{card + 16:02X}:00.0"),
    "nvmlDeviceGetBoardPartNumber": "692-2G520",
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=85_520_809_984, free=1, used=2),
    "nvmlDeviceGetVbiosVersion": b"96.00.89.00.01",
    "nvmlDeviceGetInforomImageVersion": "G520.0200.00.05",
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
    "nvmlDeviceGetMaxClockInfo": lambda card, kind: {1: 1980, 2: 2619}[kind],
    "nvmlDeviceGetCudaComputeCapability": (9, 0),
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetTotalEccErrors": lambda card, kind, counter: 0,
    "nvmlDeviceGetRemappedRows": (1, 2, 0, 0),
    "nvmlDeviceGetRowRemapperHistogram": SimpleNamespace(max=639, high=1, partial=0, low=0, none=0),
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetRetiredPages": lambda card, cause: [17] if cause else [],
    "nvmlDeviceGetPowerUsage": 640_000,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=98, memory=40),
    "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
    "nvmlDeviceGetClockInfo": lambda card, kind: {1: 1900, 2: 2619}[kind],
    "nvmlDeviceGetTemperature": lambda card, sensor: 61,
    "nvmlDeviceGetPcieReplayCounter": 0,
    "nvmlDeviceGetTotalEnergyConsumption": 9_000_000,
    "nvmlDeviceGetViolationStatus": lambda card, policy: SimpleNamespace(
        referenceTime=1, violationTime=5
    ),
    "nvmlDeviceGetNvLinkErrorCounter": lambda card, link, counter: 0,
    "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=1)],
}


class FakeNvml:
    """Behaves like the bindings.

    Args:
        cards: How many cards there are.
        links: How many NVLinks each has.
        init: Error code of the initialisation, 0 for success.
        failing: (function, error code); the function fails for every card.
        only: Cards for which it fails; None: all.
    """

    NVMLError = pynvml.NVMLError
    NVML_NVLINK_MAX_LINKS = 36

    def __init__(
        self,
        cards: int = 2,
        links: int = 4,
        init: int = 0,
        failing: tuple[str, int] | None = None,
        only: int | None = None,
    ) -> None:
        self.cards = cards
        self.links = links
        self.init = init
        self.failing = failing
        self.only = only
        self.open = 0
        self.answers = dict(ANSWERS)
        self.fields: dict[Any, int] = {82: 72}

    def _field(self, card: int, field: int, scope: int = 0) -> SimpleNamespace:
        """Return one field; (card, field) goes before field, and what is unknown is not supported."""
        value = self.fields.get((card, field), self.fields.get(field))
        code = pynvml.NVML_ERROR_NOT_SUPPORTED if value is None else 0
        return SimpleNamespace(
            nvmlReturn=code, valueType=3, value=pynvml.c_nvmlValue_t(ullVal=value or 0)
        )

    def nvmlInit(self) -> None:  # noqa: N802 - the library's own name
        if self.init:
            raise pynvml.NVMLError(self.init)
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802 - the library's own name
        self.open -= 1

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments: self._answer(name, *arguments)

    def _answer(self, name: str, *arguments: Any) -> Any:
        assert self.open == 1, "a call outside of nvmlInit and nvmlShutdown"
        concerned = self.only is None or arguments[:1] == (self.only,)
        if self.failing and name == self.failing[0] and concerned:
            raise pynvml.NVMLError(self.failing[1])
        if name == "nvmlSystemGetDriverVersion":
            return "550.54.15"
        if name == "nvmlSystemGetCudaDriverVersion":
            return 12040
        if name == "nvmlDeviceGetCount":
            return self.cards
        if name == "nvmlDeviceGetHandleByIndex":
            return arguments[0]
        if name == "nvmlDeviceGetNvLinkState":
            if arguments[1] >= self.links:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
            return 1
        if name == "nvmlDeviceGetFieldValues":
            return [self._field(arguments[0], *wanted) for wanted in arguments[1]]
        if name == "nvmlDeviceGetTemperatureV" and name not in self.answers:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        answer = self.answers[name]
        return answer(*arguments) if callable(answer) else answer


CALLS = [
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetFieldValues",
    *ANSWERS,
]
