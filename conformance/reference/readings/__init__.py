"""Other readings of the contract that conform as well: each takes part in the node in place of the reference's own habit.

A check that fails a server for one of these is narrower than what the documents ask for.
"""
