"""The judge: pure functions from the recorded history of a cell to verdicts.

`judge_cell` in `cell` judges a whole history, `IncrementalJudge` in `incremental` asks of a growing one whether an
expectation holds yet. `conformance.trace` indexes the events, and answers what checks ask about the servers. The checks are
in `expectations` (of one scenario) and in `conformance.model` (of every cell); `harness` checks the harness itself. `blame`,
`verdict_builder` and `adjustments` make verdicts of what the checks find.

Nothing here does I/O, starts anything, or shares a rule with the reference server.
"""
