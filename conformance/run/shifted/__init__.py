"""The shifted clock: foreign programs at their own default timers, moved through days in seconds.

`shim/` is preloaded into the programs, `shim_library` compiles it and finds the programs that it does not reach,
`shared_page` is what both sides share, `process_tree` finds out when a program is quiet, and `loop` jumps. `shifted_program`
has what one node needs of these.
"""
