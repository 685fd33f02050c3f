"""The page of a run: summary, failures, matrix, requirement ledger. Needs neither Node nor Java nor a server.

`page` renders it; `matrix` is the table of candidates and scenarios behind it and behind the terminal's summary.
"""
