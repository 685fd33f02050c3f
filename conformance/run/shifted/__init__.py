"""The shifted clock: programs that nobody here wrote, at their own default timers, moved through days in seconds.

`shim/` is preloaded into them, `build` compiles it, `page` is what both sides share, `tree` sees when a program is
quiet, `programs` tells which programs the shim cannot reach, `loop` jumps.
"""
