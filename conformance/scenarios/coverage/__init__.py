"""Which dimensions the corpus varies for which requirements, and why it does not vary the others; writes docs/coverage.md.

`dimensions.yaml` has the dimensions and the reasons. `detection` finds the dimensions that a cell varies, by the detectors in
`value_dimensions`, `mail_dimensions` and `server_dimensions`. `table` combines both.
"""
