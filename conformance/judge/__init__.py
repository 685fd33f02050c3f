"""Pure functions from a history to verdicts: the invariants of all scenarios, the expectations of one.
Nothing here does I/O, starts anything, or shares a rule with the reference transport.
"""
