"""Words that later versions say otherwise than the one that made the recordings."""

from __future__ import annotations

RENAMED: dict[str, str] = {
    # A threshold is a similarity (or the loss that it stands for), a limit a value in the metric's unit.
    "within the limit of": "within the threshold of",
    "beyond the practical limit of": "beyond the practical threshold of",
    # What was switched off stands in the headline now; the recorded runs used recorded inventories.
    "; switched off: reading this machine's inventory (a recorded one was used)": "",
    # What is written wrongly in a benchmark begins with the cause, and what is no number says what to record.
    "MetricUsageError: toy.py::test_wrong: metric": "metric",
    "NaN; record finite numbers, or skip the test": "NaN",
    # One benchmark that never ran has the next step that several have.
    ". Next step: run test_latency, or say what is required: --anubis-require NAME ('anubis judge': "
    "--require NAME; 'any' for whatever ran)": "",
    # Who has no baseline is told to learn from the tests that were given.
    "learn one with 'anubis learn suites/' on machines": "learn one with 'anubis learn cards.py' on machines",
    # A bare number is said without the unit of counts.
    "errors is exactly 0 errors as expected": "errors is 0, as it must be",
    # What cannot be collected is told with its cause, no longer with pytest's sentence on the file.
    "ImportError while importing test module '/recorded/uncollected/broken.py'.": "ModuleNotFoundError: "
    "No module named 'nowhere_to_be_found'",
}
"""Old word -> new word: whole words of texts, and of keys and texts of JSON documents.

They are put into what is found as well as into what is expected, since recorded journals keep their words.
"""
