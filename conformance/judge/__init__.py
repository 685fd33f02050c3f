"""The judge: pure functions from the recorded history of a cell to verdicts.

`judge_cell` in `cell` judges a whole history, `IncrementalJudge` in `incremental` asks of a growing one whether an
expectation holds yet. `trace` and `sessions` index the events, `context` and `parameters` answer what checks ask about the
servers, `promotions` finds what no single event shows. The checks are in `expectations` (of one scenario) and `invariants`
(of every cell). `finding`, `blame`, `verdict_builder` and `adjustments` make verdicts of what they find.

Nothing here does I/O, starts anything, or shares a rule with the reference server.
"""
