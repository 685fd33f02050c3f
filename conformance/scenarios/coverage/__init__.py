"""Which dimensions the corpus varies for which requirements, and why it does not vary the others; writes docs/coverage.md.

`dimensions.yaml` has the dimensions and the reasons, `detection` finds the dimensions that a cell varies, `table` combines both.
"""
