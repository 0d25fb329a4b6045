"""Read what other tools print: one strict reader for each tool, without files or processes.

A reader takes the whole text and returns its values, or raises `UnreadableOutput`: an unknown format is never
guessed at. Adapters in `suites/tools/` and the importers of `store/` share the readers. `refusals.py`,
`failure_lines.py` and `table_heads.py` recognise lines of any tool or table. Open `unreadable.py` first, then
`plain_lines.py`.

PYTEST_DONT_REWRITE
"""
