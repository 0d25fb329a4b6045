"""Public helpers for authors of benchmarks; `suites/` uses them too.

Import each module by its own name (``from pytest_anubis.benchmarking.precision import tolerance``). Torch is
loaded when a helper needs it, never by an import. No helper judges or records values: that is the task of
`session/`. Open `verification.py` first, and `docs/writing-benchmarks.md`.

PYTEST_DONT_REWRITE
"""
