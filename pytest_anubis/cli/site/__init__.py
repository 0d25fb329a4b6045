"""The pages of a fleet as files: what is read and judged, brought into one view, and written to a folder.

What the pages look like is in ``report/fleet``. Open ``site_writing.py`` first.

PYTEST_DONT_REWRITE
"""
