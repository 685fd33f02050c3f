"""The requirement catalogue: what must be true, as data with its sources, and who covers each row.

`catalogue` reads and looks up; `coverage` says which scenarios and defects stand for a requirement.
"""
