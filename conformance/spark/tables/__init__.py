"""The tables that an aggregation writes: each a name, a title, and a query over the warehouse.

`verdicts` says what was found, `traffic` what was seen, `history` what changed from run to run,
`versions` what changed from version to version, `explorations` what explorations were worth and found.
"""
