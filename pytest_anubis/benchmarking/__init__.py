"""What authors of benchmarks use: the public helpers, of which `suites/` is made too.

Each module is imported by its own name (``from pytest_anubis.benchmarking.precision import tolerance``);
torch is loaded when a helper needs it, never by an import. Nothing here judges or writes: what a benchmark
hands to its fixtures is the affair of `session/`. Open `verification.py` first, and
`docs/writing-benchmarks.md`.

PYTEST_DONT_REWRITE
"""
