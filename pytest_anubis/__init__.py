"""Hardware acceptance testing as a pytest plugin.

PYTEST_DONT_REWRITE
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
