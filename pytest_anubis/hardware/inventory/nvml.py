"""Call NVML and sort its errors: a feature that a card lacks gives None, a failure is noted by name."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

_ABSENT = frozenset((3, 13, 21, 22, 24, 26))
"""Codes for features that this card, driver or system does not have, which are absent and not broken: not
supported, no such function, no data, no ECC of a virtual card, no such frequency, deprecated."""

_NO_NVIDIA = frozenset((9, 12))
"""Codes of an initialisation on a machine without NVIDIA cards: no driver is loaded, no library found."""

VALUE_NAMES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of a field value's union, in the order of NVML's value types."""


class Nvml:
    """An open NVML library, used as a context manager.

    Args:
        module: The bindings; default imports ``pynvml`` (of the distribution nvidia-ml-py).

    Attributes:
        present: The library is there and initialised.
        unreadable: ``nvml: reason`` if initialising failed although a driver is loaded.
    """

    def __init__(self, module: Any = None) -> None:
        # Not in the thread that reads, because the import changes the process's filters of warnings.
        self._module = _bindings() if module is None else module
        self.present = False
        self.unreadable: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        if self._module is None:
            return self
        try:
            self._module.nvmlInit()
        except self._module.NVMLError as error:
            if code_of(error) not in _NO_NVIDIA:
                self.unreadable = (f"nvml: {describe(error)}",)
        except (OSError, AttributeError) as error:  # the library does not match the bindings
            self.unreadable = (f"nvml: {type(error).__name__}: {error}",)
        else:
            self.present = True
        return self

    def __exit__(self, *_: object) -> None:
        if self.present:
            self.present = False
            try:
                self._module.nvmlShutdown()
            except self._module.NVMLError:
                return  # a failed shut-down loses nothing

    def ask(self, field: str, notes: list[str], call: str, *arguments: Any) -> Any:
        """Call one NVML function.

        Args:
            field: Name of the sensor for the notes.
            notes: ``field: reason`` is added if the sensor exists and failed.
            call: Name of the function.
            arguments: Its arguments.

        Returns:
            The answer; None if the sensor does not exist or failed.
        """
        function: Callable[..., Any] | None = getattr(self._module, call, None)
        if function is None:  # the bindings are older than the function
            return None
        try:
            answer = function(*arguments)
        except self._module.NVMLError as error:
            if code_of(error) not in _ABSENT:
                notes.append(f"{field}: {describe(error)}")
            return None
        except (ValueError, TypeError, UnicodeDecodeError) as error:
            notes.append(f"{field}: {type(error).__name__}: {error}")
            return None
        return answer.decode(errors="replace") if isinstance(answer, bytes) else answer

    def clock_reasons(self, field: str, notes: list[str], handle: Any) -> Any:
        """Ask for the bits of why a card's clocks are low, by the call's name before NVML 12.2 if need be."""
        reasons = self.ask(field, [], "nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:
            reasons = self.ask(field, notes, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return reasons

    def refusal(self, call: str, *arguments: Any) -> str:
        """Call a function that returns nothing; return why it failed, or an empty text."""
        function: Callable[..., Any] | None = getattr(self._module, call, None)
        if function is None:
            return "the bindings do not have it"
        try:
            function(*arguments)
        except self._module.NVMLError as error:
            return describe(error)
        return ""

    def wait_event(self, events: Any, milliseconds: int) -> Any:
        """Wait for an event of a registered set.

        Raises:
            NVMLError: No event came (code 10), or the library failed.
        """
        return self._module.nvmlEventSetWait(events, milliseconds)

    def structure(self, name: str) -> Any:
        """Return a new structure of the bindings, None if they do not have it."""
        kind = getattr(self._module, name, None)
        return kind() if isinstance(kind, type) else None

    def fields(self, handle: Any, wanted: Sequence[tuple[int, int]]) -> list[int | None]:
        """Return field values in one call, None for each field that the card does not have.

        Args:
            handle: The card.
            wanted: Number and scope of each field; the scope is the link, or 0.
        """
        answer = self.ask("fields", [], "nvmlDeviceGetFieldValues", handle, list(wanted))
        values = [field_value(one) for one in answer or ()]
        known = [None if value is None else int(value) for value in values]
        return [*known, *[None] * len(wanted)][: len(wanted)]

    def constant(self, name: str, default: int) -> int:
        """Return a constant of the bindings, `default` if they do not have it."""
        return int(getattr(self._module, name, default))


def field_value(field: Any) -> float | None:
    """Return the value of one of NVML's field structures, None if the card does not have the field.

    The field's type says which member of the union has the value.
    """
    kind = int(field.valueType)
    if field.nvmlReturn != 0 or not 0 <= kind < len(VALUE_NAMES):
        return None
    value: float = getattr(field.value, VALUE_NAMES[kind])
    return value


def code_of(error: BaseException) -> int:
    """Return NVML's error code; 999 (unknown) if the exception has none."""
    value = getattr(error, "value", 999)
    return value if isinstance(value, int) else 999


def describe(error: BaseException) -> str:
    """Return the error's message and its code."""
    return f"{error} (NVML error {code_of(error)})"


def _bindings() -> Any:
    # The deprecated distribution of the same name warns at import, which must not stop a run. catch_warnings
    # cannot be used: in a thread that runs during a test, it would lose the test's warnings at its end.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pynvml")
    warnings.filterwarnings("ignore", "The pynvml package is deprecated", FutureWarning)
    try:
        return importlib.import_module("pynvml")
    except (ImportError, OSError, KeyError, AttributeError):
        return None
