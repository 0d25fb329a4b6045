"""What other tools print, as values: one reader for every kind of record, strict, without files or processes.

A reader takes the whole text and returns what it says, or raises `UnreadableOutput`: a format that changed is
never guessed at. Adapters in `suites/tools/` and the importers of `store/` use the same ones. Open
`unreadable.py` first, then `plain_lines.py`.

PYTEST_DONT_REWRITE
"""
