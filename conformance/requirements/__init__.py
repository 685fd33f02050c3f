"""The requirement catalogue: what must be true of a transport, one testable statement a row, with its sources.

`catalogue` reads the rows, `coverage` finds the scenarios that judge a row and the defects that break it, `consequences`
says which violated row may follow from which.
"""
