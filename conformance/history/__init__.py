"""What happened in a cell, in order: the one language between running, judging and reporting.

`events` holds the vocabulary, `recorder` numbers and stamps events as they happen.
"""
